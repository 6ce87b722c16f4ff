//! How a database comes to be open, and how it is closed.

mod advice;
pub(crate) mod checkpoint_beside;
mod close;
pub(crate) mod core;
pub(crate) mod opening;
mod own_trees;
pub(crate) mod read_only;
pub(crate) mod reader;
mod recovery;
mod tree_opener;

pub(crate) use recovery::OnReplay;
