//! Flushes of many tables with little in memory, made together: their files are written one after the other, become
//! durable by one sync, and come into their tables by one record in the manifest.
//!
//! Alone, each would wait for the device three times: for its file, for the directory and for the manifest.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use crate::base::{Error, Lsn, Result, SeqNum};
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::state::State;
use crate::db::state::table::TableState;
use crate::table::files::FileKind;
use crate::table::memtable_handle::SMALL_BYTES;

use super::flush::{Flush, Frontier, Written};
use super::install::{TreeChange, install_together};
use super::job::is_lack;

/// The most tables that are flushed together, and the most bytes of their memtables: what they hold takes memory until
/// all are written.
const GROUP_TABLES_MAX: usize = 1024;
const GROUP_BYTES_MAX: u64 = 32 << 20;

/// What came of flushes that were made together.
#[derive(Debug, Default)]
pub(super) struct GroupFlushed {
    /// How many were made.
    pub(super) made: usize,
    /// What the first one lacked that could not be made.
    pub(super) lack: Option<Error>,
}

/// Puts tables with sealed memory, in the order in which they are to be flushed, into groups: each has one table, or
/// several with little. A group takes the place of its first table.
pub(super) fn groups(tables: Vec<Arc<TableState>>) -> VecDeque<Vec<Arc<TableState>>> {
    let sealed_bytes = |table: &TableState| {
        let version = table.version.load();
        version.immutables.iter().map(|mem| mem.accounted_bytes()).sum::<u64>()
    };
    let mut groups = VecDeque::new();
    // The group of small tables that is not full yet, and the bytes of its memtables.
    let mut open: Option<(usize, u64)> = None;
    for table in tables {
        let bytes = sealed_bytes(&table);
        if bytes > SMALL_BYTES {
            groups.push_back(vec![table]);
            continue;
        }
        match &mut open {
            Some((at, sum)) if groups[*at].len() < GROUP_TABLES_MAX && *sum + bytes <= GROUP_BYTES_MAX => {
                *sum += bytes;
                groups[*at].push(table);
            }
            _ => {
                open = Some((groups.len(), bytes));
                groups.push_back(vec![table]);
            }
        }
    }
    groups
}

/// Makes flushes together, and gives up the log that no table needs then. A flush that lacks space or descriptors is
/// left out.
pub(super) fn flush_together(
    (state, commits): (&State, &CommitPipeline),
    flushes: Vec<Flush<'_>>,
    next_seqnum: SeqNum,
) -> Result<GroupFlushed> {
    state.or_poison(state.manifest.lock().raise_seqnum_floor(next_seqnum))?;
    let (mut flushed, mut written) = (GroupFlushed::default(), Vec::with_capacity(flushes.len()));
    for flush in flushes {
        // Which of the log is not needed any more is only known when it is known which are made.
        match flush.write(Frontier { next_seqnum, log_from: Lsn::default() }, false) {
            Err(error) if is_lack(&error) => {
                flushed.lack.get_or_insert(error);
            }
            done => written.push(done?),
        }
    }
    let names: Vec<String> = written.iter().flat_map(names).collect();
    if !names.is_empty() {
        // What a failed sync of the directory may have lost is more than these files.
        state.or_poison(state.files.sync_files(&names))?;
        let merged = written.iter().filter(|written| written.change.root.is_some());
        merged.filter_map(|written| written.table.btree()).for_each(|btree| btree.synced());
    }
    let mems: Vec<_> = written.iter().flat_map(|written| &written.mems).cloned().collect();
    let (_, log_from) = commits.log_needed_from(&mems);
    let change = |written: &mut Written<'_>| {
        written.change.flushed.iter_mut().for_each(|flushed| flushed.log_from = log_from);
        mem::replace(&mut written.change, TreeChange::none())
    };
    let changes = written.iter_mut().map(|written| (written.table, change(written))).collect();
    state.or_poison(install_together(state, changes))?;
    flushed.made = written.len();
    written.into_iter().try_for_each(Written::installed)?;
    state.or_poison(commits.release_log(log_from))?;
    Ok(flushed)
}

/// The names of the files that a flush has written.
fn names(written: &Written<'_>) -> Vec<String> {
    let runs = written.change.added.iter();
    let values = runs.clone().flat_map(|handle| handle.run.values().iter());
    let values = values.map(|file| FileKind::Values.name(file.id()));
    let tree = written.change.root.as_ref().and(written.table.btree());
    let tree = tree.and_then(|btree| btree.path().file_name()?.to_str().map(str::to_owned));
    runs.map(|handle| FileKind::Run.name(handle.id)).chain(values).chain(tree).collect()
}
