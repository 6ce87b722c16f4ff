//! Queries beside inserts and deletes.

use super::{ROWS, RowMaker, Steps};
use crate::driver::{Client, Scan, TableId, unless_lacking};
use crate::random::Random;
use crate::run::{Db, Did, End, Plan, Role};
use anyhow::{Result, ensure};

/// Entries that a range query reads.
const RANGE_ENTRIES: u64 = 10;

/// Queries for which a reader keeps its view of the database.
const VIEW_CALLS: u64 = 100;

impl<'a> Steps<'a> {
    /// qr: ranges of the indexes, in turns, from the entry on that a random row would have.
    pub(super) fn query_ranges(&self, db: &mut Db<'_, '_>, rate: u32) -> Result<()> {
        let indexes = self.indexes();
        if indexes == 0 {
            return Ok(());
        }
        let (seed, filler, live) = (self.common.seed, self.insert.row_bytes as usize, self.live);
        let make = move |number: usize| {
            let mut random = Random::of(seed ^ u64::from(rate), number as u64);
            let mut row = RowMaker::new(seed ^ 1, filler);
            let mut calls = 0;
            move |client: &mut dyn Client, _at: u64| {
                look(client, &mut calls)?;
                row.make(random.below(live.inserted().max(1)));
                let index = usize::try_from(calls % indexes as u64).expect("below the number of indexes");
                let scan = Scan::from(TableId(ROWS.0 + 1 + index), row.entries()[index], RANGE_ENTRIES);
                let mut read = 0;
                client.scan(&scan, &mut |key, _| read += key.len() as u64)?;
                Ok(Did::read(read))
            }
        };
        let role = Role::new(&["range"], self.clients(), End::Seconds(self.insert.seconds), make);
        self.query(db, &format!("qr{rate}"), role, rate)
    }

    /// qp: rows by primary key, of the three newer quarters, so that none of them is deleted meanwhile.
    pub(super) fn query_points(&self, db: &mut Db<'_, '_>, rate: u32) -> Result<()> {
        let (seed, live) = (self.common.seed, self.live);
        let make = move |number: usize| {
            let mut random = Random::of(seed ^ u64::from(rate) ^ 1, number as u64);
            let (mut calls, mut newest) = (0, 0);
            move |client: &mut dyn Client, _at: u64| {
                if look(client, &mut calls)? {
                    newest = live.inserted();
                }
                let oldest = live.deleted();
                let quarter = (newest - oldest.min(newest)) / 4;
                let pk = oldest + quarter + random.below((newest - oldest - quarter).max(1));
                let mut read = 0;
                let there = client.get(ROWS, &pk.to_be_bytes(), &mut |value| read = value.len() as u64)?;
                ensure!(there, "row {pk} is not there, of {oldest} to {newest}");
                Ok(Did::read(8 + read))
            }
        };
        let role = Role::new(&["point"], self.clients(), End::Seconds(self.insert.seconds), make);
        self.query(db, &format!("qp{rate}"), role, rate)
    }

    fn query(&self, db: &mut Db<'_, '_>, step: &str, queries: Role<'a>, rate: u32) -> Result<()> {
        let mut roles = vec![queries];
        roles.extend(self.beside(rate));
        let live_bytes = Some(self.live_bytes(self.live.rows(), self.indexes()));
        db.step(&Plan { name: self.name(step), unit: "query", roles, live_bytes }).map(drop)
    }
}

/// Takes a new view now and then; says whether it did.
fn look(client: &mut dyn Client, calls: &mut u64) -> Result<bool> {
    let due = calls.is_multiple_of(VIEW_CALLS);
    if due {
        drop(unless_lacking(client.view())?);
    }
    *calls += 1;
    Ok(due)
}
