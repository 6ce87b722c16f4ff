//! The end of a server: asked for once, waited for by the thread that started it.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Whether the server is to end.
#[derive(Debug, Default)]
pub struct Ending {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Ending {
    /// Asks the server to end.
    pub fn ask(&self) {
        *self.asked.lock() = true;
        self.changed.notify_all();
    }

    /// Whether it was asked to.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.asked.lock()
    }

    /// Waits until it is asked to, at most for `time`; whether it was.
    pub fn wait(&self, time: Duration) -> bool {
        let mut asked = self.asked.lock();
        if !*asked {
            self.changed.wait_for(&mut asked, time);
        }
        *asked
    }
}
