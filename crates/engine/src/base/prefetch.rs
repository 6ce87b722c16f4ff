//! Asking for memory before it is needed, so that several reads wait for it at once.

/// Bytes that come to the processor's cache together.
pub const CACHE_LINE_BYTES: usize = 64;

/// Prefetches `len` bytes from `at` on, on processors where that is known how to. The address may be invalid.
#[inline]
pub fn prefetch(at: *const u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in (0..len).step_by(CACHE_LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch only affects time, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(line)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (at, len);
}

/// How far ahead of what is written front to back memory is asked for: some microseconds of small writes.
const AHEAD_BYTES: usize = 512;

/// As [`prefetch`], of memory that is written front to back and that another processor has touched last: `len` bytes
/// were written at `at`, and as many are asked for some way behind them. Without this each write waits for its cache
/// lines at the next atomic instruction.
#[inline]
pub fn prefetch_behind_write(at: *const u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in (0..len.min(AHEAD_BYTES)).step_by(CACHE_LINE_BYTES) {
        // SAFETY: as above; processors that do not know the instruction do nothing.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]",
                in(reg) at.wrapping_add(AHEAD_BYTES + line),
                options(nostack, preserves_flags, readonly)
            );
        };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (at, len);
}
