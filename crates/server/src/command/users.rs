//! Users: `createUser`, `updateUser`, `dropUser`, `dropAllUsersFromDatabase`, `usersInfo`, `grantRolesToUser`,
//! `revokeRolesFromUser`.

use spinney_document::base::{Need, On};
use spinney_document::bson::{DocumentBuf, DocumentBuilder, Value};
use spinney_document::command::Call as Asked;
use spinney_document::expr::Context;
use spinney_document::query::Filter;
use spinney_document::{Error, ErrorCode, Result};

use super::grants::roles_of;
use super::session::EXTERNAL;
use super::spec::Call;
use crate::auth::credentials::{MECHANISMS, random_bytes};
use crate::auth::user::append_roles;
use crate::auth::{Credential, Mechanism, User};
use crate::base::clock::now_ms;
use crate::base::fields::{Fields, missing as missing_field};
use crate::state::accounts::add_once;

/// `createUser`.
///
/// # Errors
/// `BadValue` (2), `IDLFailedToParse` (40414) without `roles`, `RoleNotFound` (31), 51003 when the user is there,
/// `Unauthorized` (13) for roles that the client may not give.
pub fn create(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (fields, database) = (call.fields(), call.database);
    let name = fields.required_text(call.name)?;
    if name.is_empty() || name.contains('\0') || database == "local" {
        return Err(Error::bad_value("a user needs a name and a database other than local"));
    }
    refuse_restrictions(fields)?;
    let credentials = new_credentials(fields, name)?;
    let external = database == EXTERNAL;
    if external && credentials.is_some() {
        return Err(Error::bad_value("Cannot set the password for users defined on the '$external' database"));
    }
    let missing = || Error::bad_value("Must provide a 'pwd' field for all user documents");
    let roles = roles_of(call, "roles")?.ok_or_else(|| missing_field(call.name, "roles"))?;
    let user = User {
        name: name.to_owned(),
        database: database.to_owned(),
        id: new_id()?,
        credentials: if external { Vec::new() } else { credentials.ok_or_else(missing)? },
        external,
        roles,
        custom_data: fields.nested("customData")?.map(DocumentBuf::from),
    };
    call.server.accounts.users.add(&user)?;
    note(call, "user created", &[("user", name)]);
    Ok(DocumentBuilder::new())
}

/// `updateUser`.
///
/// # Errors
/// `UserNotFound` (11), and as [`create`].
pub fn update(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let fields = call.fields();
    let name = fields.required_text(call.name)?;
    refuse_restrictions(fields)?;
    let (credentials, roles) = (new_credentials(fields, name)?, roles_of(call, "roles")?);
    if call.database == EXTERNAL && credentials.is_some() {
        return Err(Error::bad_value("Cannot set the password for users defined on the '$external' database"));
    }
    let data = fields.nested("customData")?.map(DocumentBuf::from);
    let kept = mechanisms_of(fields)?;
    if credentials.is_none() && roles.is_none() && data.is_none() && kept.is_none() {
        return Err(Error::bad_value("Must specify at least one field to update in updateUser"));
    }
    call.server.accounts.users.change(&User::key(call.database, name), |user| {
        match (&credentials, &kept) {
            (Some(credentials), _) => user.credentials.clone_from(credentials),
            (None, Some(kept)) => {
                if kept.iter().any(|mechanism| user.credential(*mechanism).is_err()) {
                    return Err(Error::bad_value("mechanisms field must be a subset of previously set mechanisms"));
                }
                user.credentials.retain(|(mechanism, _)| kept.contains(mechanism));
            }
            (None, None) => {}
        }
        if let Some(roles) = &roles {
            user.roles.clone_from(roles);
        }
        if let Some(data) = &data {
            user.custom_data = Some(data.clone());
        }
        Ok(())
    })?;
    note(call, "user updated", &[("user", name)]);
    Ok(DocumentBuilder::new())
}

/// What `updateUser` needs for each of the fields that it changes: users may have the right to change their own.
///
/// # Errors
/// None.
pub fn update_needs(call: &Asked<'_>) -> Result<Need> {
    let name = call.request.body.first().and_then(|first| first.value.as_str()).unwrap_or_default();
    let own = call.request.client.rights.as_ref().is_some_and(|rights| rights.is_user(call.request.database, name));
    let needs = |action| Need::Action(action, call.on_database());
    let either = |any: &'static str, of_own: &'static str| {
        let mut ways = vec![needs(any)];
        ways.extend(own.then(|| needs(of_own)));
        Need::Any(ways)
    };
    let has = |fields: &[&str]| fields.iter().any(|field| call.request.body.get(field).is_some());
    let mut all = Vec::new();
    if has(&["pwd", "mechanisms", "digestPassword"]) {
        all.push(either("changePassword", "changeOwnPassword"));
    }
    if has(&["customData"]) {
        all.push(either("changeCustomData", "changeOwnCustomData"));
    }
    if has(&["roles"]) {
        all.push(needs("revokeRole"));
    }
    if has(&["authenticationRestrictions"]) {
        all.push(needs("setAuthenticationRestriction"));
    }
    Ok(Need::All(all))
}

