//! Values that are views of a memtable's records and keep the memtable alive.

use std::ptr;
use std::slice;
use std::sync::Arc;

use super::record::Record;
use super::tree::Tree;
use crate::base::Value;
use crate::base::value::ByteSource;
use crate::tree::cursor::Found;

/// The value of a record of `tree`, without a copy.
#[inline]
pub(super) fn pin(tree: &Arc<Tree>, record: Record<'_>) -> Value {
    let value = record.value();
    if value.is_empty() {
        return Value::owned(&[]);
    }
    Value::pinned(Arc::<Tree>::clone(tree), value.as_ptr().expose_provenance(), value.len())
}

/// What a lookup has found in `tree`.
#[inline]
pub(super) fn found(tree: &Arc<Tree>, record: Record<'_>) -> Found {
    Found { seqnum: record.seqnum(), kind: record.kind(), value: pin(tree, record) }
}

impl ByteSource for Tree {
    #[inline]
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        // SAFETY: no code outside the memtable can name its tree as a source, so `at` and `len` come from `pin`; the
        // bytes never change and live as long as the tree.
        unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(at), len) }
    }
}
