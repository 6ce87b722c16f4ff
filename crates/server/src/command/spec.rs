//! How a command of the server is declared, and what it is called with.

use spinney_document::Result;
use spinney_document::bson::{Document, DocumentBuilder};
use spinney_document::command::commands as library;
use spinney_document::command::spec::Declaration;

use super::session::Session;
use crate::base::fields::Fields;
use crate::state::Server;
use spinney_wire::message::Sequence;

/// A command as it came.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The database that it was sent to.
    pub database: &'a str,
    /// The command.
    pub body: Document<'a>,
    /// The documents beside it.
    pub sequences: &'a [Sequence<'a>],
    /// The name of the command, empty when there is none.
    name: &'a str,
}

impl<'a> Incoming<'a> {
    /// A command that was sent to a database, with the documents beside it.
    #[must_use]
    pub fn new(database: &'a str, body: Document<'a>, sequences: &'a [Sequence<'a>]) -> Self {
        let name = body.first().and_then(|first| first.name.as_str()).unwrap_or_default();
        Self { database, body, sequences, name }
    }

    /// The name of the command, empty when there is none.
    #[must_use]
    pub const fn name(&self) -> &'a str {
        self.name
    }
}

/// A command of the server: declared as those of the library are, and what only a server knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// What is known of it before it runs, and what it does.
    pub command: library::Command<Run>,
    /// Whether only a server with test commands has it.
    pub test_only: bool,
}

/// Runs a command: the fields of its reply, to which `ok` is added.
pub type Run = fn(&mut Call<'_>) -> Result<DocumentBuilder>;

/// A call of a command.
#[derive(Debug)]
pub struct Call<'c> {
    /// The server.
    pub server: &'c Server,
    /// The connection that it came by.
    pub session: &'c mut Session,
    /// The database that it was sent to.
    pub database: &'c str,
    /// The name as it was sent.
    pub name: &'c str,
    /// The command.
    pub body: Document<'c>,
    /// The documents beside it.
    pub sequences: &'c [Sequence<'c>],
}

impl<'c> Call<'c> {
    /// The fields of the command.
    #[must_use]
    pub const fn fields(&self) -> Fields<'c> {
        Fields::new(self.name, self.body)
    }
}

impl Command {
    /// What is known of it before it runs.
    #[must_use]
    pub const fn declaration(&self) -> &Declaration {
        &self.command.declaration
    }

    /// Whether the command has a name.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.declaration().name == name || self.declaration().aliases.contains(&name)
    }
}
