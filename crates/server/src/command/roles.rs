//! Roles that clients define: `createRole`, `updateRole`, `dropRole`, `dropAllRolesFromDatabase`,
//! `grantPrivilegesToRole`, `revokePrivilegesFromRole`, `grantRolesToRole`, `revokeRolesFromRole`; and `rolesInfo`.

use spinney_document::base::{Need, On};
use spinney_document::bson::{DocumentBuilder, Value};
use spinney_document::command::Call as Asked;
use spinney_document::{Error, ErrorCode, Result};

use super::grants::{may_grant_privileges, roles_of};
use super::spec::Call;
use super::users::refuse_restrictions;
use crate::auth::user::{append_roles, parse_role};
use crate::auth::{Privileges, Role, RoleName, roles};
use crate::state::accounts::{add_once, no_such_role};

/// `createRole`.
///
/// # Errors
/// `BadValue` (2), `RoleNotFound` (31), `InvalidRoleModification` (49), 51002 when the role is there, `Unauthorized`
/// (13) for what the client may not give.
pub fn create(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (name, fields) = (named(call)?, call.fields());
    if name.role.is_empty() || name.role.contains('\0') {
        return Err(Error::bad_value("Role name must be non-empty"));
    }
    if ["local", "$external"].contains(&name.database.as_str()) {
        return Err(Error::bad_value(format!("Cannot create roles in the {} database", name.database)));
    }
    if roles::is_built_in(&name) {
        return Err(Error::bad_value("Cannot create roles with the same name as a built-in role"));
    }
    refuse_restrictions(fields)?;
    let roles = roles_of(call, "roles")?.unwrap_or_default();
    let role = Role { roles, privileges: privileges_of(call)?.unwrap_or_default(), name };
    check(call, &role)?;
    call.server.accounts.roles.add(&role)?;
    note(call, "role created", &role.name);
    Ok(DocumentBuilder::new())
}

/// `updateRole`.
///
/// # Errors
/// As [`create`]; `RoleNotFound` (31).
pub fn update(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let name = own(call)?;
    refuse_restrictions(call.fields())?;
    let (roles, privileges) = (roles_of(call, "roles")?, privileges_of(call)?);
    if roles.is_none() && privileges.is_none() && call.fields().value("authenticationRestrictions").is_none() {
        return Err(Error::bad_value("Must specify at least one field to update in updateRole"));
    }
    change(call, &name, "role updated", |role| {
        if let Some(roles) = &roles {
            role.roles.clone_from(roles);
        }
        if let Some(privileges) = &privileges {
            role.privileges.clone_from(privileges);
        }
    })
}

/// `dropRole`: users and roles that have it lose it.
///
/// # Errors
/// `RoleNotFound` (31), `InvalidRoleModification` (49) for a built-in role.
pub fn remove(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let name = own(call)?;
    call.server.accounts.revoke_everywhere(std::slice::from_ref(&name))?;
    call.server.accounts.roles.remove(&name.key())?;
    note(call, "role dropped", &name);
    Ok(DocumentBuilder::new())
}

/// `dropAllRolesFromDatabase`.
///
/// # Errors
/// Those of the engine.
pub fn remove_all(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let accounts = &call.server.accounts;
    let names: Vec<_> = accounts.roles.list(Some(call.database))?.into_iter().map(|role| role.name).collect();
    accounts.revoke_everywhere(&names)?;
    for name in &names {
        accounts.roles.remove(&name.key())?;
        note(call, "role dropped", name);
    }
    let mut reply = DocumentBuilder::new();
    reply.append("n", i32::try_from(names.len()).unwrap_or(i32::MAX));
    Ok(reply)
}

/// `grantPrivilegesToRole`.
///
/// # Errors
/// As [`update`].
pub fn grant_privileges(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (name, privileges) = (own(call)?, some_privileges(call)?);
    change(call, &name, "privileges granted", |role| role.privileges.add_all(&privileges))
}

