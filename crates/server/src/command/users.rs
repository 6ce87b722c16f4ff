//! Users and roles: `createUser`, `updateUser`, `dropUser`, `dropAllUsersFromDatabase`, `usersInfo`,
//! `grantRolesToUser`, `revokeRolesFromUser`, `rolesInfo`.

use spinney_document::bson::{DocumentBuf, DocumentBuilder, Value};
use spinney_document::{Error, ErrorCode, Result};

use super::sasl::append_privileges;
use super::spec::Call;
use crate::auth::credentials::{MECHANISMS, random_bytes};
use crate::auth::roles::{Target, allow, inherited, is_built_in, names, privileges};
use crate::auth::user::{append_roles, parse_roles};
use crate::auth::{Credential, Mechanism, RoleName, User};
use crate::base::fields::Fields;

/// `createUser`.
///
/// # Errors
/// `BadValue` (2), `RoleNotFound` (31), 51003 when the user is there, `Unauthorized` (13) for roles that the client may
/// not give.
pub fn create(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (fields, database) = (call.fields(), call.database);
    let name = fields.required_text(call.name)?;
    if name.is_empty() || name.contains('\0') || database == "local" {
        return Err(Error::bad_value("a user needs a name and a database other than local"));
    }
    refuse_restrictions(fields)?;
    let credentials = new_credentials(fields, name)?;
    let missing = || Error::bad_value("Must provide a 'pwd' field for all user documents");
    let roles = roles_of(call, "roles")?;
    let user = User {
        name: name.to_owned(),
        database: database.to_owned(),
        id: new_id()?,
        credentials: credentials.ok_or_else(missing)?,
        roles: roles.unwrap_or_default(),
        custom_data: fields.nested("customData")?.map(DocumentBuf::from),
    };
    call.server.users.add(&user)?;
    note(call, "user created", name);
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
    let data = fields.nested("customData")?.map(DocumentBuf::from);
    let kept = mechanisms_of(fields)?;
    if credentials.is_none() && roles.is_none() && data.is_none() && kept.is_none() {
        return Err(Error::bad_value("Must specify at least one field to update in updateUser"));
    }
    call.server.users.change(call.database, name, |user| {
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
    note(call, "user updated", name);
    Ok(DocumentBuilder::new())
}

/// `dropUser`.
///
/// # Errors
/// `UserNotFound` (11).
pub fn remove(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let name = call.fields().required_text(call.name)?;
    call.server.users.remove(call.database, name)?;
    note(call, "user dropped", name);
    Ok(DocumentBuilder::new())
}

/// `dropAllUsersFromDatabase`.
///
/// # Errors
/// Those of the engine.
pub fn remove_all(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let mut count = 0;
    for user in call.server.users.list(Some(call.database))? {
        call.server.users.remove(&user.database, &user.name)?;
        count += 1;
    }
    note(call, "users dropped", "*");
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
    call.server.users.change(call.database, name, |user| {
        for role in &roles {
            if !user.roles.contains(role) {
                user.roles.push(role.clone());
            }
        }
        Ok(())
    })?;
    note(call, "roles granted", name);
    Ok(DocumentBuilder::new())
}

/// `revokeRolesFromUser`.
///
/// # Errors
/// `UserNotFound` (11), `RoleNotFound` (31), `Unauthorized` (13).
pub fn revoke(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let name = call.fields().required_text(call.name)?;
    let roles = roles_of(call, "roles")?.unwrap_or_default();
    call.server.users.change(call.database, name, |user| {
        user.roles.retain(|role| !roles.contains(role));
        Ok(())
    })?;
    note(call, "roles revoked", name);
    Ok(DocumentBuilder::new())
}

/// `usersInfo`: all users of the database for 1, of all databases for `{forAllDBs: true}`, or those that are named.
///
/// # Errors
/// `BadValue` (2), `NotImplemented` (238) for a filter.
pub fn info(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let fields = call.fields();
    if fields.value("filter").is_some() {
        return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, "usersInfo with a filter is not supported"));
    }
    let show = |name: &str| fields.bool(name).map(|is| is.unwrap_or(false));
    let (credentials, show_privileges) = (show("showCredentials")?, show("showPrivileges")?);
    let custom = fields.bool("showCustomData")?.unwrap_or(true);
    let users = &call.server.users;
    let found = match fields.value(call.name) {
        Some(Value::Document(all)) if Fields::new("usersInfo", all).bool("forAllDBs")? == Some(true) => {
            users.list(None)?
        }
        Some(value) if value.kind().is_number() => users.list(Some(call.database))?,
        Some(value) => {
            let named = match value.as_array() {
                Some(array) => array.values().map(|value| named(value, call.database)).collect::<Result<Vec<_>>>()?,
                None => vec![named(value, call.database)?],
            };
            let mut found = Vec::new();
            for (database, name) in named {
                found.extend(users.find(&database, &name)?);
            }
            found
        }
        None => return Err(Error::bad_value("usersInfo needs 1, a user or users")),
    };
    let mut reply = DocumentBuilder::new();
    reply.open_array("users");
    for user in &found {
        reply.push_document();
        append_user(&mut reply, user, credentials, custom);
        if show_privileges {
            append_roles(&mut reply, "inheritedRoles", &all_roles(&user.roles));
            append_privileges(&mut reply, "inheritedPrivileges", &privileges(&user.roles));
        }
        reply.close();
    }
    reply.close();
    Ok(reply)
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
    for (mechanism, _) in &user.credentials {
        reply.push(mechanism.name());
    }
    reply.close();
}

