//! A count of what the work over sets of erasures grows with, for tests.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many segments this thread has written, how many borders it has compared keys with, and at how many entries it
/// has looked under erasures: what the work over sets of erasures grows with.
#[cfg(test)]
pub(crate) fn steps() -> u64 {
    STEPS.get()
}

/// Counts a step, in tests.
#[inline]
pub(super) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}
