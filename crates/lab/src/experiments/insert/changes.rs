//! The steps that insert and delete rows, and those changes beside queries.

use super::live::Claims;
use super::steps::Steps;
use crate::driver::Client;
use crate::run::{Db, Did, End, Plan, Role};
use anyhow::{Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows that inserts may be ahead of deletes in a step in which both go as fast as they can.
const AHEAD_MAX: u64 = 1_000;

/// Rows of a transaction beside queries.
pub(super) const BATCH_BESIDE: u64 = 50;

impl<'a> Steps<'a> {
    /// l.i0: rows without index entries.
    pub(super) fn load(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let (rows, batch) = (self.insert.rows, self.insert.batch);
        let rows_left = rows.saturating_sub(self.live.inserted());
        let inserts =
            self.inserts(0, Share { rows: rows_left, batch }, &self.claims(), None).at_most(self.insert.load_seconds);
        let plan = Plan {
            name: self.name("l.i0"),
            unit: "row",
            roles: vec![inserts],
            live_bytes: Some(self.live_bytes(rows, 0)),
        };
        db.step(&plan).map(drop)
    }

    /// l.i1 and l.i2: rows with index entries, and as many deletes of the oldest ones.
    pub(super) fn change(&self, db: &mut Db<'_, '_>, step: &str, batch: u64, rows: u64) -> Result<()> {
        // What the step is to come to: if it was interrupted, some of it is done.
        let begun = self.rows_before(db);
        let until = begun.inserted + rows;
        let share = Share { rows: until.saturating_sub(self.live.inserted()), batch };
        let keep = self.insert.deletes.then_some(begun.inserted - begun.deleted);
        let claims = self.claims();
        let inserts = self.inserts(self.indexes(), share, &claims, keep).at_most(self.insert.load_seconds);
        let mut roles = vec![inserts];
        if let Some(keep) = keep {
            // Deletes that are behind when the inserts have ended are part of the step.
            let rows_left = until.saturating_sub(keep + self.live.deleted());
            roles.push(self.deletes(batch, keep, &claims, End::Calls(rows_left / batch)));
        }
        let rows_after = keep.unwrap_or(until - begun.deleted);
        let live_bytes = Some(self.live_bytes(rows_after, self.indexes()));
        db.step(&Plan { name: self.name(step), unit: "row", roles, live_bytes }).map(drop)
    }

    /// Inserts and deletes at so many rows per second each, until the first role ends.
    pub(super) fn beside(&self, rate: u32) -> Vec<Role<'a>> {
        let calls = f64::from(rate) / BATCH_BESIDE as f64;
        let keep = self.live.rows();
        let claims = self.claims();
        let share = Share { rows: u64::MAX, batch: BATCH_BESIDE };
        let inserts = Role { end: End::WithFirst, ..self.inserts(self.indexes(), share, &claims, None) };
        let mut roles = vec![inserts.at_rate(Some(calls))];
        if self.insert.deletes {
            roles.push(self.deletes(BATCH_BESIDE, keep, &claims, End::WithFirst).at_rate(Some(calls)));
        }
        roles
    }

    /// The rows that a step inserts: those after the newest.
    fn claims(&self) -> Claims {
        Claims::new(self.live.inserted(), self.clients())
    }

    /// Clients that insert; with `keep`, only while not too many more rows than that are live.
    fn inserts(&self, indexes: usize, share: Share, claims: &Claims, keep: Option<u64>) -> Role<'a> {
        let (live, maker) = (self.live, self.maker());
        let (claims, taken) = (claims.clone(), claims.clone());
        let make = move |number| {
            let (mut own, claims) = (maker(), taken.clone());
            move |client: &mut dyn Client, at: u64| {
                // Deletes wait for the oldest batch that was taken: its client does not wait for them.
                if keep.is_some_and(|keep| live.rows() > keep + AHEAD_MAX) && !claims.is_writing(number) {
                    return Ok(Did::idle());
                }
                let rows = share.batch.min(share.rows - at * share.batch);
                let first = claims.take(number, rows);
                let written = own.insert(client, first..first + rows, indexes)?;
                Ok(Did::wrote(written).operations(rows))
            }
        };
        Role::new(&["insert"], self.clients(), End::Calls(share.rows.div_ceil(share.batch)), make).then(
            move |number, did| {
                claims.written(number);
                live.add_inserted(did.operations);
            },
        )
    }

    /// Clients that delete the oldest rows while more than `keep` are live, of those whose insert is acknowledged.
    fn deletes(&self, rows: u64, keep: u64, claims: &Claims, end: End) -> Role<'a> {
        let (live, indexes, claims) = (self.live, self.indexes(), claims.clone());
        let oldest = Arc::new(AtomicU64::new(live.deleted()));
        let maker = self.maker();
        let make = move |_client| {
            let (mut own, claims, oldest) = (maker(), claims.clone(), Arc::clone(&oldest));
            move |client: &mut dyn Client, _at: u64| {
                let until = claims.complete_until().saturating_sub(keep);
                let next = |from: u64| (from + rows <= until).then_some(from + rows);
                let Ok(from) = oldest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) else {
                    return Ok(Did::idle());
                };
                let (deleted, written) = own.delete(client, from..from + rows, indexes)?;
                ensure!(deleted == rows, "of the {rows} rows from {from} on only {deleted} are there");
                Ok(Did::wrote(written).operations(rows))
            }
        };
        Role::new(&["delete"], self.clients(), end, make).then(|_client, did| live.add_deleted(did.operations))
    }
}

/// How many rows a step inserts, and how many of them in one transaction.
#[derive(Clone, Copy)]
struct Share {
    rows: u64,
    batch: u64,
}
