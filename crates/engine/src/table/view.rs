//! The sorted view of a table: which trees it covers, and the trees for which one may be built.

use std::sync::Arc;

use crate::base::FileId;
use crate::tree::run::view::{Tree, View};

/// Trees that a view may be made of.
#[derive(Clone, Debug)]
pub struct ViewCandidate {
    /// How many runs of L0 are among them: the oldest.
    pub l0: usize,
    /// How many levels are: the first.
    pub levels: usize,
    /// Newest first.
    pub trees: Vec<Tree>,
    /// The files of their runs.
    pub ids: Vec<FileId>,
}

/// A view, and of which trees it is.
#[derive(Clone, Debug)]
pub struct TableView {
    pub(super) view: Arc<View>,
    /// How many runs of L0 are in it: the oldest.
    pub(super) l0: usize,
    /// How many levels are: the first.
    pub(super) levels: usize,
}

impl TableView {
    /// A view of these trees.
    #[must_use]
    pub fn new(view: View, of: &ViewCandidate) -> Self {
        Self { view: Arc::new(view), l0: of.l0, levels: of.levels }
    }

    /// How many trees are in the view.
    #[must_use]
    pub fn count(&self) -> usize {
        self.view.trees().len()
    }
}