/// `dropUser`.
///
/// # Errors
/// `UserNotFound` (11).
pub fn remove(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let name = call.fields().required_text(call.name)?;
    call.server.accounts.users.remove(&User::key(call.database, name))?;
    note(call, "user dropped", &[("user", name)]);
    Ok(DocumentBuilder::new())
}

/// `dropAllUsersFromDatabase`.
///
/// # Errors
/// Those of the engine.
pub fn remove_all(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let mut count = 0;
    let users = &call.server.accounts.users;
    for user in users.list(Some(call.database))? {
        users.remove(&User::key(&user.database, &user.name))?;
        count += 1;
    }
    note(call, "users dropped", &[]);
    let mut reply = DocumentBuilder::new();
    reply.append("n", count);
    Ok(reply)
}

/// `grantRolesToUser`.
///
/// # Errors
/// `UserNotFound` (11), `RoleNotFound` (31), `Unauthorized` (13).
pub fn grant(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let name = call.fields().required_text(call.name)?;
    let roles = roles_of(call, "roles")?.unwrap_or_default();
    call.server.accounts.users.change(&User::key(call.database, name), |user| {
        add_once(&mut user.roles, &roles);
        Ok(())
    })?;
    note(call, "roles granted", &[("user", name)]);
    Ok(DocumentBuilder::new())
}

/// `revokeRolesFromUser`.
///
/// # Errors
/// `UserNotFound` (11), `RoleNotFound` (31), `Unauthorized` (13).
pub fn revoke(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let name = call.fields().required_text(call.name)?;
    let roles = roles_of(call, "roles")?.unwrap_or_default();
    call.server.accounts.users.change(&User::key(call.database, name), |user| {
        user.roles.retain(|role| !roles.contains(role));
        Ok(())
    })?;
    note(call, "roles revoked", &[("user", name)]);
    Ok(DocumentBuilder::new())
}

/// `usersInfo`: all users of the database for 1, of all databases for `{forAllDBs: true}`, or those that are named.
///
/// # Errors
/// `BadValue` (2), those of the filter.
pub fn info(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let fields = call.fields();
    let show = |name: &str| fields.bool(name).map(|is| is.unwrap_or(false));
    let (credentials, show_privileges) = (show("showCredentials")?, show("showPrivileges")?);
    let custom = fields.bool("showCustomData")?.unwrap_or(true);
    let users = &call.server.accounts.users;
    let found = match fields.value(call.name) {
        Some(Value::Document(all)) if Fields::new("usersInfo", all).bool("forAllDBs")? == Some(true) => {
            users.list(None)?
        }
        Some(value) if value.kind().is_number() => users.list(Some(call.database))?,
        Some(value) => {
            let mut found = Vec::new();
            for (database, name) in all_named(value, call.database)? {
                found.extend(users.find(&User::key(&database, &name))?);
            }
            found
        }
        None => return Err(Error::bad_value("usersInfo needs 1, a user or users")),
    };
    let filter = fields.nested("filter")?.map(|filter| Filter::parse(filter, &Context::new(now_ms()))).transpose()?;
    let mut reply = DocumentBuilder::new();
    reply.open_array("users");
    for user in &found {
        if let Some(filter) = &filter {
            let mut shown = DocumentBuilder::new();
            append_user(&mut shown, user, false, true);
            if !filter.matches(shown.finish().view())? {
                continue;
            }
        }
        reply.push_document();
        append_user(&mut reply, user, credentials, custom);
        if show_privileges {
            let granted = call.server.accounts.granted(&user.roles)?;
            append_roles(&mut reply, "inheritedRoles", &granted.roles);
            granted.privileges.append_to(&mut reply, "inheritedPrivileges");
        }
        reply.close();
    }
    reply.close();
    Ok(reply)
}

/// What `usersInfo` needs: to view the users of the database of each user that it tells of. Users may look at
/// themselves, but not at what proves their passwords.
///
/// # Errors
/// As [`info`].
pub fn info_needs(call: &Asked<'_>) -> Result<Need> {
    let view = |on| Need::Action("viewUser", on);
    let Some(first) = call.request.body.first() else { return Ok(Need::NEVER) };
    if first.value.as_document().is_some_and(|all| all.get("forAllDBs").is_some()) {
        return Ok(view(On::AnyDatabase));
    }
    if first.value.kind().is_number() {
        return Ok(view(call.on_database()));
    }
    let named = all_named(first.value, call.request.database)?;
    let shows = call.is_set("showCredentials");
    let rights = call.request.client.rights.as_ref().filter(|_| !shows);
    let others = named.into_iter().filter(|(database, name)| !rights.is_some_and(|own| own.is_user(database, name)));
    Ok(Need::All(others.map(|(database, _)| view(On::Database(database))).collect()))
}

