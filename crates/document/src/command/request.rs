//! A command as it comes from a client.

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
}