/// `revokePrivilegesFromRole`.
///
/// # Errors
/// As [`update`].
pub fn revoke_privileges(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (name, privileges) = (own(call)?, some_privileges(call)?);
    change(call, &name, "privileges revoked", |role| role.privileges.remove_all(&privileges))
}

/// `grantRolesToRole`.
///
/// # Errors
/// As [`update`]; `InvalidRoleModification` (49) when a role would have its own privileges.
pub fn grant_roles(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (name, roles) = (own(call)?, some_roles(call)?);
    change(call, &name, "roles granted", |role| add_once(&mut role.roles, &roles))
}

/// `revokeRolesFromRole`.
///
/// # Errors
/// As [`update`].
pub fn revoke_roles(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (name, roles) = (own(call)?, some_roles(call)?);
    change(call, &name, "roles revoked", |role| role.roles.retain(|other| !roles.contains(other)))
}

/// `rolesInfo`: the roles of the database for 1, with `showBuiltinRoles` the built-in ones as well, or those that are
/// named.
///
/// # Errors
/// `BadValue` (2).
pub fn info(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let fields = call.fields();
    let flag = |name: &str| fields.bool(name).map(|is| is.unwrap_or(false));
    let (show, built_in) = (fields.value("showPrivileges"), flag("showBuiltinRoles")?);
    let as_user = show.is_some_and(|show| show.as_str() == Some("asUserFragment"));
    let show = !as_user && flag("showPrivileges")?;
    let found = match fields.value(call.name) {
        Some(value) if value.kind().is_number() => all_of(call, built_in)?,
        Some(Value::Array(array)) => {
            array.values().map(|role| parse_role(role, call.database)).collect::<Result<Vec<_>>>()?
        }
        Some(value @ (Value::String(_) | Value::Document(_))) => vec![parse_role(value, call.database)?],
        _ => return Err(Error::bad_value("rolesInfo needs 1, a role or roles")),
    };
    let mut reply = DocumentBuilder::new();
    if as_user {
        append_as_user(call, &mut reply, &found)?;
        return Ok(reply);
    }
    reply.open_array("roles");
    for role in &found {
        append_role(call, &mut reply, role, show)?;
    }
    reply.close();
    Ok(reply)
}

/// What `rolesInfo` needs: to view the roles of the database of each role that it tells of, but for roles that the
/// client's users have.
///
/// # Errors
/// As [`info`].
pub fn info_needs(call: &Asked<'_>) -> Result<Need> {
    let view = |on| Need::Action("viewRole", on);
    let Some(first) = call.request.body.first() else { return Ok(Need::NEVER) };
    let database = call.request.database;
    let named = match first.value {
        value if value.kind().is_number() => return Ok(view(call.on_database())),
        Value::Array(array) => array.values().map(|role| parse_role(role, database)).collect::<Result<Vec<_>>>()?,
        value => vec![parse_role(value, database)?],
    };
    let rights = call.request.client.rights.as_ref();
    let others = named.into_iter().filter(|role| !rights.is_some_and(|own| own.has_role(&role.database, &role.role)));
    Ok(Need::All(others.map(|role| view(On::Database(role.database))).collect()))
}

/// The roles of the database.
fn all_of(call: &Call<'_>, built_in: bool) -> Result<Vec<RoleName>> {
    let mut all: Vec<_> =
        call.server.accounts.roles.list(Some(call.database))?.into_iter().map(|role| role.name).collect();
    if built_in {
        let name = |role: &str| RoleName { role: role.to_owned(), database: call.database.to_owned() };
        all.extend(roles::names(call.database).map(name));
    }
    all.sort_unstable();
    Ok(all)
}

