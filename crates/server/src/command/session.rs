//! What a server knows of one connection.

use spinney_document::bson::DocumentBuf;
use spinney_document::command::Client;

use crate::auth::scram::Scram;
use crate::auth::{RoleName, User};
use crate::wire::Compressor;

/// One connection, as commands see it.
#[derive(Debug, Default)]
pub struct Session {
    /// What the library knows of it.
    pub client: Client,
    /// What the client tells of itself in its first handshake.
    pub metadata: Option<DocumentBuf>,
    /// The compressor that both sides have.
    pub compressor: Option<Compressor>,
    /// What the last write did, for `getLastError`.
    pub last_write: LastWrite,
    /// The users who have logged in, at most one of a database.
    pub logins: Vec<Login>,
    /// The login that has begun.
    pub conversation: Option<Conversation>,
    /// The transaction that the connection has begun, without a session that the client knows.
    pub transaction: Option<OpenTransaction>,
    /// Whether a Unix socket or loopback connects the client.
    pub local: bool,
}

/// A user who has logged in by a connection.
#[derive(Clone, Debug)]
pub struct Login {
    /// The name.
    pub name: String,
    /// The database that the user is of.
    pub database: String,
    /// The number of the user.
    pub id: [u8; 16],
    /// The roles, as of a generation of the users.
    pub roles: Vec<RoleName>,
    /// The generation of the users at which the roles were read.
    pub generation: u64,
}

/// A login that has begun.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The server's side.
    pub scram: Scram,
    /// The user.
    pub user: String,
    /// The database of the user.
    pub database: String,
    /// Whether the login ends with the server's proof, without an empty exchange behind it.
    pub short: bool,
    /// Whether there is such a user.
    pub known: bool,
    /// Whether the client has proved that it knows the password.
    pub proved: bool,
}

/// The transaction that a connection has begun.
#[derive(Clone, Copy, Debug)]
pub struct OpenTransaction {
    /// The id of the session.
    pub session: [u8; 16],
    /// Whether a command has run in it.
    pub started: bool,
}

/// What a write did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWrite {
    /// How many documents it inserted, updated or deleted.
    pub count: i64,
    /// Whether it updated documents that were there, if it was an update.
    pub updated_existing: Option<bool>,
    /// Why it failed: code and message.
    pub error: Option<(i32, String)>,
    /// `{_id: ..}` of the document that an update inserted.
    pub upserted: Option<DocumentBuf>,
}

impl Session {
    /// The session of a connection with a number, from an address.
    #[must_use]
    pub fn new(connection: u64, address: String, local: bool) -> Self {
        let client = Client { connection, address, ..Client::default() };
        Self { client, local, ..Self::default() }
    }

    /// Tells the library which user the connection has now.
    pub fn tell_library(&mut self) {
        self.client.user = self.logins.first().map(|login| User::key(&login.database, &login.name));
    }
}
