//! The document database as entries are applied to it.
//!
//! The thread that applies an entry may be one that commits ([`super::driver`]): what ends its operation does not end
//! what it applies for all.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use spinney::{Batch, Error, ErrorKind, Layout, Result, TableId};
use spinney_document::base::interrupt::shielded;
use spinney_document::catalog::CopiedCounts;
use spinney_document::{Agreed, ErrorCode, PreparedCommit};

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
        let tables: Vec<_> = entry.tables.iter().map(|(id, name)| (TableId(*id), (*name).to_owned())).collect();
        let Place { position, stored } = place;
        let agreed = Agreed { record: commit.record, tables: &tables, position, stored };
        let apply = |own: &mut Option<PreparedCommit>| {
            let applied = shielded(|| self.database.catalog().apply(&agreed, own, add));
            applied.map_err(|error| failed(&error, &format_args!("a commit to {}", names(entry))))
        };
        if entry.identity == self.identity {
            self.pending.apply(commit.number, apply)
        } else {
            apply(&mut None).map(|()| None)
        }
    }

    fn position(&self) -> Result<Option<u64>> {
        // No commit has 0: the first entry of a set has its members.
        Ok(Some(self.database.catalog().recorder().position()).filter(|position| *position > 0))
    }

    fn create_table(&self, name: &str, layout: Layout) -> Result<()> {
        shielded(|| self.database.catalog().apply_create_table(name, layout))
            .map_err(|error| failed(&error, &format_args!("the creation of table '{name}'")))
    }

    fn drop_tables(&self, names: &[&str]) -> Result<()> {
        shielded(|| self.database.catalog().apply_drop_tables(names))
            .map_err(|error| failed(&error, &format_args!("the drop of the tables '{}'", names.join("', '"))))
    }

    fn checkpoint(&self, _: &spinney::Database, dir: &Path) -> Result<CopiedCounts> {
        let copied = self.database.catalog().begin_copy().and_then(|copying| copying.checkpoint(dir));
        copied.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))
    }

    fn settled(&self, term: u64) {
        self.pending.settle(term);
    }
}

/// What an entry that could not be applied says of this member: both sides, what the set agreed on and what is here.
/// Where it lacked space or memory, or a lock, nothing was changed, and it is applied later; after a failed write only
/// an open tells what is there; anything else says that the member's own data disagrees with the entry.
fn failed(error: &spinney_document::Error, agreed: &dyn Display) -> Error {
    let kind = match error.code() {
        ErrorCode::OUT_OF_DISK_SPACE | ErrorCode::EXCEEDED_MEMORY_LIMIT => ErrorKind::Full,
        ErrorCode::WRITE_CONFLICT | ErrorCode::LOCK_TIMEOUT => ErrorKind::Timeout,
        ErrorCode::SHUTDOWN_IN_PROGRESS => ErrorKind::Closed,
        ErrorCode::FILE_STREAM_FAILED => ErrorKind::Io,
        _ => ErrorKind::Corruption,
    };
    Error::new(kind, format!("the set agreed on {agreed}; this member says: {error}"))
}

/// The tables that an entry may change, in words.
fn names(entry: &Commits<'_>) -> String {
    let names: Vec<String> = entry.tables.iter().map(|(_, name)| format!("'{name}'")).collect();
    names.join(", ")
}
