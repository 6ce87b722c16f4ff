//! What a client may give to users and roles.

use spinney_document::{Error, ErrorCode, Result};

use super::spec::Call;
use crate::auth::user::parse_roles;
use crate::auth::{Privileges, RoleName, Target};
use crate::state::accounts::no_such_role;

/// The roles that a command has in a field, if it has them: they are there, and the client may give or take them.
///
/// # Errors
/// `RoleNotFound` (31), `Unauthorized` (13), `BadValue` (2), `TypeMismatch` (14).
pub(super) fn roles_of(call: &Call<'_>, field: &str) -> Result<Option<Vec<RoleName>>> {
    let Some(array) = call.fields().array(field)? else { return Ok(None) };
    let roles = parse_roles(array, call.database)?;
    for role in &roles {
        if call.server.accounts.contents(role)?.is_none() {
            return Err(no_such_role(role));
        }
        let action = if call.name.starts_with("revoke") { "revokeRole" } else { "grantRole" };
        if !allowed(call, action, &role.database) {
            let what = format!("not authorized to grant or revoke role: {role}");
            return Err(Error::new(ErrorCode::UNAUTHORIZED, what));
        }
    }
    Ok(Some(roles))
}

/// Whether the client may give privileges: those of a database need a right there, all others one on `admin`.
///
/// # Errors
/// `Unauthorized` (13).
pub(super) fn may_grant_privileges(call: &Call<'_>, privileges: &Privileges) -> Result<()> {
    let action = if call.name.starts_with("revoke") { "revokeRole" } else { "grantRole" };
    for privilege in privileges.iter() {
        if !allowed(call, action, privilege.resource.database().unwrap_or("admin")) {
            let what = format!("not authorized to grant or revoke privileges on {}", privilege.resource);
            return Err(Error::new(ErrorCode::UNAUTHORIZED, what));
        }
    }
    Ok(())
}

/// Whether the client has a right on a database. Without authentication, and for the first user, everything is allowed.
fn allowed(call: &Call<'_>, action: &str, database: &str) -> bool {
    let session = &call.session;
    !call.server.settings.auth
        || session.logins.is_empty()
        || session.privileges.allow(action, Target::Database(database))
}
