//! Latches, condition variables and the atomics that order threads, so that a test may decide how threads take turns.
//!
//! They are `parking_lot`'s and `std`'s. Built with `--cfg shuttle` they are those of [shuttle](https://docs.rs/shuttle), which runs a test
//! under thousands of schedules, each replayable, and finds deadlocks: `cargo xtask schedules`.

#[cfg(not(shuttle))]
pub use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(shuttle)]
pub use scheduled::{Condvar, Mutex, MutexGuard};
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(not(shuttle))]
pub use std::sync::atomic::{AtomicBool, AtomicU64};

/// Threads that park and are woken by name.
pub mod thread {
    #[cfg(shuttle)]
    pub use shuttle::thread::{Thread, current, park, yield_now};
    #[cfg(not(shuttle))]
    pub use std::thread::{Thread, current, park, yield_now};
}

/// Lets other threads go on first, where a test decides who does: a simulated device takes its time.
#[inline]
pub fn give_way() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

/// Shuttle's latches in the form of `parking_lot`'s.
#[cfg(shuttle)]
#[expect(missing_docs, reason = "as in parking_lot")]
mod scheduled {
    use std::ops::{Deref, DerefMut};

    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    /// `None` only while it waits.
    #[derive(Debug)]
    pub struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

    #[derive(Debug, Default)]
    pub struct Condvar(shuttle::sync::Condvar);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect("a panic ends the test")))
        }
    }

    impl Condvar {
        pub fn new() -> Self {
            Self::default()
        }

        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("it does not wait yet");
            guard.0 = Some(self.0.wait(held).expect("a panic ends the test"));
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_deref().expect("it does not wait")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_deref_mut().expect("it does not wait")
        }
    }
}
