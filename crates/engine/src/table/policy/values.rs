//! Space in value files: which files are worth emptying, and the compaction that does it.
//!
//! A value is dead when no run refers to it any more. Its space comes back with its whole file, when every value in it
//! is dead or was rewritten elsewhere. Compactions rewrite the values that they meet in files of which less than
//! [`LIVE_PERCENT`] is live; and when less than that is live of all files together, and no other compaction is due, a
//! run is compacted for it. So values take at most twice the space that runs refer to, and each byte that is rewritten
//! frees at least one. (WiscKey and Titan look for dead values by reading files; RocksDB's BlobDB counts, as here, but
//! goes by the age of files.)

use std::collections::BTreeMap;

use super::compaction::Compaction;
use crate::base::FileId;
use crate::table::level::{LevelId, RunHandle};
use crate::table::trees::Trees;

/// Bytes in a table's value files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueBytes {
    /// In all files.
    pub total: u64,
    /// Of values that runs refer to.
    pub live: u64,
}

impl ValueBytes {
    /// How much of a table's value files is live.
    #[must_use]
    pub fn of(trees: &Trees) -> Self {
        let total = trees.values.iter().map(|file| file.bytes()).sum();
        Self { total, live: live(trees).values().sum() }
    }
}

/// The live bytes of each value file.
fn live(trees: &Trees) -> BTreeMap<FileId, u64> {
    let mut live = BTreeMap::new();
    for handle in trees.runs() {
        for reference in &handle.run.meta().references {
            *live.entry(reference.file).or_default() += reference.bytes;
        }
    }
    live
}

/// The value files of which less than `live_percent` percent is live.
#[must_use]
pub fn emptied(trees: &Trees, live_percent: u64) -> Vec<FileId> {
    if trees.values.iter().next().is_none() {
        return Vec::new();
    }
    let live = live(trees);
    let is_emptied = |id: FileId, bytes: u64| live.get(&id).copied().unwrap_or(0) * 100 < bytes * live_percent;
    trees.values.iter().filter(|file| is_emptied(file.id(), file.bytes())).map(|file| file.id()).collect()
}

/// Bytes that a run refers to in some value files.
fn referred(handle: &RunHandle, files: &[FileId]) -> u64 {
    let references = handle.run.meta().references.iter();
    references.filter(|reference| files.contains(&reference.file)).map(|reference| reference.bytes).sum()
}

/// Bytes that the inputs of a compaction refer to in some value files: the additional space that it needs when it
/// rewrites these values.
#[must_use]
pub fn moved_bytes(compaction: &Compaction, files: &[FileId]) -> u64 {
    compaction.inputs().map(|handle| referred(handle, files)).sum()
}

/// The compaction of one run, which stays in its place, that takes most out of emptied value files; `None` as long as
/// that percentage of all of them together is live. Each such compaction leaves fewer references to emptied files, so
/// there is a last one.
#[must_use]
pub fn pick_values(trees: &Trees, live_percent: u64) -> Option<Compaction> {
    let bytes = ValueBytes::of(trees);
    if bytes.live * 100 >= bytes.total * live_percent {
        return None;
    }
    let emptied = emptied(trees, live_percent);
    let fullest = |runs: Vec<RunHandle>, place: LevelId| {
        let run = runs.into_iter().max_by_key(|run| referred(run, &emptied))?;
        Some((referred(&run, &emptied), run, place))
    };
    let levels = trees.levels.iter().enumerate();
    let levels = levels.filter_map(|(index, level)| fullest(level.handles().collect(), LevelId::Level(index)));
    let (bytes, run, place) = levels.chain(fullest(trees.l0.clone(), LevelId::L0)).max_by_key(|(bytes, ..)| *bytes)?;
    let alone = match place {
        LevelId::L0 => Compaction { l0: vec![run], levels: Vec::new(), target: place, bottom: false },
        LevelId::Level(level) => Compaction::onto_target(trees, Vec::new(), vec![(level, vec![run])], level),
    };
    (bytes > 0).then_some(alone)
}
