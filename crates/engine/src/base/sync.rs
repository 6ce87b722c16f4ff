//! Latches, condition variables and the atomics that order threads, so that a test may decide how threads take turns.
//!
//! They are `parking_lot`'s and `std`'s. Built with `--cfg shuttle` they are those of
//! [shuttle](https://docs.rs/shuttle), which runs a test under thousands of schedules, each replayable, and finds
//! deadlocks: `cargo xtask schedules`.

#[cfg(not(shuttle))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
#[cfg(shuttle)]
pub use scheduled::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(shuttle)]
pub use shuttle::sync::RwLockWriteGuard;
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
#[cfg(shuttle)]
pub use shuttle::thread_local;
#[cfg(not(shuttle))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
#[cfg(not(shuttle))]
pub use std::thread_local;

/// Threads that park and are woken by name.
pub mod thread {
    #[cfg(shuttle)]
    pub use shuttle::thread::{Thread, ThreadId, current, park, yield_now};
    #[cfg(not(shuttle))]
    pub use std::thread::{Thread, ThreadId, current, park, yield_now};
}

/// Lets other threads go on first, where a test decides which thread runs: a simulated device takes its time.
#[inline]
pub fn give_way() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

/// Shuttle's latches in the form of `parking_lot`'s. Time does not pass: a wait with a timeout gives way once.
#[cfg(shuttle)]
#[expect(missing_docs, reason = "as in parking_lot")]
mod scheduled {
    use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};
    use shuttle::thread::yield_now;
    use std::ops::{Deref, DerefMut};
    use std::sync::TryLockError;
    use std::time::Duration;

    const NO_PANICS: &str = "a panic ends the test";

    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    #[derive(Debug, Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);

    /// `None` only while it waits.
    #[derive(Debug)]
    pub struct MutexGuard<'a, T> {
        mutex: &'a Mutex<T>,
        held: Option<shuttle::sync::MutexGuard<'a, T>>,
    }

    #[derive(Debug, Default)]
    pub struct Condvar(shuttle::sync::Condvar);

    impl<T> Mutex<T> {
        pub const fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard { mutex: self, held: Some(self.0.lock().expect(NO_PANICS)) }
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(held) => Some(MutexGuard { mutex: self, held: Some(held) }),
                Err(TryLockError::WouldBlock) => None,
                Err(TryLockError::Poisoned(_)) => panic!("{NO_PANICS}"),
            }
        }

        pub fn is_locked(&self) -> bool {
            self.try_lock().is_none()
        }

        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().expect(NO_PANICS)
        }
    }

    impl<T> RwLock<T> {
        pub const fn new(value: T) -> Self {
            Self(shuttle::sync::RwLock::new(value))
        }

        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect(NO_PANICS)
        }

        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect(NO_PANICS)
        }
    }

    impl Condvar {
        pub const fn new() -> Self {
            Self(shuttle::sync::Condvar::new())
        }

        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.held.take().expect("it does not wait yet");
            guard.held = Some(self.0.wait(held).expect(NO_PANICS));
        }

        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: Duration) {
            drop(guard.held.take());
            yield_now();
            guard.held = guard.mutex.lock().held;
        }

        pub fn wait_while_for<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            condition: impl FnOnce(&mut T) -> bool,
            time: Duration,
        ) {
            if condition(guard) {
                self.wait_for(guard, time);
            }
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
            self.held.as_deref().expect("it does not wait")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.held.as_deref_mut().expect("it does not wait")
        }
    }
}

/// Runs a test under random schedules, and under such in which a thread is left behind for long (Burckhardt et al.'s
/// PCT): of either half of `SPINNEY_SCHEDULES`, by default 3,000.
#[cfg(all(test, shuttle))]
pub(crate) fn check(round: impl Fn() + Clone + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    let schedules = std::env::var("SPINNEY_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(round.clone());
    shuttle::Runner::new(PctScheduler::new(3, schedules / 2), config).run(round);
}