/// Roles and all whose grants they have.
fn all_roles(roles: &[RoleName]) -> Vec<RoleName> {
    let mut all: Vec<RoleName> = roles.to_vec();
    let mut at = 0;
    while let Some(role) = all.get(at).cloned() {
        for other in inherited(&role.role).unwrap_or_default() {
            let other = RoleName { role: (*other).to_owned(), database: role.database.clone() };
            if !all.contains(&other) {
                all.push(other);
            }
        }
        at += 1;
    }
    all
}

/// `rolesInfo`: the built-in roles of the database for 1, or those that are named.
///
/// # Errors
/// `BadValue` (2).
pub fn roles_info(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let fields = call.fields();
    let show = fields.bool("showPrivileges")?.unwrap_or(false);
    let found: Vec<RoleName> = match fields.value(call.name) {
        Some(value) if value.kind().is_number() => {
            let built_in = fields.bool("showBuiltinRoles")?.unwrap_or(false);
            let role = |name: &str| RoleName { role: name.to_owned(), database: call.database.to_owned() };
            if built_in { names(call.database).map(role).collect() } else { Vec::new() }
        }
        Some(Value::Array(roles)) => parse_roles(roles, call.database)?,
        Some(Value::String(role)) => {
            vec![RoleName { role: role.to_str_lossy().into_owned(), database: call.database.to_owned() }]
        }
        Some(Value::Document(role)) => {
            let fields = Fields::new("rolesInfo", role);
            let (role, database) = (fields.required_text("role")?, fields.required_text("db")?);
            vec![RoleName { role: role.to_owned(), database: database.to_owned() }]
        }
        _ => return Err(Error::bad_value("rolesInfo needs 1, a role or roles")),
    };
    let mut reply = DocumentBuilder::new();
    reply.open_array("roles");
    for role in found.iter().filter(|role| is_built_in(role)) {
        reply.push_document().append("role", role.role.as_str()).append("db", role.database.as_str());
        let all = all_roles(std::slice::from_ref(role));
        reply.append("isBuiltin", true);
        append_roles(&mut reply, "roles", all.iter().skip(1));
        append_roles(&mut reply, "inheritedRoles", all.iter().skip(1));
        if show {
            let privileges = privileges(std::slice::from_ref(role));
            append_privileges(&mut reply, "privileges", &privileges);
            append_privileges(&mut reply, "inheritedPrivileges", &privileges);
        }
        reply.close();
    }
    reply.close();
    Ok(reply)
}

/// Commands about roles that clients define, which are not there.
///
/// # Errors
/// `NotImplemented` (238).
pub fn no_own_roles(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let what = format!("{} is not supported: roles are the built-in ones, which rolesInfo lists", call.name);
    Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what))
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

fn refuse_restrictions(fields: Fields<'_>) -> Result<()> {
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

/// The roles that a command has, if it has them: they are there, and the client may give them.
fn roles_of(call: &Call<'_>, field: &str) -> Result<Option<Vec<RoleName>>> {
    let Some(array) = call.fields().array(field)? else { return Ok(None) };
    let roles = parse_roles(array, call.database)?;
    if let Some(unknown) = roles.iter().find(|role| !is_built_in(role)) {
        let what = format!("Could not find role: {}@{}", unknown.role, unknown.database);
        return Err(Error::new(ErrorCode::ROLE_NOT_FOUND, what));
    }
    if call.server.settings.auth && !call.session.logins.is_empty() {
        let own: Vec<RoleName> = call.session.logins.iter().flat_map(|login| login.roles.iter().cloned()).collect();
        let refused = roles.iter().find(|role| !allow(&own, "grantRole", Target::Database(&role.database)));
        if let Some(role) = refused {
            let what = format!("not authorized to grant role: {}@{}", role.role, role.database);
            return Err(Error::new(ErrorCode::UNAUTHORIZED, what));
        }
    }
    Ok(Some(roles))
}

/// A random UUID.
fn new_id() -> Result<[u8; 16]> {
    let mut id: [u8; 16] = random_bytes(16)?.try_into().unwrap_or_default();
    id[6] = id[6] & 0x0F | 0x40;
    id[8] = id[8] & 0x3F | 0x80;
    Ok(id)
}

fn note(call: &Call<'_>, event: &str, user: &str) {
    let connection = call.session.client.connection.to_string();
    call.server.log.info(event, &[("connection", &connection), ("user", user), ("db", call.database)]);
}
