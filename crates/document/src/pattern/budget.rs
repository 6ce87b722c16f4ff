//! The memory of compiled patterns, of all operations together. A pattern of 20 bytes may compile to 10 MiB, and a
//! query may have many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::{Error, ErrorCode, Result};

/// The sizes to which a pattern may compile; the first that suffices is counted.
pub(super) const SIZES: [usize; 5] = [4 << 10, 32 << 10, 256 << 10, 2 << 20, 10 << 20];

/// The most bytes of all compiled patterns.
const BYTES_MAX: usize = 64 << 20;

/// The bytes in use. A count, by which nothing is published.
static USED: AtomicUsize = AtomicUsize::new(0);

/// What a compiled pattern takes of the budget, until its last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct Charge(#[expect(dead_code, reason = "its drop gives the bytes back")] Arc<Bytes>);

#[derive(Debug)]
struct Bytes(usize);

impl Charge {
    /// Takes bytes before a pattern is compiled to them.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` (146).
    pub(super) fn take(bytes: usize) -> Result<Self> {
        let used = USED.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let charge = Self(Arc::new(Bytes(bytes)));
        if used > BYTES_MAX {
            let what = format!(
                "the regular expressions of all operations would take more than {BYTES_MAX} bytes: use fewer or simpler ones"
            );
            return Err(Error::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, what));
        }
        Ok(charge)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        USED.fetch_sub(self.0, Ordering::Relaxed);
    }
}
