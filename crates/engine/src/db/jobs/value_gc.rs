//! The collection of dead values: value files that are mostly dead are emptied by compactions, and go when nothing
//! refers to them.

use crate::base::{Error, ErrorKind, Result};
use crate::db::state::table::TableState;
use crate::table::policy;

use super::job::{JobContext, Step, repeat};
use super::run_merge::RunMerge;

/// Does the next compaction that empties value files, if less than this part of them is live. The caller holds the
/// table's compaction latch.
pub(super) fn collect_step(context: JobContext<'_>, table: &TableState, live_percent: u64) -> Result<Step> {
    let trees = table.trees();
    let Some(compaction) = policy::pick_values(&trees, live_percent) else { return Ok(Step::Nothing) };
    let emptied = policy::emptied(&trees, live_percent);
    drop(trees);
    context.perform(RunMerge::relocating(table, compaction, emptied))
}

/// Empties all value files of a table of which anything to speak of is dead. The caller holds the table's compaction
/// latch.
pub(super) fn collect_all(context: JobContext<'_>, table: &TableState) -> Result<()> {
    let step = || {
        context.state.health.check_writable()?;
        collect_step(context, table, policy::PACKED_PERCENT)
    };
    let Step::NoSpace(bytes) = repeat(step)? else { return Ok(()) };
    let message = format!(
        "table '{}': to reclaim the space of dead values {bytes} bytes more of free space are needed",
        table.name
    );
    Err(Error::new(ErrorKind::Full, message))
}
