//! A count of steps for tests that bound how much work is done: over shared maps, and over sets of range tombstones.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The steps of this thread: at how many nodes and items of shared maps its walks have looked, how many segments of
/// range tombstones it has written, how many of their borders it has compared keys with, and at how many entries it has
/// looked under range tombstones.
#[cfg(test)]
pub(crate) fn steps() -> u64 {
    STEPS.get()
}

/// Counts a step, in tests.
#[inline]
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}
