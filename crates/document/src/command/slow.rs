//! The slow commands of late, and who is told of each.

use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::base::Error;
use crate::bson::DocumentBuf;

/// How many slow commands are kept.
const KEPT: usize = 100;

/// Is told of a slow command, or that a command could not be profiled.
pub type Listener = Box<dyn Fn(Result<&DocumentBuf, &Error>) + Send + Sync>;

/// The slow commands of late.
#[derive(Default)]
pub struct SlowCommands {
    listener: OnceLock<Listener>,
    kept: Mutex<VecDeque<DocumentBuf>>,
}

impl fmt::Debug for SlowCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowCommands").field("kept", &self.kept.lock().len()).finish_non_exhaustive()
    }
}

impl SlowCommands {
    /// Who is told of slow commands from now on; only the first call counts.
    pub fn listen(&self, listener: Listener) {
        drop(self.listener.set(listener));
    }

    /// The slow commands of late, the newest first, in the form of `system.profile`.
    #[must_use]
    pub fn list(&self) -> Vec<DocumentBuf> {
        self.kept.lock().iter().rev().cloned().collect()
    }

    /// Adds a command.
    pub(super) fn add(&self, command: DocumentBuf) {
        if let Some(listener) = self.listener.get() {
            listener(Ok(&command));
        }
        let mut kept = self.kept.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(command);
    }

    /// A command could not be written to its profile.
    pub(super) fn failed(&self, error: &Error) {
        if let Some(listener) = self.listener.get() {
            listener(Err(error));
        }
    }
}
