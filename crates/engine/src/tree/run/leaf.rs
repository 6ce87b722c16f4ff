//! The search for a key in a leaf.

use crate::base::{Kind, Result, SeqNum, Value};
use crate::block::{Block, BlockKind, BlockPointer, Bound};
use crate::store::BlockFile;
use crate::tree::cursor::Found;
use std::cmp::Ordering;

/// What a leaf says of a key.
pub(super) enum Look {
    Found(Found),
    Absent,
    /// It ends with versions that the snapshot does not see.
    TooNew,
}

/// Looks for the newest version of `key`, which has this bound in `leaf`, that `snapshot` sees.
#[inline]
pub(super) fn look(leaf: Block, bound: Bound, key: &[u8], snapshot: SeqNum, visible_from: SeqNum) -> Look {
    let Some(newest) = leaf.find_from(bound, key) else { return Look::Absent };
    for at in newest..leaf.count() {
        if at > newest && leaf.compare_key(at, key) != Ordering::Equal {
            return Look::Absent;
        }
        let seqnum = leaf.seqnum(at).max(visible_from);
        if seqnum <= snapshot {
            return Look::Found(found(leaf, at, seqnum));
        }
    }
    Look::TooNew
}

/// What was found in entry `at` of `leaf`, which counts as having this seqnum.
#[inline]
pub(super) fn found(leaf: Block, at: usize, seqnum: SeqNum) -> Found {
    let entry = leaf.slot(at);
    let (kind, value_at, len) = (entry.kind, entry.value_at, entry.value_len);
    let value = match kind {
        Kind::Put | Kind::Merge | Kind::PutPointer => leaf.pinned(value_at, len),
        Kind::Delete | Kind::SingleDelete | Kind::RangeDelete => Value::owned(&[]),
    };
    Found { seqnum, kind, value }
}

/// Checks that a block is of this kind and has entries.
#[inline]
pub(super) fn check(file: &BlockFile, pointer: BlockPointer, block: &Block, kind: BlockKind) -> Result<()> {
    if block.kind() == kind && block.count() > 0 {
        return Ok(());
    }
    Err(file
        .corruption(pointer.offset, format_args!("a {kind:?} block with entries was expected, and this is {block:?}")))
}
