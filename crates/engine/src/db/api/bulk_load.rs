//! The bulk load: sorted entries go straight into runs, and become part of the table all at once (`jobs/load.rs`).

use std::mem;
use std::sync::Arc;

use crate::base::debug::debug_by;
use crate::base::key::{check_key, check_value};
use crate::base::{Entry, Error, Kind, Result, SeqNum};
use crate::db::jobs::load::LoadBelow;
use crate::db::jobs::load_conflicts::OnWritten;
use crate::db::jobs::output::run_writer::RunWriter;
use crate::db::open::core::Core;
use crate::db::state::table::TableState;

use super::snapshot::Snapshot;

/// So many bytes of a key are shown in a message.
const SHOWN_BYTES: usize = 64;

/// A load of sorted entries into a table, without redo log and memtable: the fastest way to write many at once. Made by
/// [`Table::bulk_load`](crate::Table::bulk_load).
///
/// Nothing of it is visible before [`BulkLoad::finish`], which adds all entries as one commit: it has one place in the
/// order of commits, so that it overwrites what was committed before and is overwritten by what comes after, and a
/// snapshot sees all of it or nothing. Transactions that began before and wrote a key of the load conflict with it. It
/// does not appear in the redo log, nor in [`Database::changes`](crate::Database::changes). A crash, or dropping the
/// load unfinished, leaves nothing of it.
///
/// ```
/// # use spinney::{Database, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// let table = db.create_table("numbers", TableOptions::default())?;
/// let mut load = table.bulk_load()?;
/// for number in 0..1000u64 {
///     load.push(&number.to_be_bytes(), b"value")?;
/// }
/// load.finish()?;
/// assert_eq!(db.snapshot().range(&table, ..).count(), 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a load that is not finished leaves nothing"]
pub struct BulkLoad<'a> {
    core: &'a Core,
    table: &'a Arc<TableState>,
    /// `None` after a failure, and when the load is finished.
    writer: Option<RunWriter<'a>>,
    last_key: Vec<u8>,
    /// The front of the value that came with it.
    last_value: Vec<u8>,
    entries: u64,
    below: Option<Below>,
}

/// Where a load goes that is older than all that its table holds.
struct Below {
    load: LoadBelow,
    /// Keeps the seqnum of the load's entries apart from those of younger writes.
    _snapshot: Snapshot,
}

impl<'a> BulkLoad<'a> {
    pub(crate) fn new(core: &'a Core, table: &'a Arc<TableState>) -> Result<Self> {
        core.state.health.check_writable()?;
        // Only the end of the load will tell where it goes.
        let filter_bits = f64::from(table.options.filter_bits_per_key);
        let writer = Some(RunWriter::of_load(&core.state, &table.options, filter_bits));
        Ok(Self { core, table, writer, last_key: Vec::new(), last_value: Vec::new(), entries: 0, below: None })
    }

    pub(crate) fn below(core: &'a Core, table: &'a Arc<TableState>, snapshot: &Snapshot) -> Result<Self> {
        let load = core.loader.begin_below(table, snapshot.seqnum())?;
        let mut begun = Self::new(core, table)?;
        begun.below = Some(Below { load, _snapshot: snapshot.clone() });
        Ok(begun)
    }

