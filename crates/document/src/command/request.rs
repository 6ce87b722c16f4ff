//! A command as it comes from a client.

use std::fmt::Debug;
use std::sync::Arc;

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
    /// What lists of databases and collections are limited to; nothing shows all.
    pub visible: Option<Arc<dyn Visibility>>,
    /// Whether the client may not move the cluster's time ahead, but for what clocks of servers may be apart.
    pub keeps_clock: bool,
}

impl Client {
    /// Whether a list shows a database.
    #[must_use]
    pub fn sees_database(&self, name: &str) -> bool {
        self.visible.as_ref().is_none_or(|visible| visible.database(name))
    }

    /// Whether a list shows a collection.
    #[must_use]
    pub fn sees_collection(&self, database: &str, name: &str) -> bool {
        self.visible.as_ref().is_none_or(|visible| visible.collection(database, name))
    }
}

/// Which databases and collections a client may see in lists.
pub trait Visibility: Debug + Send + Sync {
    /// Whether the client may see a database.
    fn database(&self, name: &str) -> bool;

    /// Whether the client may see a collection.
    fn collection(&self, database: &str, name: &str) -> bool;
}
