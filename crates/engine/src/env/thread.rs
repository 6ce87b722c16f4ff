//! Time, background work and randomness.

use super::origin::Origin;
use std::fmt::Debug;
use std::io;
use std::time::Duration;

/// A clock.
pub trait Clock: Send + Sync + Debug {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;
    /// Time since 1970-01-01 00:00 UTC, as the machine believes.
    fn wall(&self) -> Duration;
}

/// What a worker does after one call of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Call the work again at once: there may be more.
    Again,
    /// Sleep until woken.
    Wait,
    /// Sleep until woken, but at most for this time.
    WaitAtMost(Duration),
}

/// A piece of background work, called again and again by its worker.
pub type Work = Box<dyn FnMut() -> Next + Send>;

/// Background threads and waiting.
pub trait Threads: Send + Sync + Debug {
    /// Starts a worker, which calls `work` now and whenever it is woken. Fails when the system has no more threads or
    /// memory for one.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// The simulated environment runs the work inside [`Worker::wake`], in the caller's thread: callers hold no latch
    /// then, and what they wait for afterwards has been done.
    fn worker(&self, name: &str, work: Work) -> io::Result<Box<dyn Worker>>;
    /// Waits. The simulated environment moves its clock instead, and runs the work whose time has come, in the caller's
    /// thread.
    fn sleep(&self, time: Duration);
    /// How many processors there are in addition to the caller's (none in the simulated environment).
    fn others(&self) -> usize;
    /// Whether workers run in parallel with the caller (false in the simulated environment).
    fn concurrent(&self) -> bool;
    /// The process of the caller. Its threads are not in those that are forked from it.
    fn origin(&self) -> Origin {
        Origin::anywhere()
    }
    /// Whether the process of the caller was forked from one that had workers, so that no others can be relied on here.
    fn has_lost_workers(&self) -> bool {
        false
    }
}

/// A running background worker; stopped when dropped.
pub trait Worker: Send + Sync + Debug {
    /// Lets the work be called soon. Wakes are never lost: one that arrives while the work runs makes it run once more.
    fn wake(&self);
    /// Waits until the work has returned and never calls it again. Safe to call twice, and from the work itself (which
    /// then ends when it returns). In a process that was forked from the one of its thread it does nothing.
    fn stop(&self);
}

/// A source of randomness.
pub trait Random: Send + Sync + Debug {
    /// A random number.
    fn next(&self) -> u64;
}
