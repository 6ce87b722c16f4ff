//! Logging in and out: `saslStart`, `saslContinue`, `logout`, `authenticate`, `connectionStatus`, and the parts of
//! handshakes that are about it.

use spinney_document::bson::{Document, DocumentBuilder, Value};
use spinney_document::{Error, ErrorCode, Result};

use super::session::{Conversation, EXTERNAL, Login};
use super::spec::Call;
use crate::auth::scram::{ClientFirst, Scram, refused};
use crate::auth::user::append_roles;
use crate::auth::{Credential, Mechanism, RoleName, User};
use crate::base::fields::Fields;

/// The number of the only conversation of a connection.
const CONVERSATION: i32 = 1;

/// The bytes of a payload, which old drivers send as text in base64.
fn payload_of(fields: Fields<'_>) -> Result<Vec<u8>> {
    use base64::Engine as _;
    match fields.value("payload") {
        Some(Value::Binary(_, bytes)) => Ok(bytes.to_vec()),
        Some(Value::String(text)) => base64::engine::general_purpose::STANDARD
            .decode(text.as_bytes())
            .map_err(|_| Error::bad_value("the payload is no base64")),
        _ => Err(Error::bad_value("the payload is missing or no binary value")),
    }
}

/// `saslStart`.
///
/// # Errors
/// `AuthenticationFailed` (18), `MechanismUnavailable` (334), `BadValue` (2).
pub fn start(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let database = call.database;
    begin(call, call.fields(), database)
}

/// Begins a conversation by the fields of `saslStart`.
fn begin(call: &mut Call<'_>, fields: Fields<'_>, database: &str) -> Result<DocumentBuilder> {
    call.session.conversation = None;
    let mechanism = Mechanism::from_name(fields.required_text("mechanism")?)?;
    let first = ClientFirst::parse(&payload_of(fields)?)?;
    let options = fields.nested("options")?.unwrap_or(Document::empty());
    let short = Fields::new("options", options).bool("skipEmptyExchange")?.unwrap_or(false);
    let accounts = &call.server.accounts;
    let user = accounts.find(&User::key(database, &first.user))?;
    let credential = match &user {
        Some(user) => user.credential(mechanism).map_err(|error| failed(call, database, &first.user, error))?.clone(),
        None => Credential::of_nobody(mechanism, accounts.secret(), &User::key(database, &first.user)),
    };
    let (scram, reply) = Scram::begin(mechanism, &first, credential)?;
    call.session.conversation = Some(Conversation {
        scram,
        user: first.user,
        database: database.to_owned(),
        short,
        known: user.is_some(),
        proved: false,
    });
    Ok(reply_of(&reply, false))
}

fn reply_of(payload: &[u8], done: bool) -> DocumentBuilder {
    let mut reply = DocumentBuilder::new();
    reply.append("conversationId", CONVERSATION).append("done", done).append("payload", Value::Binary(0, payload));
    reply
}

/// Notes an authentication that failed, without what the client has sent as proof.
fn failed(call: &Call<'_>, database: &str, user: &str, error: Error) -> Error {
    call.server.counters.refused.add(1);
    let connection = call.session.client.connection.to_string();
    let fields = [
        ("connection", connection.as_str()),
        ("address", &call.session.client.address),
        ("user", user),
        ("db", database),
        ("why", error.message()),
    ];
    call.server.log.warning("authentication failed", &fields);
    error
}

/// `saslContinue`.
///
/// # Errors
/// `AuthenticationFailed` (18), `ProtocolError` (17) without a conversation.
pub fn continue_conversation(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let fields = call.fields();
    let none = || Error::new(ErrorCode::PROTOCOL_ERROR, "No SASL session state found");
    let conversation = call.session.conversation.take().ok_or_else(none)?;
    if fields.number("conversationId")? != Some(i64::from(CONVERSATION)) {
        return Err(Error::new(ErrorCode::PROTOCOL_ERROR, "sasl: Mismatched conversation id"));
    }
    let payload = payload_of(fields)?;
    if conversation.proved {
        if !payload.is_empty() {
            return Err(refused());
        }
        log_in(call, &conversation.database, &conversation.user)?;
        return Ok(reply_of(&[], true));
    }
    let proved =
        conversation.scram.finish(&payload).and_then(|last| if conversation.known { Ok(last) } else { Err(refused()) });
    let last = proved.map_err(|error| failed(call, &conversation.database, &conversation.user, error))?;
    if conversation.short {
        log_in(call, &conversation.database, &conversation.user)?;
        return Ok(reply_of(&last, true));
    }
    call.session.conversation = Some(Conversation { proved: true, ..conversation });
    Ok(reply_of(&last, false))
}

