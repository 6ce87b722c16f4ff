//! Reclaiming the space of dead values: value files that are mostly dead are emptied by compactions, and go when
//! nothing refers to them.

use std::sync::Arc;

use crate::base::{Error, ErrorKind, FileId, Result};
use crate::table::files::FileKind;
use crate::table::policy::{self, Compaction};
use crate::table::{RunHandle, Trees};
use crate::tree::values::ValueFile;

use super::compact::Step;
use super::core::{Core, TableState};

impl Core {
    /// The value files whose values a compaction writes anew where it meets them; none when the free space is not
    /// enough for that too.
    pub(super) fn values_anew(&self, trees: &Trees, compaction: &Compaction) -> Result<Vec<FileId>> {
        let emptied = policy::emptied(trees, policy::LIVE_PERCENT);
        if emptied.is_empty() {
            return Ok(emptied);
        }
        let needs = compaction.bytes() + policy::moved_bytes(compaction, &emptied);
        Ok(if needs <= self.room_on_disk()? { emptied } else { Vec::new() })
    }

    /// Does the next compaction that empties value files, if less than so much of them is live. The caller holds the
    /// compaction latch.
    pub(super) fn reclaim_step(&self, table: &Arc<TableState>, live_percent: u64) -> Result<Step> {
        let trees = Arc::clone(&table.version.load().trees);
        let Some(compaction) = policy::pick_values(&trees, live_percent) else { return Ok(Step::Nothing) };
        let emptied = policy::emptied(&trees, live_percent);
        let needs = compaction.bytes() + policy::moved_bytes(&compaction, &emptied);
        let room = self.room_on_disk()?;
        if needs > room {
            return Ok(Step::NoRoom(needs - room));
        }
        drop(trees);
        self.run_compaction(table, compaction, emptied).map(|()| Step::Done)
    }

    /// Empties all value files of a table of which anything to speak of is dead.
    pub(super) fn reclaim_all(&self, table: &Arc<TableState>) -> Result<()> {
        loop {
            self.health.check_writable()?;
            match self.reclaim_step(table, policy::PACKED_PERCENT)? {
                Step::Done if table.check().is_ok() => {}
                Step::Done | Step::Nothing => return Ok(()),
                Step::NoRoom(bytes) => {
                    let message = format!(
                        "table '{}': to reclaim the space of dead values {bytes} bytes more of free space are needed",
                        table.name
                    );
                    return Err(Error::new(ErrorKind::Full, message));
                }
            }
        }
    }

    /// Removes runs that the manifest no longer names.
    pub(super) fn remove_runs(&self, runs: impl IntoIterator<Item = FileId>) {
        runs.into_iter().for_each(|id| self.remove(&FileKind::Run.path(&self.dir, id)));
    }

    /// Removes value files to which nothing in the manifest refers any more.
    pub(super) fn remove_values<'a>(&self, files: impl Iterator<Item = &'a Arc<ValueFile>>) {
        files.for_each(|file| self.remove(&FileKind::Values.path(&self.dir, file.id())));
    }

    /// Removes runs that did not become part of a table, with the value files that were written with them, if the
    /// manifest does not name them for certain.
    pub(super) fn give_up_output(&self, table: &TableState, runs: &[RunHandle], error: Error) -> Error {
        if error.is_unchanged() {
            self.remove_new(table, runs);
        }
        error
    }

    /// Removes runs that did not become part of the table, with the value files that were written with them, and not
    /// those that were there before.
    pub(super) fn remove_new(&self, table: &TableState, runs: &[RunHandle]) {
        let known = &table.version.load().trees.values;
        self.remove_runs(runs.iter().map(|handle| handle.id));
        runs.iter().for_each(|handle| self.remove_values(handle.run.values().without(known)));
    }

    /// Removes runs that never became part of a table, or of one that was dropped, with all value files that they refer
    /// to.
    pub(super) fn remove_output(&self, runs: &[RunHandle]) {
        self.remove_runs(runs.iter().map(|handle| handle.id));
        runs.iter().for_each(|handle| self.remove_values(handle.run.values().iter()));
    }
}
