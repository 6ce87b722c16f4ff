//! The commands that run now, and how they are interrupted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::Mutex;

use crate::base::Interrupt;
use crate::bson::DocumentBuf;

/// A command that runs.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its number.
    pub id: i32,
    /// The database.
    pub database: String,
    /// The command as it came, cut when it is long.
    pub command: DocumentBuf,
    /// The number of the connection.
    pub connection: u64,
    /// The address of the client.
    pub address: String,
    /// The name of the application.
    pub application: Option<String>,
    /// The user as `database.name`.
    pub user: Option<String>,
    /// The session.
    pub session: Option<[u8; 16]>,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// How it is ended.
    pub interrupt: Arc<Interrupt>,
}

/// The commands that run.
#[derive(Debug, Default)]
pub struct Operations {
    next: AtomicI32,
    running: Mutex<BTreeMap<i32, Operation>>,
}

/// A command's place among those that run; it leaves when this is dropped.
#[derive(Debug)]
pub struct Running<'o> {
    operations: &'o Operations,
    id: i32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.operations.running.lock().remove(&self.id);
    }
}

impl Operations {
    /// Adds a command; its number is given.
    #[must_use]
    pub fn begin(&self, mut operation: Operation) -> Running<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        operation.id = id;
        self.running.lock().insert(id, operation);
        Running { operations: self, id }
    }

    /// The commands that run now.
    #[must_use]
    pub fn list(&self) -> Vec<Operation> {
        self.running.lock().values().cloned().collect()
    }

    /// Ends a command early; whether there was one.
    pub fn kill(&self, id: i32) -> bool {
        let running = self.running.lock();
        running.get(&id).inspect(|operation| operation.interrupt.kill()).is_some()
    }

    /// Ends all commands early, because the server ends; how many there were.
    pub fn shut_down(&self) -> usize {
        let running = self.running.lock();
        running.values().for_each(|operation| operation.interrupt.shut_down());
        running.len()
    }

    /// Ends the commands of which `is_meant` is true.
    pub fn kill_where(&self, is_meant: impl Fn(&Operation) -> bool) {
        self.running
            .lock()
            .values()
            .filter(|operation| is_meant(operation))
            .for_each(|operation| operation.interrupt.kill());
    }
}

impl Running<'_> {
    /// The number.
    #[must_use]
    pub const fn id(&self) -> i32 {
        self.id
    }
}
