//! The sorted view of the trees over a large one, which reads of the table have paid for.
//!
//! A view is of runs as they are: a flush lays down another one beside it, and a compaction of any of its runs ends it.
//! So a table that is written much has none, or one of its older runs, and one that is only read or held has one until
//! its trees are merged, which costs more and is paid for later.

use crate::base::{CoveragePoint, Result};
use crate::db::state::table::TableState;
use crate::table::{TableView, ViewCandidate};
use crate::tree::run::ViewBuilder;

use super::install::install_view;
use super::job::{Job, JobContext, Needs, Step};
use super::run_merge::relieve_l0;

/// After this number of entries it is looked whether the view is still wanted, and whether runs have gathered in L0.
const PAUSE_ENTRIES: u64 = if cfg!(test) { 100 } else { 10_000 };

/// A view of some trees of a table, shown to readers that still meet these trees. Where none can be made nothing is
/// done, and none of the same trees is tried again then, nor after an error.
pub(crate) struct MakeView<'a> {
    pub(crate) table: &'a TableState,
    pub(crate) viewable: ViewCandidate,
}

impl Job for MakeView<'_> {
    fn needs(&self) -> Needs {
        Needs { free: 0, inputs: 0 }
    }

    fn run(self, context: JobContext<'_>) -> Result<Step> {
        let Self { table, viewable } = self;
        let unviewable = &table.compaction.unviewable;
        unviewable.lock().clone_from(&viewable.ids);
        let Some(mut builder) = ViewBuilder::new(viewable.trees.clone(), &context.state.cache)? else {
            return Ok(Step::Nothing);
        };
        loop {
            context.state.health.check_writable()?;
            if table.check().is_err() {
                return Ok(Step::Dropped);
            }
            // What is laid down meanwhile must not wait, and is no part of the view.
            relieve_l0(context, table, &viewable.ids)?;
            match builder.step(PAUSE_ENTRIES)? {
                None => return Ok(Step::Nothing),
                Some(false) => {}
                Some(true) => break,
            }
        }
        let viewed = TableView::new(builder.finish(), &viewable);
        let progress = install_view(table, &viewed);
        unviewable.lock().clear();
        CoveragePoint::View.mark();
        Ok(Step::Done(progress))
    }
}
