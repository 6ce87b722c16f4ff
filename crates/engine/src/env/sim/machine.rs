//! A simulated machine: its state, the workers that exist on it, and what interrupts its callers.

use super::call::Call;
use super::state::State;
use super::worker::SimWorker;
use crate::base::sync::thread::{ThreadId, current};
use crate::base::sync::{Mutex, MutexGuard};
use std::path::Path;
use std::sync::{Arc, Weak};

/// Called before each call that a thread makes to the file system.
pub type Interruption = Box<dyn FnMut(Call, &Path) + Send>;

/// What all handles on one machine share.
pub(super) struct Machine {
    pub(super) state: Arc<Mutex<State>>,
    /// Workers that still exist, in the order they were made.
    pub(super) workers: Mutex<Vec<Weak<SimWorker>>>,
    /// What happens before each call of a thread.
    pub(super) interruption: Mutex<Option<(ThreadId, Interruption)>>,
}

impl Machine {
    pub(super) fn new(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), workers: Mutex::default(), interruption: Mutex::default() }
    }

    /// The state, for a call of the file system; before it happens what interrupts this thread.
    pub(super) fn call(&self, call: Call, path: &Path) -> MutexGuard<'_, State> {
        let own = self.interruption.lock().take_if(|(thread, _)| *thread == current().id());
        if let Some((thread, mut interrupt)) = own {
            interrupt(call, path);
            self.interruption.lock().get_or_insert((thread, interrupt));
        }
        self.state.lock()
    }
}
