//! The list of the free space of a tree file, as a root has it.

use super::file::TreeFile;
use super::format::TreeMeta;
use crate::base::Result;
use crate::block::BlockPointer;
use crate::store::Extent;
use crate::store::space::{UNIT_BYTES, decode_extents};

/// The units of the block that `pointer` names.
pub(super) fn extent(pointer: BlockPointer) -> Extent {
    Extent::covering(pointer.offset, u64::from(pointer.bytes))
}

/// The free extents of the root that `meta` describes.
pub(super) fn read_free_list(file: &TreeFile, meta: &TreeMeta) -> Result<Vec<Extent>> {
    let Some(pointer) = meta.free_list else { return Ok(Vec::new()) };
    let block = file.blocks.read(pointer)?;
    let extents = decode_extents(block.bytes(), meta.file_units());
    let extents = extents.map_err(|_| file.corruption(pointer, "the list of free space is malformed"))?;
    if !fits(&extents, meta) {
        return Err(file.corruption(pointer, "the list of free space is another one than that of the root"));
    }
    Ok(extents)
}

/// Whether the free extents, which ascend within the file, can be those of the root that `meta` describes: as many
/// bytes as it says, none of its topmost block or of the list itself, and enough other space for all of its blocks.
/// (That a block further down is free, a merge finds when it frees it, and `verify` finds.)
pub(super) fn fits(free: &[Extent], meta: &TreeMeta) -> bool {
    let units: u64 = free.iter().map(|extent| extent.units).sum();
    let is_free = |pointer: BlockPointer| {
        let block = extent(pointer);
        free.iter().any(|free| free.start < block.end() && block.start < free.end())
    };
    let topmost = [meta.root, meta.free_list];
    let list_units = meta.free_list.map_or(0, |pointer| extent(pointer).units);
    // The header, the list and each block take a unit at least.
    let taken = [1, list_units, meta.leaves, meta.branches, units].into_iter().try_fold(0, u64::checked_add);
    units * UNIT_BYTES == meta.free_bytes
        && !topmost.into_iter().flatten().any(is_free)
        && taken.is_some_and(|taken| taken <= meta.file_units())
}
