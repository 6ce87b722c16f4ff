//! What a call costs its thread.

use std::time::Duration;

/// The processor time of this thread so far, of which the differences tell what calls cost, whatever else the machine
/// does. Where the system does not tell it, which is elsewhere than on Unix, it is the time of the clock.
#[must_use]
pub fn thread_time() -> Duration {
    #[cfg(unix)]
    {
        let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
        time.map(Duration::from).unwrap_or_default()
    }
    #[cfg(not(unix))]
    {
        #[expect(clippy::disallowed_methods, reason = "the cost of a call in a test")]
        static BEGAN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
        BEGAN.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_and_waiting_does_not() {
        let began = thread_time();
        let mut sum = 0_u64;
        while thread_time() - began < Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        let worked = thread_time();
        std::thread::park_timeout(Duration::from_millis(200));
        assert!(thread_time() - worked < Duration::from_millis(150) || !cfg!(unix));
    }
}
