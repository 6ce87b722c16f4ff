//! What a run that was interrupted left: the rows that are there, and how many the steps before were to leave.

use super::changes::BATCH_BESIDE;
use super::entries::ROWS;
use super::steps::Steps;
use crate::driver::{Client, Direction, Scan};
use crate::run::Db;
use anyhow::{Context as _, Result};

/// Rows that the steps so far inserted and deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) inserted: u64,
    pub(super) deleted: u64,
}

/// Batches of a client beside an end of the rows in which one may be missing.
const BATCHES_OPEN: u64 = 2;

impl Steps<'_> {
    /// What the steps before this one inserted and deleted: all that there is, unless some of this step is done, which
    /// was interrupted. Then it is what they say of themselves.
    pub(super) fn rows_before(&self, db: &mut Db<'_, '_>) -> Before {
        if !db.bench().is_ahead() {
            return Before { inserted: self.live.inserted(), deleted: self.live.deleted() };
        }
        let of_this = |name: &str| name.split(' ').nth(1) == Some(self.label);
        let steps: Vec<_> = db.bench().steps().iter().filter(|step| of_this(&step.name)).collect();
        let sum = |kind| steps.iter().filter_map(|step| Some(step.operation(kind)?.operations)).sum();
        Before { inserted: sum("insert"), deleted: sum("delete") }
    }

    /// Finds out which rows a database has.
    ///
    /// Of several clients one may have been killed with its batch not written and that of another behind it: rows
    /// behind such a gap are inserted again, and those before a gap among the oldest are deleted.
    pub(super) fn find_rows(&self, db: &Db<'_, '_>) -> Result<()> {
        let mut client = db.store().client()?;
        let ends = (end(&mut *client, Direction::Forward)?, end(&mut *client, Direction::Backward)?);
        let (Some(first), Some(last)) = ends else { return Ok(()) };
        let open = BATCHES_OPEN * self.clients() as u64 * self.insert.batch.max(BATCH_BESIDE);
        let newest = keys(&mut *client, last.saturating_sub(open).max(first), last + 1)?;
        let until = newest.windows(2).find(|pair| pair[1] != pair[0] + 1).map_or(last + 1, |pair| pair[0] + 1);
        let oldest = keys(&mut *client, first, until.min(first + open))?;
        let from = oldest.windows(2).rev().find(|pair| pair[1] != pair[0] + 1).map_or(first, |pair| pair[1]);
        if from > first {
            self.maker()().delete(&mut *client, first..from, self.indexes())?;
        }
        self.live.set(from..until);
        Ok(())
    }
}

/// The first or the last row.
fn end(client: &mut dyn Client, direction: Direction) -> Result<Option<u64>> {
    let mut found = None;
    client.scan(&Scan { direction, limit: 1, ..Scan::all(ROWS) }, &mut |key, _| found = Some(number(key)))?;
    found.transpose()
}

/// The rows that are there, of those in a range.
fn keys(client: &mut dyn Client, from: u64, until: u64) -> Result<Vec<u64>> {
    let (from, until) = (from.to_be_bytes(), until.to_be_bytes());
    let mut found = Vec::new();
    let scan = Scan { from: Some(&from), until: Some(&until), ..Scan::all(ROWS) };
    client.scan(&scan, &mut |key, _| found.push(number(key)))?;
    found.into_iter().collect()
}

fn number(key: &[u8]) -> Result<u64> {
    Ok(u64::from_be_bytes(key.try_into().context("a key of a row has 8 bytes")?))
}
