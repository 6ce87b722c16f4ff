//! What a server knows of one connection.

use std::sync::Arc;

use spinney_document::Result;
use spinney_document::base::On;
use spinney_document::bson::DocumentBuf;
use spinney_document::command::{Client, Rights};

use crate::auth::scram::Scram;
use crate::auth::{Privileges, RoleName, User};
use crate::state::accounts::Accounts;
use spinney_wire::Compressor;

/// The database of the users whom certificates prove.
pub const EXTERNAL: &str = "$external";

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
    /// What their roles give together, as of a generation of the accounts.
    pub privileges: Arc<Privileges>,
    /// The same, as commands ask for it.
    pub rights: Arc<GrantedRights>,
    /// The generation of the accounts at which the roles were read.
    pub generation: u64,
    /// The login that has begun.
    pub conversation: Option<Conversation>,
    /// The transaction that the connection has begun, without a session that the client knows.
    pub transaction: Option<OpenTransaction>,
    /// The id of the connection, as soon as it was asked for.
    pub id: Option<[u8; 16]>,
    /// The subject of the certificate that the client has proved to have.
    pub subject: Option<String>,
    /// Whether the connection carries entries of a primary from now on, and no commands.
    pub carries_entries: bool,
    /// Whether a Unix socket or loopback connects the client.
    pub local: bool,
}

/// What the users of a connection may do.
#[derive(Debug, Default)]
pub struct GrantedRights {
    privileges: Arc<Privileges>,
    /// The users, each with its database.
    users: Vec<(String, String)>,
    roles: Vec<RoleName>,
}

impl Rights for GrantedRights {
    fn allows(&self, action: &str, on: &On) -> bool {
        self.privileges.allow(action, on.into())
    }

    fn reaches_database(&self, name: &str) -> bool {
        self.privileges.reach_database(name)
    }

    fn reaches_collection(&self, database: &str, name: &str) -> bool {
        self.privileges.reach_collection(database, name)
    }

    fn is_user(&self, database: &str, name: &str) -> bool {
        self.users.iter().any(|(own_database, own)| own_database == database && own == name)
    }

    fn has_role(&self, database: &str, name: &str) -> bool {
        self.roles.iter().any(|role| role.database == database && role.role == name)
    }
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
    /// The roles, as of a generation of the accounts.
    pub roles: Vec<RoleName>,
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

    /// Sets who has logged in, and what they may do as of a generation of the accounts.
    ///
    /// # Errors
    /// Those of [`Accounts::granted`]; nobody has logged in then.
    pub fn set_logins(&mut self, logins: Vec<Login>, accounts: &Accounts, generation: u64) -> Result<()> {
        self.logins.clear();
        self.client.user = None;
        (self.privileges, self.rights) = (Arc::default(), Arc::default());
        let roles: Vec<RoleName> = logins.iter().flat_map(|login| login.roles.iter().cloned()).collect();
        self.privileges = Arc::new(accounts.granted(&roles)?.privileges);
        let users = logins.iter().map(|login| (login.database.clone(), login.name.clone())).collect();
        self.rights = Arc::new(GrantedRights { privileges: Arc::clone(&self.privileges), users, roles });
        self.generation = generation;
        self.client.user = logins.first().map(|login| User::key(&login.database, &login.name));
        self.logins = logins;
        Ok(())
    }
}
