//! The document database as entries are applied to it.

use std::path::Path;
use std::sync::Arc;

use spinney::{Batch, Error, ErrorKind, Layout, Result, TableId};
use spinney_document::catalog::CopiedCounts;
use spinney_document::{Agreed, PreparedCommit};

use super::pending::PendingCommits;
use crate::entry::change::{Commit, Commits};
use crate::storage::applier::{Place, Target, Waiter};

/// The document database, with the commits that were prepared here.
#[derive(Debug)]
pub(crate) struct DocumentTarget {
    pub(crate) database: spinney_document::Database,
    pub(crate) pending: Arc<PendingCommits<PreparedCommit>>,
    /// The identity of this member's copy of the log.
    pub(crate) identity: u64,
}

impl Target for DocumentTarget {
    fn commit(
        &self,
        entry: &Commits<'_>,
        commit: &Commit<'_>,
        place: Place<'_>,
        add: &dyn Fn(&mut Batch),
    ) -> Result<Option<Waiter>> {
        let own = (entry.identity == self.identity).then(|| self.pending.take(commit.number));
        let (prepared, applied) = own.flatten().unzip();
        let tables: Vec<_> = entry.tables.iter().map(|(id, name)| (TableId(*id), (*name).to_owned())).collect();
        let Place { position, stored } = place;
        let agreed = Agreed { record: commit.record, tables: &tables, position, stored };
        self.database.catalog().apply(&agreed, prepared, add).map_err(failed)?;
        Ok(applied)
    }

    fn position(&self) -> Result<Option<u64>> {
        // No commit has 0: the first entry of a set has its members.
        Ok(Some(self.database.catalog().recorder().position()).filter(|position| *position > 0))
    }

    fn create_table(&self, name: &str, layout: Layout) -> Result<()> {
        self.database.catalog().apply_create_table(name, layout).map_err(failed)
    }

    fn drop_table(&self, name: &str) -> Result<()> {
        self.database.catalog().apply_drop_table(name).map_err(failed)
    }

    fn checkpoint(&self, _: &spinney::Database, dir: &Path) -> Result<CopiedCounts> {
        let copied = self.database.catalog().begin_copy().and_then(|copying| copying.checkpoint(dir));
        copied.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))
    }

    fn settled(&self, term: u64) {
        self.pending.settle(term);
    }
}

fn failed(error: spinney_document::Error) -> Error {
    Error::new(ErrorKind::Corruption, format!("an entry of the replicated log cannot be applied: {error}"))
}
