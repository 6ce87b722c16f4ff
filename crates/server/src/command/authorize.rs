//! Whether a client may run a command.

use std::sync::Arc;

use spinney_document::command::spec::Declaration;
use spinney_document::command::{Needs, Request, Rights};
use spinney_document::{Error, ErrorCode, Result};

use super::session::Session;
use super::spec::Incoming;
use crate::auth::User;
use crate::state::Server;

/// Checks that a client has what a command needs: `needs` of a command of the server, what the library declares for
/// one of its own. Without authentication every client may run every command. A refusal is noted in the log.
///
/// # Errors
/// `Unauthorized` (13), and those of the command's fields.
pub fn check(
    server: &Server,
    session: &mut Session,
    incoming: &Incoming<'_>,
    declared: &Declaration,
    needs: Option<Needs>,
) -> Result<()> {
    (session.client.need, session.client.rights) = (None, None);
    if !server.settings.auth || declared.before_login {
        return Ok(());
    }
    refresh(server, session)?;
    let rights: Arc<dyn Rights> = Arc::clone(&session.rights) as _;
    let what = if !session.logins.is_empty() {
        session.client.rights = Some(Arc::clone(&rights));
        let (database, body, sequences) = (incoming.database, incoming.body, incoming.sequences);
        let request = Request { database, body, sequences, client: &session.client };
        let need = server.service.need(declared, needs, &request)?;
        if need.is_met(&|action, on| rights.allows(action, on)) {
            session.client.need = Some(Arc::new(need));
            return Ok(());
        }
        format!("not authorized on {} to execute command {}", incoming.database, incoming.name())
    } else {
        if may_make_the_first_user(server, session, incoming)? {
            return Ok(());
        }
        format!("Command {} requires authentication", incoming.name())
    };
    note_refusal(server, session, incoming);
    Err(Error::new(ErrorCode::UNAUTHORIZED, what))
}

fn note_refusal(server: &Server, session: &Session, incoming: &Incoming<'_>) {
    server.counters.unauthorized.add(1);
    let (connection, user) =
        (session.client.connection.to_string(), session.client.user.as_deref().unwrap_or_default());
    let fields = [
        ("connection", connection.as_str()),
        ("address", &session.client.address),
        ("user", user),
        ("db", incoming.database),
        ("command", incoming.name()),
    ];
    server.log.warning("not authorized", &fields);
}

/// Reads the roles of the connection's users again when users or roles were changed since.
fn refresh(server: &Server, session: &mut Session) -> Result<()> {
    let generation = server.accounts.generation();
    if session.generation == generation || session.logins.is_empty() {
        return Ok(());
    }
    let mut left = Vec::new();
    for mut login in session.logins.iter().cloned() {
        // Another user who has the name now is not the one who has logged in.
        let user = server.accounts.find(&User::key(&login.database, &login.name))?;
        if let Some(user) = user.filter(|user| user.id == login.id) {
            login.roles = user.roles;
            left.push(login);
        }
    }
    session.set_logins(left, &server.accounts, generation)
}

/// Whether a client of this machine may create the first user, as there is none yet.
fn may_make_the_first_user(server: &Server, session: &Session, incoming: &Incoming<'_>) -> Result<bool> {
    let wanted = incoming.name() == "createUser" && incoming.database == "admin";
    Ok(wanted && session.local && server.accounts.users.are_none()?)
}