    /// Adds an entry. Its key must be above the one before.
    ///
    /// # Errors
    /// `Invalid` for a key that is not above the one before, naming both, for a key or value of a length that cannot be
    /// stored, and for a value that the table's merge operator refuses; `Io` and `Full` when a run cannot be written,
    /// which does no harm to the database; `Closed`. After an error the load is given up: its files are gone, and every
    /// further call is refused.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let pushed = self.try_push(key, value);
        if pushed.is_err() {
            self.give_up();
        }
        pushed
    }

    fn try_push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.core.state.health.check_open()?;
        check_key(key)?;
        check_value(value)?;
        self.table.check_value(value)?;
        let writer = self.writer.as_mut().ok_or_else(given_up)?;
        if *key <= *self.last_key {
            return Err(self.not_above(key, value));
        }
        writer.push(&Entry { key, seqnum: SeqNum::ZERO, kind: Kind::Put, value })?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.last_value.clear();
        self.last_value.extend_from_slice(&value[..value.len().min(SHOWN_BYTES + 1)]);
        self.entries += 1;
        Ok(())
    }

    /// The error of a key that is not above the one before.
    #[cold]
    fn not_above(&self, key: &[u8], value: &[u8]) -> Error {
        let (last, shown_key) = (shown(&self.last_key), shown(key));
        let mut message = format!("a bulk load needs ascending keys: '{shown_key}' came after '{last}'");
        if *key == *self.last_key {
            let (first, second) = (shown(&self.last_value), shown(value));
            message += &format!(", with value '{second}' after '{first}'");
        }
        Error::invalid(message)
    }

    /// How many entries were added.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Makes all entries visible, at once and durably; and with them everything that was committed before.
    ///
    /// Commits go on meanwhile; those that are ordered after the load, of any table, return when it is visible, which
    /// is soon: it takes the flush of what was written to the table during the last moments, and one record in the
    /// manifest. A B-tree takes the entries in by one merge afterwards; until then they are read beside it.
    ///
    /// # Errors
    /// `Invalid` when the load was given up, `Dropped` when the table was; `Io`, `Full`, `Poisoned`, `Closed`. Unless
    /// the database is poisoned (then the next open shows whether the load is durable), nothing was added.
    pub fn finish(self) -> Result<()> {
        self.finish_runs(None)
    }

    /// As [`BulkLoad::finish`], of a load that [`Table::bulk_load_below`](crate::Table::bulk_load_below) has begun:
    /// then calls `check`, in key order, with each of its keys that was written since the snapshot, the value that was
    /// loaded, and what the key has now, which is nothing when it was deleted. Commits that begin after `finish_with`
    /// is through see the load; `check` is told of all others.
    ///
    /// This is how a unique index that is built online finds the rows that have a key in common: what was loaded and
    /// what the key has now name different rows.
    ///
    /// # Errors
    /// As [`BulkLoad::finish`]; `Invalid` for another load, which is given up. The first error of `check` ends the
    /// checks and is returned: the entries are in the table all the same, which can be dropped.
    pub fn finish_with(self, mut check: impl FnMut(&[u8], &[u8], Option<&[u8]>) -> Result<()>) -> Result<()> {
        if self.below.is_none() {
            return Err(Error::invalid("only a load below the writes of its table has writes to check"));
        }
        self.finish_runs(Some(&mut check))
    }

    fn finish_runs(mut self, check: Option<OnWritten<'_>>) -> Result<()> {
        self.writer.as_mut().ok_or_else(given_up)?.complete()?;
        self.core.state.health.check_writable()?;
        self.table.check()?;
        let writer = self.writer.take().ok_or_else(given_up)?;
        let runs = writer.finish()?;
        match self.below.take() {
            Some(Below { load, .. }) => self.core.loader.load_below(load, &runs, check),
            None => self.core.loader.load(self.table, &runs),
        }
    }

    fn give_up(&mut self) {
        if self.core.state.health.is_forked() {
            // Its files are the other process's, and what writes them waits for threads that are not here.
            mem::forget((self.writer.take(), self.below.take()));
        }
        if let Some(writer) = self.writer.take() {
            writer.discard();
        }
        self.below = None;
    }
}

impl Drop for BulkLoad<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

