//! Queries beside inserts and deletes.

use super::changes::BATCH_BESIDE;
use super::steps::Steps;
use crate::driver::{Client, unless_lacking};
use crate::random::Random;
use crate::run::{Db, Did, End, Plan, Role};
use anyhow::{Result, ensure};

/// Queries for which a reader keeps its view of the database.
const VIEW_CALLS: u64 = 100;

impl<'a> Steps<'a> {
    /// qr: ranges of the indexes, in turns, from the entry on that a random row would have.
    pub(super) fn query_ranges(&self, db: &mut Db<'_, '_>, rate: u32) -> Result<()> {
        let indexes = self.indexes();
        if indexes == 0 {
            return Ok(());
        }
        let (seed, filler, live, form) = (self.common.seed, self.insert.row_bytes as usize, self.live, self.form);
        let make = move |number: usize| {
            let mut random = Random::of(seed ^ u64::from(rate), number as u64);
            let mut rows = form.rows(seed ^ 1, filler);
            let mut calls = 0;
            move |client: &mut dyn Client, _at: u64| {
                look(client, &mut calls)?;
                let index = usize::try_from(calls % indexes as u64).expect("below the number of indexes");
                Ok(Did::read(rows.range(client, index, random.below(live.inserted().max(1)))?))
            }
        };
        let role = Role::new(&["range"], self.clients(), End::Seconds(self.insert.seconds), make);
        self.query(db, &format!("qr{rate}"), role, rate)
    }

    /// qp: rows by primary key, of the three newer quarters, so that none of them is deleted meanwhile unless the table
    /// is small.
    pub(super) fn query_points(&self, db: &mut Db<'_, '_>, rate: u32) -> Result<()> {
        let (seed, live) = (self.common.seed, self.live);
        // Of several clients that insert one may be behind the others, and its rows missing between others.
        let complete = if self.clients() > 1 { live.inserted() } else { u64::MAX };
        let unacknowledged = if self.insert.deletes { self.clients() as u64 * BATCH_BESIDE } else { 0 };
        let maker = self.maker();
        let make = move |number: usize| {
            let mut random = Random::of(seed ^ u64::from(rate) ^ 1, number as u64);
            let (mut rows, mut calls, mut newest) = (maker(), 0, 0);
            move |client: &mut dyn Client, _at: u64| {
                // A view has all rows that were acknowledged before it was taken.
                let inserted = live.inserted();
                if newest <= live.deleted() {
                    calls = 0;
                }
                if look(client, &mut calls)? {
                    newest = inserted;
                }
                let oldest = live.deleted();
                let Some(live_rows) = newest.checked_sub(oldest).filter(|&live_rows| live_rows > 0) else {
                    return Ok(Did::idle());
                };
                let pk = oldest + live_rows / 4 + random.below(live_rows - live_rows / 4);
                let read = rows.point(client, pk)?;
                // In a small table the deletes may have come to the row meanwhile, and not be acknowledged yet.
                let may_be_missing = pk < live.deleted() + unacknowledged || pk >= complete;
                ensure!(read.is_some() || may_be_missing, "row {pk} is not there, of {oldest} to {newest}");
                Ok(Did::read(read.unwrap_or(8)))
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
