//! The service that runs commands.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder};
use crate::command::request::{Client, Request};
use crate::database::Database;

/// Runs commands on a database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Service {
    database: Database,
}

impl Service {
    /// The service of a database.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }

    /// The database.
    #[must_use]
    pub const fn database(&self) -> &Database {
        &self.database
    }

    /// Runs a command for a program that embeds the database.
    ///
    /// # Errors
    /// Those of the command.
    pub fn run_command(&self, database: &str, command: Document<'_>) -> Result<DocumentBuf> {
        self.try_run(&Request { database, body: command, sequences: &[], client: &Client::default() })
    }

    /// Runs a command. The reply says what went wrong: `{ok: 0, errmsg: .., code: .., codeName: ..}`.
    #[must_use]
    pub fn run(&self, request: &Request<'_>) -> DocumentBuf {
        self.try_run(request).unwrap_or_else(|error| failed(&error))
    }

    fn try_run(&self, request: &Request<'_>) -> Result<DocumentBuf> {
        let name = request.body.first().map(|first| first.name.to_str_lossy().into_owned()).unwrap_or_default();
        match &*name {
            "ping" => Ok(doc! {"ok": 1.0}),
            _ => Err(Error::new(ErrorCode::COMMAND_NOT_FOUND, format!("no such command: '{name}'"))),
        }
    }
}

/// The reply that tells an error.
#[must_use]
pub fn failed(error: &Error) -> DocumentBuf {
    let mut reply = DocumentBuilder::new();
    reply.append("ok", 0.0).append("errmsg", error.message()).append("code", error.code().number());
    reply.append("codeName", error.code_name().as_str());
    reply.finish()
}
