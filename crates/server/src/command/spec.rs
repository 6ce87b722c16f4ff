//! How a command of the server is declared, and what it is called with.

use spinney_document::Result;
use spinney_document::bson::{Document, DocumentBuilder};

use super::session::Session;
use crate::base::fields::Fields;
use crate::state::Server;

/// A command of the server.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Who may run it.
    pub needs: Needs,
    /// Whether only the database `admin` has it.
    pub admin_only: bool,
    /// Whether only a server with test commands has it.
    pub test_only: bool,
    /// What it does, a sentence.
    pub help: &'static str,
    /// What it does.
    pub run: Run,
}

/// Who may run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Anyone, also before authentication.
    Nothing,
    /// Any user.
    User,
    /// A user with an action on the cluster.
    Cluster(&'static str),
    /// A user with an action on the database of the command.
    Database(&'static str),
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
    /// A command that any user may run on any database.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, run: Run) -> Self {
        Self { name, aliases: &[], needs: Needs::User, admin_only: false, test_only: false, help, run }
    }

    /// The same command with other names that it has.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// The same command for others.
    #[must_use]
    pub const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// The same command, which only the database `admin` has.
    #[must_use]
    pub const fn admin_only(self) -> Self {
        Self { admin_only: true, ..self }
    }

    /// The same command, which only a server with test commands has.
    #[must_use]
    pub const fn test_only(self) -> Self {
        Self { test_only: true, ..self }
    }

    /// Whether the command has a name.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}
