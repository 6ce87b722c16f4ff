//! The stack of work that nests: it continues on further memory when the thread's own stack nears its end.
//!
//! The stages of a pipeline pull documents from one another, so a pipeline of 1,000 stages is as many calls deep. What
//! one of these calls needs is bounded; how many are nested is up to the client. Each passes through [`with_reserve`],
//! so a thread of any size can run it.

/// The stack that [`with_reserve`] leaves at least to its callee. The deepest filters, expressions and documents take
/// less (`opt-level` 1, x86-64).
pub const RESERVE_BYTES: usize = 256 << 10;

/// What is allocated at a time beyond the thread's own stack.
const SEGMENT_BYTES: usize = 1 << 20;

/// Calls `work` with at least [`RESERVE_BYTES`] of stack.
#[inline]
pub fn with_reserve<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(RESERVE_BYTES, SEGMENT_BYTES, work)
}