debug_by!(BulkLoad<'_>, self => table: self.table.name, entries: self.entries);

fn given_up() -> Error {
    Error::invalid("the bulk load failed before and was given up: begin a new one")
}

/// A key in a message.
fn shown(key: &[u8]) -> String {
    let rest = if key.len() > SHOWN_BYTES { "..." } else { "" };
    format!("{}{rest}", key[..key.len().min(SHOWN_BYTES)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use crate::env::sim::SimEnv;
    use crate::{Database, TableOptions};

    use super::*;
    use crate::base::ErrorKind;
    use crate::txn::publish::Seqnums;

    #[test]
    fn between_its_place_in_the_order_and_its_publication_a_load_conflicts_and_is_not_seen() {
        let sim = SimEnv::new(1);
        let db = Database::builder("/db").env(sim.env()).open().unwrap();
        let table = db.create_table("t", TableOptions::default()).unwrap();
        let (core, state) = (db.core(), table.state());
        let mut writer = RunWriter::of_load(&core.state, &state.options, 10.0);
        for key in [b"k2", b"k4", b"k6"] {
            writer.push(&Entry { key, seqnum: SeqNum::ZERO, kind: Kind::Put, value: b"loaded" }).unwrap();
        }
        let runs = writer.finish().unwrap();
        let mut batch = crate::Batch::new();
        batch.put(&table, b"k2", b"written while the load ends");
        db.write_with(&batch, crate::Durability::Sync).unwrap();
        let mut txn = db.begin();
        txn.put(&table, b"k4", b"mine").unwrap();
        let ticket = core.loader.order(state, (b"k2", b"k6")).unwrap();
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
        core.flusher.flush_gated(state, ticket.seqnum, &core.flusher.lock_gate()).unwrap();
        core.loader.show(state, &runs, &ticket, true).unwrap();
        let before = db.snapshot();
        let seen = |snapshot: &Snapshot| {
            let got = snapshot.get(&table, b"k4").unwrap().is_some();
            let values: Vec<_> = snapshot.range(&table, ..).map(|entry| entry.unwrap().1.to_vec()).collect();
            let before = vec![b"written while the load ends".to_vec()];
            assert_eq!(values, if got { vec![b"loaded".to_vec(); 3] } else { before });
            got
        };
        assert!(!seen(&before));
        core.commits.order.lock().loads.clear();
        core.commits.publish(Seqnums::one(ticket.seqnum)).unwrap();
        core.loader.end_pending(&runs);
        assert!(seen(&db.snapshot()) && !seen(&before));
        table.compact().unwrap();
        assert!(seen(&db.snapshot()) && !seen(&before));
    }

    /// Results of a compaction come to levels as if a load that came meanwhile were not there.
    #[test]
    fn runs_that_a_compaction_under_way_may_meet_stay_in_l0() {
        let sim = SimEnv::new(1);
        let db = Database::builder("/db").env(sim.env()).open().unwrap();
        let table = db.create_table("t", TableOptions::default()).unwrap();
        let (core, state) = (db.core(), table.state());
        let shown = |key: &[u8], compacted: Option<(&[u8], &[u8])>| {
            let mut writer = RunWriter::of_load(&core.state, &state.options, 10.0);
            writer.push(&Entry { key, seqnum: SeqNum::ZERO, kind: Kind::Put, value: b"loaded" }).unwrap();
            let runs = writer.finish().unwrap();
            let ticket = core.loader.order(state, (key, key)).unwrap();
            *state.compaction.target_range.lock() = compacted.map(|(low, high)| (low.to_vec(), high.to_vec()));
            core.loader.show(state, &runs, &ticket, false).unwrap();
            *state.compaction.target_range.lock() = None;
            core.commits.order.lock().loads.clear();
            core.commits.publish(Seqnums::one(ticket.seqnum)).unwrap();
            core.loader.end_pending(&runs);
            let shape = table.shape().unwrap();
            (shape.l0.len(), shape.levels.first().map_or(0, |level| level.runs))
        };
        assert_eq!(shown(b"a", None), (1, 0), "nobody knows of which keys it is");
        assert_eq!(shown(b"e", Some((b"d", b"g"))), (2, 0), "within its range, though of none of its keys");
        assert_eq!(shown(b"c", Some((b"d", b"g"))), (2, 1));
        assert_eq!(shown(b"h", Some((b"d", b"g"))), (2, 2));
        assert_eq!(db.snapshot().range(&table, ..).count(), 4);
    }
}