/// Makes a user one of the connection's.
fn log_in(call: &mut Call<'_>, database: &str, name: &str) -> Result<()> {
    let accounts = &call.server.accounts;
    let generation = accounts.generation();
    let user = accounts.find(&User::key(database, name))?.ok_or_else(refused)?;
    let mut logins: Vec<Login> =
        call.session.logins.iter().filter(|login| login.database != user.database).cloned().collect();
    let (name, database) = (user.name.clone(), user.database.clone());
    logins.push(Login { name, database, id: user.id, roles: user.roles });
    call.session.set_logins(logins, accounts, generation)?;
    call.server.counters.authenticated.add(1);
    let connection = call.session.client.connection.to_string();
    let fields = [("connection", connection.as_str()), ("user", &user.name), ("db", &user.database)];
    call.server.log.info("authenticated", &fields);
    Ok(())
}

/// `logout`: of the users of a database.
///
/// # Errors
/// Those of the engine.
pub fn logout(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let database = call.database;
    let accounts = &call.server.accounts;
    let generation = accounts.generation();
    let (gone, left): (Vec<_>, Vec<_>) =
        call.session.logins.iter().cloned().partition(|login| login.database == database);
    call.session.set_logins(left, accounts, generation)?;
    for login in &gone {
        super::users::note(call, "logged out", &[("user", &login.name)]);
    }
    Ok(DocumentBuilder::new())
}

/// `authenticate`: by the certificate that the client has shown when it connected.
///
/// # Errors
/// `AuthenticationFailed` (18), `MechanismUnavailable` (334) for a mechanism that is not there, or begins with
/// `saslStart`.
pub fn authenticate(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (fields, database) = (call.fields(), call.database);
    by_certificate(call, fields, database)
}

/// The mechanism of certificates.
const X509: &str = "MONGODB-X509";

/// Logs in by the fields of `authenticate`.
fn by_certificate(call: &mut Call<'_>, fields: Fields<'_>, database: &str) -> Result<DocumentBuilder> {
    let mechanism = fields.text("mechanism")?.unwrap_or("MONGODB-CR");
    if mechanism == X509 {
        let named = fields.text("user")?;
        let error = match call.session.subject.clone() {
            None => Error::new(ErrorCode::AUTHENTICATION_FAILED, "No verified subject name available from client"),
            Some(subject) if database != EXTERNAL || named.is_some_and(|name| name != subject) => {
                let what = "There is no x.509 client certificate matching the user.";
                Error::new(ErrorCode::AUTHENTICATION_FAILED, what)
            }
            Some(subject) => match log_in(call, database, &subject) {
                Ok(()) => {
                    let mut reply = DocumentBuilder::new();
                    reply.append("dbname", database).append("user", subject.as_str());
                    return Ok(reply);
                }
                Err(error) => return Err(failed(call, database, &subject, error)),
            },
        };
        return Err(failed(call, database, named.unwrap_or_default(), error));
    }
    // The mechanisms that there are begin with `saslStart`.
    Err(Mechanism::from_name(mechanism).err().unwrap_or_else(refused))
}

/// `connectionStatus`.
///
/// # Errors
/// `TypeMismatch` (14).
pub fn connection_status(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let show = call.fields().bool("showPrivileges")?.unwrap_or(false);
    let mut reply = DocumentBuilder::new();
    reply.open_document("authInfo").open_array("authenticatedUsers");
    for login in &call.session.logins {
        reply.push_document().append("user", login.name.as_str()).append("db", login.database.as_str()).close();
    }
    reply.close();
    let roles: Vec<RoleName> = call.session.logins.iter().flat_map(|login| login.roles.iter().cloned()).collect();
    append_roles(&mut reply, "authenticatedUserRoles", &roles);
    if show {
        let granted = call.server.accounts.granted(&roles)?;
        granted.privileges.append_to(&mut reply, "authenticatedUserPrivileges");
    }
    reply.close();
    let id = match call.session.id {
        Some(id) => id,
        None => *call.session.id.insert(super::users::new_id()?),
    };
    reply.append("uuid", Value::Binary(4, &id));
    Ok(reply)
}

/// The parts of a handshake: the mechanisms of the user that `saslSupportedMechs` names, and the first step of a login.
///
/// # Errors
/// Those of the engine; a login that fails here is only left out, as the client then begins anew.
pub fn in_handshake(reply: &mut DocumentBuilder, call: &mut Call<'_>) -> Result<()> {
    if let Some((database, name)) = call.fields().text("saslSupportedMechs")?.and_then(|user| user.split_once('.'))
        && let Some(user) = call.server.accounts.find(&User::key(database, name))?
    {
        reply.open_array("saslSupportedMechs");
        user.mechanisms().for_each(|mechanism| {
            reply.push(mechanism);
        });
        reply.close();
    }
    let Some(speculative) = call.fields().nested("speculativeAuthenticate")? else { return Ok(()) };
    let first = speculative.first().map(|first| first.name.to_str_lossy().into_owned()).unwrap_or_default();
    let fields = Fields::new("speculativeAuthenticate", speculative);
    let begun = match &*first {
        "saslStart" => begin(call, fields, fields.text("db")?.unwrap_or("admin")),
        "authenticate" => by_certificate(call, fields, fields.text("db")?.unwrap_or(EXTERNAL)),
        _ => return Ok(()),
    };
    if let Ok(begun) = begun {
        reply.append("speculativeAuthenticate", &begun.finish());
    }
    Ok(())
}
