//! How a command of the server is declared, and what it is called with.

use spinney_document::Result;
use spinney_document::bson::{Document, DocumentBuilder, Kind};
use spinney_document::command::Privilege;
use spinney_document::command::spec::{Declaration, Field, Target};

use super::session::Session;
use crate::base::fields::Fields;
use crate::state::Server;
use crate::wire::message::Sequence;

/// A command as it came.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The database that it was sent to.
    pub database: &'a str,
    /// The command.
    pub body: Document<'a>,
    /// The documents beside it.
    pub sequences: &'a [Sequence<'a>],
}

impl Incoming<'_> {
    /// The name of the command, empty when there is none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.body.first().and_then(|first| first.name.as_str()).unwrap_or_default()
    }
}

/// A command of the server: declared as those of the library are, and what only a server knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// What is known of it before it runs.
    pub declaration: Declaration,
    /// Whether a client may run it before it has logged in.
    pub before_login: bool,
    /// Whether unknown fields are taken: those of a handshake that clients of the future send.
    pub lenient: bool,
    /// Whether only a server with test commands has it.
    pub test_only: bool,
    /// What it does.
    pub run: Run,
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
}

impl<'c> Call<'c> {
    /// The fields of the command.
    #[must_use]
    pub const fn fields(&self) -> Fields<'c> {
        Fields::new(self.name, self.body)
    }
}

impl Command {
    /// A command without fields, of any user on any database, whose first field may be anything.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, run: Run) -> Self {
        let declaration = Declaration::new(name, Target::Value(&[]), help);
        Self { declaration, before_login: false, lenient: false, test_only: false, run }
    }

    /// The same command with other names that it has.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { declaration: Declaration { aliases, ..self.declaration }, ..self }
    }

    /// The same command, whose first field is of one of these types.
    #[must_use]
    pub const fn of(self, kinds: &'static [Kind]) -> Self {
        Self { declaration: Declaration { target: Target::Value(kinds), ..self.declaration }, ..self }
    }

    /// The same command with fields.
    #[must_use]
    pub const fn fields(self, fields: &'static [Field]) -> Self {
        Self { declaration: Declaration { fields, ..self.declaration }, ..self }
    }

    /// The same command with the privileges that it needs.
    #[must_use]
    pub const fn needs(self, privileges: &'static [Privilege]) -> Self {
        Self { declaration: Declaration { privileges, ..self.declaration }, ..self }
    }

    /// The same command, which a client may run before it has logged in.
    #[must_use]
    pub const fn before_login(self) -> Self {
        Self { before_login: true, ..self }
    }

    /// The same command, which takes unknown fields.
    #[must_use]
    pub const fn lenient(self) -> Self {
        Self { lenient: true, ..self }
    }

    /// The same command, which only the database `admin` has.
    #[must_use]
    pub const fn admin_only(self) -> Self {
        Self { declaration: Declaration { everywhere: false, ..self.declaration }, ..self }
    }

    /// The same command, which only a server with test commands has.
    #[must_use]
    pub const fn test_only(self) -> Self {
        Self { test_only: true, ..self }
    }

    /// Whether the command has a name.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.declaration.name == name || self.declaration.aliases.contains(&name)
    }
}
