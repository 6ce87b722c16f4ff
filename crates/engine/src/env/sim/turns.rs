//! Threads of a simulated machine that take turns.

use std::time::Duration;

/// Who says which thread of a machine goes on, where several take turns.
pub trait Turns: Send + Sync {
    /// Lets others go on for some time of the machine, in place of a caller that sleeps or waits for another one.
    fn rest(&self, time: Duration);
    /// There is work to do by [`super::SimEnv::work`].
    fn woken(&self);
}