fn append_role(call: &Call<'_>, reply: &mut DocumentBuilder, role: &RoleName, show: bool) -> Result<()> {
    let accounts = &call.server.accounts;
    let Some(contents) = accounts.contents(role)? else { return Ok(()) };
    let inherited = accounts.granted(&contents.roles)?;
    reply.push_document();
    if !contents.built_in {
        reply.append("_id", role.key().as_str());
    }
    reply.append("role", role.role.as_str()).append("db", role.database.as_str());
    if show {
        contents.privileges.append_to(reply, "privileges");
    }
    append_roles(reply, "roles", &contents.roles);
    append_roles(reply, "inheritedRoles", &inherited.roles);
    if show {
        let mut all = contents.privileges;
        all.add_all(&inherited.privileges);
        all.append_to(reply, "inheritedPrivileges");
    }
    reply.append("isBuiltin", contents.built_in).close();
    Ok(())
}

/// What the roles would give a user together.
fn append_as_user(call: &Call<'_>, reply: &mut DocumentBuilder, roles: &[RoleName]) -> Result<()> {
    let granted = call.server.accounts.granted(roles)?;
    reply.open_document("userFragment");
    append_roles(reply, "roles", roles);
    append_roles(reply, "inheritedRoles", &granted.roles);
    granted.privileges.append_to(reply, "inheritedPrivileges");
    reply.close();
    Ok(())
}

/// The role that the command names.
fn named(call: &Call<'_>) -> Result<RoleName> {
    let role = call.fields().required_text(call.name)?;
    Ok(RoleName { role: role.to_owned(), database: call.database.to_owned() })
}

/// The role that the command names, which must be there and not built in.
fn own(call: &Call<'_>) -> Result<RoleName> {
    let name = named(call)?;
    match call.server.accounts.contents(&name)? {
        Some(contents) if contents.built_in => {
            let what = format!("{name} is a built-in role and cannot be modified");
            Err(Error::new(ErrorCode::INVALID_ROLE_MODIFICATION, what))
        }
        Some(_) => Ok(name),
        None => Err(no_such_role(&name)),
    }
}

/// The privileges that the command has, if it has them: the client may give them.
fn privileges_of(call: &Call<'_>) -> Result<Option<Privileges>> {
    let Some(array) = call.fields().array("privileges")? else { return Ok(None) };
    let privileges = Privileges::parse(array)?;
    may_grant_privileges(call, &privileges)?;
    Ok(Some(privileges))
}

fn some_privileges(call: &Call<'_>) -> Result<Privileges> {
    let privileges = privileges_of(call)?.unwrap_or_default();
    if privileges.is_empty() {
        return Err(Error::bad_value(format!("{} needs at least one privilege", call.name)));
    }
    Ok(privileges)
}

fn some_roles(call: &Call<'_>) -> Result<Vec<RoleName>> {
    let roles = roles_of(call, "roles")?.unwrap_or_default();
    if roles.is_empty() {
        return Err(Error::bad_value(format!("\"{}\" command requires a non-empty \"roles\" array", call.name)));
    }
    Ok(roles)
}

/// Checks a role before it is stored: it stays in its database, and has not its own privileges by way of others.
fn check(call: &Call<'_>, role: &Role) -> Result<()> {
    role.check_reach()?;
    if call.server.accounts.granted(&role.roles)?.roles.contains(&role.name) {
        let what = format!("Granting roles to {} would introduce a cycle in the role graph", role.name);
        return Err(Error::new(ErrorCode::INVALID_ROLE_MODIFICATION, what));
    }
    Ok(())
}

fn change(call: &Call<'_>, name: &RoleName, event: &str, change: impl Fn(&mut Role)) -> Result<DocumentBuilder> {
    // Roles are changed one after the other, so that two changes make no circle together.
    let _one_at_a_time = call.server.accounts.changing.lock();
    call.server.accounts.roles.change(&name.key(), |role| {
        change(role);
        check(call, role)
    })?;
    note(call, event, name);
    Ok(DocumentBuilder::new())
}

fn note(call: &Call<'_>, event: &str, role: &RoleName) {
    super::users::note(call, event, &[("role", &role.role)]);
}
