//! `_mergeAuthzCollections`: the users and roles that `mongorestore` has put into collections of its own become those
//! of the server.

use spinney_document::base::{Need, On};
use spinney_document::bson::DocumentBuilder;
use spinney_document::command::Call as Asked;
use spinney_document::{Error, Result};

use super::spec::Call;
use crate::state::records::{Record, Records};

/// `_mergeAuthzCollections`: users and roles of one database, or of all for an empty `db`. With `drop` those of the
/// server that are not among them go.
///
/// # Errors
/// `BadValue` (2) without a collection of either; those of documents that are no users or roles.
pub fn merge(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let fields = call.fields();
    let named = |name: &str| fields.text(name).map(|text| text.filter(|text| !text.is_empty()));
    let (users, roles) = (named("tempUsersCollection")?, named("tempRolesCollection")?);
    if users.is_none() && roles.is_none() {
        let what = "Must provide at least one of \"tempUsersCollection\" and \"tempRolesCollection\"";
        return Err(Error::bad_value(what));
    }
    let (database, drop) = (named("db")?, fields.bool("drop")?.unwrap_or(false));
    let accounts = &call.server.accounts;
    let _changing = accounts.changing.lock();
    if let Some(name) = roles {
        merge_from(call, &accounts.roles, name, database, drop)?;
    }
    if let Some(name) = users {
        merge_from(call, &accounts.users, name, database, drop)?;
    }
    accounts.touch();
    call.server.log.info("users and roles restored", &[("db", database.unwrap_or("*"))]);
    Ok(DocumentBuilder::new())
}

/// What `_mergeAuthzCollections` needs: to make any users and roles, to drop any with `drop`, and to read what it takes
/// in.
///
/// # Errors
/// None.
pub fn needs(call: &Asked<'_>) -> Result<Need> {
    let drops: &[&str] = if call.is_set("drop") { &["dropUser", "dropRole"] } else { &[] };
    let makes = ["createUser", "createRole", "grantRole", "revokeRole"];
    let all: Vec<_> = makes.iter().chain(drops).copied().collect();
    let mut needs = vec![Need::actions(&all, &On::AnyDatabase)];
    for name in ["tempUsersCollection", "tempRolesCollection"].iter().filter_map(|field| call.text(field)) {
        if !name.is_empty() {
            needs.push(Need::Action("find", On::namespace(name)));
        }
    }
    Ok(Need::All(needs))
}

fn merge_from<T: Record>(
    call: &Call<'_>,
    records: &Records<T>,
    name: &str,
    database: Option<&str>,
    drop: bool,
) -> Result<()> {
    let from = call.server.service.database().collection(name)?;
    records.merge(&from.ok_or_else(|| Error::bad_value(format!("there is no collection {name}")))?, database, drop)
}
