//! What a server knows of one connection.

use spinney_document::bson::DocumentBuf;
use spinney_document::command::Client;

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
    /// Whether a Unix socket or loopback connects the client.
    pub local: bool,
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
}
