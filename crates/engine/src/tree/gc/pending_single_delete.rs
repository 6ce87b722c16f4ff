//! A single-delete whose fate is still open, as the rule remembers it.

use crate::base::SeqNum;

/// A single-delete that is held back.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingSingleDelete {
    pub(super) seqnum: SeqNum,
    pub(super) stripe: usize,
    /// A newer version of its stripe was kept.
    pub(super) hidden: bool,
    /// It has met its put, and both are gone. Only that put can follow in the stripe, once more.
    pub(super) gone: bool,
}
