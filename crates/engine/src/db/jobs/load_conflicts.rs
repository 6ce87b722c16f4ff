//! The keys of a load below the writes of its table that were written while it was under way.

use std::sync::Arc;

use crate::base::{Result, SeqNum};
use crate::cache::Fill;
use crate::db::state::table::TableState;
use crate::table::{Level, LevelId, RunHandle, Trees, Version};
use crate::tree::Cursor;

/// Is told of a key: what was loaded, and what the key has now, if it has a value.
pub(crate) type OnWritten<'a> = &'a mut dyn FnMut(&[u8], &[u8], Option<&[u8]>) -> Result<()>;

/// Tells of each key of a load, which is in the table as `runs`, that has a newer version, as a snapshot sees it. No
/// run of the load was merged with others yet.
pub(super) fn check_written(
    table: &TableState,
    runs: &[RunHandle],
    snapshot: SeqNum,
    check: OnWritten<'_>,
) -> Result<()> {
    let (all, operator) = (table.version.load_full(), &table.callbacks.operator);
    let ids: Vec<_> = runs.iter().map(|handle| handle.id).collect();
    let written = Arc::new(all.trees.replaced(&ids, LevelId::L0, &[]));
    let written = Version { trees: written, view: None, ..Version::clone(&all) };
    let mut loaded = Trees::default();
    loaded.levels[0] = Level::new(runs.to_vec());
    let loaded = Version::of_trees(loaded.with_values(), &Arc::default());
    let mut cursor = written.cursor(Fill::Keep, snapshot);
    let mut last = Vec::new();
    cursor.first()?;
    while let Some(entry) = cursor.entry() {
        if entry.seqnum <= snapshot && *entry.key != *last {
            last.clear();
            last.extend_from_slice(entry.key);
            let found = loaded.get(&last, snapshot)?;
            if let Some(value) = loaded.value(&last, snapshot, found, operator)? {
                let now = all.value(&last, snapshot, all.get(&last, snapshot)?, operator)?;
                check(&last, &value, now.as_deref())?;
            }
        }
        cursor.next()?;
    }
    Ok(())
}
