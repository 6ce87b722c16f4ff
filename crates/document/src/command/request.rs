//! A command as it comes from a client.

use std::fmt::Debug;
use std::sync::Arc;

use crate::base::interrupt::Caller;
use crate::base::{Need, On};
use crate::bson::Document;

/// A command.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The database that it is about, `$db` on the wire.
    pub database: &'a str,
    /// The command: the name of its first field is the command's.
    pub body: Document<'a>,
    /// Documents that came beside the body, such as those of `insert`: the name of the field that they are, and they.
    pub sequences: &'a [(&'a str, Vec<Document<'a>>)],
    /// Who sent it.
    pub client: &'a Client,
}

/// Who sends commands.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The number of the connection; 0 for a program that embeds the database.
    pub connection: u64,
    /// The address, `127.0.0.1:50000`.
    pub address: String,
    /// The name of the application that it has told, if it has.
    pub application: Option<String>,
    /// The user as `database.name`, if one has logged in.
    pub user: Option<String>,
    /// What the client may do; nothing where every client may do everything.
    pub rights: Option<Arc<dyn Rights>>,
    /// What the command needs that the client runs, where that was checked.
    pub need: Option<Arc<Need>>,
    /// Who waits for the reply, so that the command ends when nobody does any more; nothing where it goes on all the
    /// same, as a write that asks for no reply.
    pub caller: Option<Arc<dyn Caller>>,
    /// Whether the client may not move the cluster's time ahead, but for what clocks of servers may be apart.
    pub keeps_clock: bool,
}

impl Client {
    /// The user and the machine, without the number of the connection's port: one for all connections of a program.
    #[must_use]
    pub fn origin(&self) -> Arc<str> {
        let machine = self.address.rsplit_once(':').map_or(self.address.as_str(), |(machine, _)| machine);
        format!("{}@{machine}", self.user.as_deref().unwrap_or_default()).into()
    }

    /// Whether the client has what something needs.
    #[must_use]
    pub fn may(&self, need: &Need) -> bool {
        self.rights.as_ref().is_none_or(|rights| need.is_met(&|action, on| rights.allows(action, on)))
    }
}

/// What a client may do.
pub trait Rights: Debug + Send + Sync {
    /// Whether the client may do something.
    fn allows(&self, action: &str, on: &On) -> bool;

    /// Whether the client may do anything in a database or to one of its collections.
    fn reaches_database(&self, name: &str) -> bool;

    /// Whether the client may do anything to a collection.
    fn reaches_collection(&self, database: &str, name: &str) -> bool;

    /// Whether the client has logged in as a user.
    fn is_user(&self, database: &str, name: &str) -> bool;

    /// Whether a user of the client has a role.
    fn has_role(&self, database: &str, name: &str) -> bool;
}
