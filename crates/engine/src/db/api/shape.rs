//! The shape of a table, as its users see it.

use crate::base::Result;
use crate::base::num::{u64_of, usize_of32};
use crate::db::state::table::TableState;
use crate::table::Level;
use crate::table::shape::{BTreeShape, IndexShape, LevelShape, RunShape, Shape, ValuesShape};
use crate::table::{Trees, policy};
use crate::tree::btree::branch_bytes;

/// The trees that a table has now.
pub(crate) fn shape_of(state: &TableState) -> Shape {
    let version = state.version.load();
    let trees = &version.trees;
    let targets = policy::targets(trees, &state.options);
    let level = |index: usize, level: &Level| LevelShape {
        level: u64_of(index + 1),
        runs: u64_of(level.runs.len()),
        bytes: level.bytes(),
        entries: level.runs.iter().map(|run| run.meta().entries).sum(),
        target_bytes: if targets[index] == u64::MAX { 0 } else { targets[index] },
    };
    let levels = trees.levels.iter().enumerate().filter(|(_, level)| !level.runs.is_empty());
    let in_memory = version.memtables().filter(|mem| !mem.entries.is_empty()).count();
    let run = |handle: &crate::table::RunHandle| RunShape {
        bytes: handle.run.meta().bytes,
        entries: handle.run.meta().entries,
    };
    Shape {
        table: state.name.clone(),
        layout: state.options.layout.name().to_owned(),
        memtable_entries: version.active.entries.entries(),
        memtable_bytes: u64_of(version.active.entries.bytes()),
        immutable_memtables: u64_of(version.immutables.len()),
        immutable_bytes: version.immutables.iter().map(|mem| u64_of(mem.entries.bytes())).sum(),
        l0: trees.l0.iter().map(run).collect(),
        levels: levels.map(|(index, found)| level(index, found)).collect(),
        btree: trees.btree.as_ref().map(|root| btree_shape(root.meta())),
        values: values_shape(trees),
        range_tombstones: u64_of(version.range_tombstones.len()),
        trees: u64_of(trees.count() + in_memory),
        trees_of_get: u64_of(trees.overlap() + in_memory),
        viewed: version.view.as_ref().map_or(0, |view| u64_of(view.count())),
        held: !state.compacts_itself(),
    }
}

/// The leaves, indexes and filters of the trees that a table has now.
pub(crate) fn index_shape_of(state: &TableState) -> Result<IndexShape> {
    let trees = state.trees();
    let mut shape = IndexShape::default();
    for handle in trees.runs() {
        let sections = handle.run.sections()?;
        shape.leaves += sections.leaves;
        shape.leaf_bytes += sections.leaf_bytes;
        shape.index_bytes += sections.index_bytes;
        shape.filter_bytes += sections.filter_bytes;
    }
    if let Some(root) = &trees.btree {
        let branch_bytes = branch_bytes(usize_of32(state.options.block_bytes));
        shape.leaves += root.meta().leaves;
        shape.leaf_bytes += root.meta().live_bytes();
        shape.index_bytes += root.meta().branches * u64_of(branch_bytes);
    }
    Ok(shape)
}

/// The value files of a table.
pub(super) fn values_shape(trees: &Trees) -> ValuesShape {
    let bytes = policy::ValueBytes::of(trees);
    ValuesShape { files: u64_of(trees.values.iter().count()), bytes: bytes.total, live_bytes: bytes.live }
}

fn btree_shape(meta: &crate::tree::btree::TreeMeta) -> BTreeShape {
    BTreeShape {
        height: u64::from(meta.height),
        leaves: meta.leaves,
        branches: meta.branches,
        entries: meta.entries,
        file_bytes: meta.file_bytes,
        free_bytes: meta.free_bytes,
    }
}