fn append_user(reply: &mut DocumentBuilder, user: &User, credentials: bool, custom: bool) {
    let document = user.document();
    for element in document.view().elements() {
        let shown = (credentials || element.name != "credentials") && (custom || element.name != "customData");
        if shown {
            reply.append_element(&element);
        }
    }
    reply.open_array("mechanisms");
    user.mechanisms().for_each(|mechanism| {
        reply.push(mechanism);
    });
    reply.close();
}

/// `invalidateUserCache`: connections look at their roles again with their next command.
///
/// # Errors
/// None.
pub fn invalidate_cache(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    call.server.accounts.touch();
    Ok(DocumentBuilder::new())
}

/// The users that a value names, as database and name: a name or `{user, db}`, or an array of them.
///
/// # Errors
/// `BadValue` (2), `IDLFailedToParse` (40414).
pub(super) fn all_named(value: Value<'_>, database: &str) -> Result<Vec<(String, String)>> {
    match value.as_array() {
        Some(array) => array.values().map(|value| named(value, database)).collect(),
        None => Ok(vec![named(value, database)?]),
    }
}

/// A user that is named: the name, or `{user, db}`.
fn named(value: Value<'_>, database: &str) -> Result<(String, String)> {
    if let Some(name) = value.as_str() {
        return Ok((database.to_owned(), name.to_owned()));
    }
    let document = value.as_document().ok_or_else(|| Error::bad_value("a user is a name or {user, db}"))?;
    let fields = Fields::new("usersInfo", document);
    Ok((fields.required_text("db")?.to_owned(), fields.required_text("user")?.to_owned()))
}

/// Refuses restrictions by address.
///
/// # Errors
/// `NotImplemented` (238), `TypeMismatch` (14).
pub(super) fn refuse_restrictions(fields: Fields<'_>) -> Result<()> {
    match fields.array("authenticationRestrictions")? {
        Some(restrictions) if !restrictions.is_empty() => {
            Err(Error::new(ErrorCode::NOT_IMPLEMENTED, "authenticationRestrictions are not supported"))
        }
        _ => Ok(()),
    }
}

/// The mechanisms that a command names, if it does.
fn mechanisms_of(fields: Fields<'_>) -> Result<Option<Vec<Mechanism>>> {
    let Some(array) = fields.array("mechanisms")? else { return Ok(None) };
    if array.is_empty() {
        return Err(Error::bad_value("mechanisms field must not be empty"));
    }
    let names = array.values().map(|name| match name.as_str() {
        Some(name) => Mechanism::from_name(name).map_err(|error| Error::bad_value(error.message())),
        None => Err(Error::bad_value("mechanisms are strings")),
    });
    names.collect::<Result<Vec<_>>>().map(Some)
}

/// The credentials of the password that a command has, if it has one.
fn new_credentials(fields: Fields<'_>, name: &str) -> Result<Option<Vec<(Mechanism, Credential)>>> {
    let Some(password) = fields.text("pwd")? else { return Ok(None) };
    let digested = !fields.bool("digestPassword")?.unwrap_or(true);
    let default = if digested { &MECHANISMS[..1] } else { &MECHANISMS[..] };
    let mechanisms = mechanisms_of(fields)?.unwrap_or_else(|| default.to_vec());
    if digested && mechanisms.contains(&Mechanism::Sha256) {
        return Err(Error::bad_value("Use of SCRAM-SHA-256 requires undigested passwords"));
    }
    let made = mechanisms.into_iter().map(|mechanism| {
        Credential::new(mechanism, name, password, digested).map(|credential| (mechanism, credential))
    });
    made.collect::<Result<Vec<_>>>().map(Some)
}

/// A random UUID.
///
/// # Errors
/// Those of [`random_bytes`].
pub(super) fn new_id() -> Result<[u8; 16]> {
    let mut id: [u8; 16] = random_bytes(16)?.try_into().unwrap_or_default();
    id[6] = id[6] & 0x0F | 0x40;
    id[8] = id[8] & 0x3F | 0x80;
    Ok(id)
}

/// Writes an event about an account to the log: who did it, and where.
pub(super) fn note(call: &Call<'_>, event: &str, about: &[(&str, &str)]) {
    let connection = call.session.client.connection.to_string();
    let by = call.session.client.user.as_deref().unwrap_or_default();
    let mut fields = vec![("connection", connection.as_str()), ("by", by), ("db", call.database)];
    fields.extend_from_slice(about);
    call.server.log.info(event, &fields);
}
