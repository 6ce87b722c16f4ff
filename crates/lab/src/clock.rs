//! Time: the real one for benchmarks, a simulated one for tests of the lab itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time since it was started. Clones show the same time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    Real(Stopwatch),
    /// Nanoseconds that pass only when somebody sleeps. The number publishes nothing but itself.
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// The real clock, started now.
    #[must_use]
    pub fn real() -> Self {
        Self::Real(Stopwatch::start())
    }

    /// A simulated clock at zero.
    #[must_use]
    pub fn simulated() -> Self {
        Self::Simulated(Arc::default())
    }

    /// The time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        match self {
            Self::Real(stopwatch) => stopwatch.elapsed(),
            Self::Simulated(nanoseconds) => Duration::from_nanos(nanoseconds.load(Ordering::Relaxed)),
        }
    }

    /// Lets time pass.
    #[expect(clippy::disallowed_methods, reason = "a benchmark keeps to the real time")]
    pub fn sleep(&self, time: Duration) {
        match self {
            Self::Real(_) => std::thread::sleep(time),
            Self::Simulated(nanoseconds) => {
                nanoseconds.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        }
    }

    /// Whether it is the machine's.
    #[must_use]
    pub fn is_real(&self) -> bool {
        matches!(self, Self::Real(_))
    }
}

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts one.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time, not the engine's clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
