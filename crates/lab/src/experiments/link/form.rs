//! What nodes, links and counts are: entries of tables, or documents.

use super::documents::DocumentSession;
use super::operations::Operations;
use super::store::Session;

/// What they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Entries of tables, and of an index that the workload keeps.
    Entries,
    /// Documents, whose indexes the database keeps.
    Documents,
}

impl Form {
    /// The operations of a client.
    pub(super) fn operations(self) -> Box<dyn Operations> {
        match self {
            Self::Entries => Box::new(Session::default()),
            Self::Documents => Box::new(DocumentSession::default()),
        }
    }
}
