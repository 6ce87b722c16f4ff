//! What a server tells of itself in handshakes: a standalone server, the only member of a replica set, or one of
//! several members; and its version, for which clients wait.
//!
//! # Concurrency
//!
//! The latches are held for a moment only. Waiters hold nothing else.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use spinney_document::bson::{ObjectId, ObjectIds};
use spinney_replica::Status;

use super::replica::{Standing, standing};
use crate::base::clock::{monotonic, now_ms};

/// The longest that a client waits for a change, whatever it asks for.
const AWAIT_MAX: Duration = Duration::from_secs(600);

/// The topology of one server.
#[derive(Debug)]
pub struct Topology {
    /// Which process this is; another one has other versions.
    process: ObjectId,
    set: Option<String>,
    /// The address that clients use, as soon as the server listens.
    address: RwLock<String>,
    /// What the member is; nothing when there are no other members.
    status: RwLock<Option<Arc<Status>>>,
    version: Mutex<Version>,
    changed: Condvar,
}

#[derive(Debug)]
struct Version {
    number: i64,
    /// The server ends: nobody waits any more.
    ending: bool,
}

impl Topology {
    /// The topology of a server with the name of its replica set, if it is to appear as one, and what the member is of
    /// a set that has several.
    #[must_use]
    pub fn new(set: Option<String>, status: Option<Arc<Status>>) -> Self {
        let seconds = u32::try_from(now_ms() / 1000).unwrap_or_default();
        Self {
            process: ObjectIds::from_system().next(seconds),
            set,
            address: RwLock::default(),
            status: RwLock::new(status),
            version: Mutex::new(Version { number: 0, ending: false }),
            changed: Condvar::new(),
        }
    }

    /// The name of the replica set.
    #[must_use]
    pub fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }

    /// Which process this is.
    #[must_use]
    pub const fn process(&self) -> ObjectId {
        self.process
    }

    /// The address by which clients reach the server.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.read().clone()
    }

    /// Sets the address by which clients reach the server.
    pub fn set_address(&self, address: String) {
        *self.address.write() = address;
    }

    /// What the member is, as of its last change; nothing when there are no other members.
    #[must_use]
    pub fn status(&self) -> Option<Arc<Status>> {
        self.status.read().clone()
    }

    /// What the server is to clients: the primary, when there are no other members.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.status.read().as_ref().map_or(Standing::Primary, |status| standing(status))
    }

    /// Sets what the member is. Clients that wait hear of it.
    pub fn set_status(&self, status: Arc<Status>) {
        *self.status.write() = Some(status);
        self.version.lock().number += 1;
        self.changed.notify_all();
    }

    /// The number of the version.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.version.lock().number
    }

    /// Waits until the version is another than `known`, or for `time`.
    pub fn wait_for_change(&self, known: i64, time: Duration) {
        let until = monotonic() + time.min(AWAIT_MAX);
        let mut version = self.version.lock();
        while version.number == known && !version.ending {
            if self.changed.wait_until(&mut version, until).timed_out() {
                return;
            }
        }
    }

    /// Ends all waits for ever: the server ends.
    pub fn end(&self) {
        let mut version = self.version.lock();
        version.ending = true;
        version.number += 1;
        self.changed.notify_all();
    }

    /// Whether the server ends.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.version.lock().ending
    }
}

/// The id of the election that made a member the primary, by the term: ids grow with the terms.
#[must_use]
pub fn election_id(term: u64) -> ObjectId {
    let mut bytes = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}
