//! The shape of a table: how many trees of what size it has now, which is what its reads cost.

/// The trees of a table at one moment.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Shape {
    /// The table's name.
    pub table: String,
    /// The name of its layout.
    pub layout: String,
    /// Entries (versions and tombstones too) in the memtable that takes writes.
    pub memtable_entries: u64,
    /// Bytes of memory that it holds.
    pub memtable_bytes: u64,
    /// Full memtables that wait for their flush.
    pub immutable_memtables: u64,
    /// Bytes of memory that they hold.
    pub immutable_bytes: u64,
    /// The runs of L0, newest first; their key ranges may overlap.
    pub l0: Vec<RunShape>,
    /// The levels below L0 that hold anything, from the top down; each is one sorted sequence of runs.
    pub levels: Vec<LevelShape>,
    /// The B-tree, if the table has one.
    pub btree: Option<BTreeShape>,
    /// The value files, which hold large values separated from their keys.
    pub values: ValuesShape,
    /// Ranges of keys that were deleted at once and are still looked at by reads; neighbours of one commit count as
    /// one.
    pub range_tombstones: u64,
    /// How many trees a scan searches at most: all of them, a level counting as one.
    pub trees: u64,
    /// How many trees a get searches at most: those in which a key can lie, by the first and last keys of runs. It ends
    /// where it finds the key, and filters rule out nearly all runs without it:
    /// [`ReadStats::get_trees`](crate::ReadStats::get_trees) counts what gets did search.
    pub trees_of_get: u64,
    /// How many of the trees are searched as one, by a sorted view of them that reads made due; 0 without a view.
    pub viewed: u64,
    /// Whether the table's compactions are [held](crate::Table::hold).
    pub held: bool,
}

/// One run.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RunShape {
    /// Bytes on disk.
    pub bytes: u64,
    /// Entries, versions and tombstones included.
    pub entries: u64,
}

/// One level.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LevelShape {
    /// The level's number; the last level that can be is 7.
    pub level: u64,
    /// Files that make up its sorted sequence.
    pub runs: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Entries, versions and tombstones included.
    pub entries: u64,
    /// Bytes over which the level is compacted into the next; 0 where the layout has no targets.
    pub target_bytes: u64,
}

/// The value files of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ValuesShape {
    /// Files.
    pub files: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes of them that runs refer to; the others are dead, and compactions reclaim them.
    pub live_bytes: u64,
}

/// A B-tree.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BTreeShape {
    /// Levels of blocks from the root to the leaves.
    pub height: u64,
    /// Leaf blocks.
    pub leaves: u64,
    /// Branch blocks.
    pub branches: u64,
    /// Entries, versions and tombstones included.
    pub entries: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the file that hold nothing now.
    pub free_bytes: u64,
}

/// What lookups in a table read before they come to a leaf: while all of it is in memory, a get reads at most one leaf
/// of each tree that may hold its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct IndexShape {
    /// Leaf blocks of all trees.
    pub leaves: u64,
    /// Bytes of them on disk; of a B-tree with its branches.
    pub leaf_bytes: u64,
    /// Bytes of the indexes of runs, and of the branches of a B-tree as if they were full.
    pub index_bytes: u64,
    /// Bytes of the filters of runs.
    pub filter_bytes: u64,
}
