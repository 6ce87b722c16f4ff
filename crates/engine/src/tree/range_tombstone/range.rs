//! One range tombstone: a range of keys that was deleted at once.

use crate::base::SeqNum;
use crate::tree::cursor::Limits;

/// A range tombstone: its first key, the one behind its last if there is any, and its seqnum.
pub type RangeEnds<'a> = (&'a [u8], Option<&'a [u8]>, SeqNum);

/// A range of keys that was deleted at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The keys.
    pub range: Limits,
    /// When the deletion became visible.
    pub seqnum: SeqNum,
}

impl RangeTombstone {
    /// Its ends and its seqnum.
    #[must_use]
    pub fn ends(&self) -> RangeEnds<'_> {
        (&self.range.low, self.range.high.as_deref(), self.seqnum)
    }
}
