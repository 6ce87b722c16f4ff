//! The number of a file or directory on the simulated disk.

/// A file or directory, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(pub(super) u64);
