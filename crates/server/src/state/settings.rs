//! What a server is started with.

use std::sync::Arc;

use super::replica::Replica;
use crate::auth::MemberKey;

/// The options of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The name of the replica set that the server is a member of. Drivers ask for one before they
    /// use transactions, retryable writes and change streams. Default: none, a standalone server.
    pub replica_set: Option<String>,
    /// The member of a replica set that the server is: its node runs. Default: none, so that with a name of a replica
    /// set the server is the only member.
    pub replica: Option<Arc<Replica>>,
    /// The key by which other members log in, as the user `__system`. Default: none.
    pub key: Option<MemberKey>,
    /// Whether clients must authenticate. Default: false.
    pub auth: bool,
    /// Whether commands are there that only tests need, such as `configureFailPoint`. Default: false.
    pub test_commands: bool,
    /// How many connections are open at a time; more are closed at once. Each takes a thread and up to 64 KiB while it
    /// is idle. Default: 20,000.
    pub connections_max: usize,
    /// The most bytes of all messages together that clients send and that are not answered yet; connections wait in
    /// their order for a message for which there is no room. Messages of up to 8 KiB do not count, replies neither. At
    /// least 128 MiB, which is one message of the greatest length, compressed and not. Default: 1 GiB.
    pub message_memory: usize,
    /// The words that the process was started with, as `getCmdLineOpts` shows them. Default: none.
    pub arguments: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            replica_set: None,
            replica: None,
            key: None,
            auth: false,
            test_commands: false,
            connections_max: 20_000,
            message_memory: 1 << 30,
            arguments: Vec::new(),
        }
    }
}
