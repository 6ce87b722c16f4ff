//! Whether a client may run a command.

use std::sync::Arc;

use spinney_document::bson::{Array, Document, Value};
use spinney_document::command::Visibility;
use spinney_document::command::spec::{self, Declaration, Resource};
use spinney_document::{Error, ErrorCode, Result};

use super::session::Session;
use super::spec::Incoming;
use super::users;
use crate::auth::user::parse_role;
use crate::auth::{Privileges, RoleName, Target, User};
use crate::base::fields::{truth, whole};
use crate::state::Server;

/// Commands of the library that a client may run before it has logged in: what a handshake needs, and nothing of data.
const BEFORE_LOGIN: [&str; 5] = ["ping", "buildInfo", "buildinfo", "listCommands", "whatsmyuri"];

/// Checks that a client may run a command. Without authentication every client may run every command. A refusal is
/// noted in the log.
///
/// # Errors
/// `Unauthorized` (13).
pub fn check(
    server: &Server,
    session: &mut Session,
    incoming: &Incoming<'_>,
    declared: &Declaration,
    before_login: bool,
) -> Result<()> {
    if !server.settings.auth || before_login || BEFORE_LOGIN.contains(&incoming.name()) {
        return Ok(());
    }
    refresh(server, session)?;
    let what = if !session.logins.is_empty() {
        if is_allowed(server, session, incoming, declared) {
            limit_lists(session, incoming);
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

/// Whether a client may run a command: what it declares, and what follows from its fields.
fn is_allowed(server: &Server, session: &Session, incoming: &Incoming<'_>, declared: &Declaration) -> bool {
    let granted = &*session.privileges;
    match declared.name {
        "renameCollection" => return rename_is_allowed(granted, incoming),
        "bulkWrite" => return bulk_write_is_allowed(granted, incoming),
        "explain" => return explained_is_allowed(server, session, incoming),
        "updateUser" => return update_user_is_allowed(session, incoming),
        "usersInfo" if is_about_own_users(session, incoming) => return true,
        "rolesInfo" if is_about_own_roles(session, incoming) => return true,
        "currentOp" if is_set(incoming, "$ownOps") => return true,
        "killOp" if kills_own(server, session, incoming) => return true,
        // They show what the client may see.
        "listDatabases" if incoming.body.get("authorizedDatabases") != Some(Value::Bool(false)) => return true,
        "listCollections" if is_set(incoming, "authorizedCollections") && is_set(incoming, "nameOnly") => return true,
        _ => {}
    }
    let declared_are = declared
        .privileges
        .iter()
        .all(|privilege| granted.allow(privilege.action, target(privilege.resource, incoming, declared)));
    let pipeline = incoming.body.get("pipeline").and_then(|pipeline| pipeline.as_array());
    declared_are && pipeline.is_none_or(|pipeline| pipeline_is_allowed(granted, incoming.database, pipeline))
}

fn is_set(incoming: &Incoming<'_>, field: &str) -> bool {
    incoming.body.get(field).as_ref().and_then(truth) == Some(true)
}

/// Limits lists of databases and collections to those in which the client may do something, when the client asks for
/// that or may not see all.
fn limit_lists(session: &mut Session, incoming: &Incoming<'_>) {
    let limited = match incoming.name() {
        "listDatabases" => {
            is_set(incoming, "authorizedDatabases") || !session.privileges.allow("listDatabases", Target::Cluster)
        }
        "listCollections" => is_set(incoming, "authorizedCollections"),
        _ => false,
    };
    session.client.visible = limited.then(|| Arc::clone(&session.privileges) as Arc<dyn Visibility>);
}

impl Visibility for Privileges {
    fn database(&self, name: &str) -> bool {
        self.reach_database(name)
    }

    fn collection(&self, database: &str, name: &str) -> bool {
        self.reach_collection(database, name)
    }
}

/// Whether a client may change what `updateUser` changes; of the client's own user by actions of their own as well.
fn update_user_is_allowed(session: &Session, incoming: &Incoming<'_>) -> bool {
    let name = incoming.body.first().and_then(|first| first.value.as_str()).unwrap_or_default();
    let own = session.logins.iter().any(|login| login.database == incoming.database && login.name == name);
    let target = Target::Database(incoming.database);
    let may = |action: &str| session.privileges.allow(action, target);
    let has = |fields: &[&str]| fields.iter().any(|field| incoming.body.get(field).is_some());
    (!has(&["pwd", "mechanisms", "digestPassword"]) || may("changePassword") || own && may("changeOwnPassword"))
        && (!has(&["customData"]) || may("changeCustomData") || own && may("changeOwnCustomData"))
        && (!has(&["roles"]) || may("revokeRole"))
        && (!has(&["authenticationRestrictions"]) || may("setAuthenticationRestriction"))
}

/// Whether a `usersInfo` names none but users who have logged in by the connection, and does not ask for what proves
/// their passwords.
fn is_about_own_users(session: &Session, incoming: &Incoming<'_>) -> bool {
    let Some(first) = incoming.body.first() else { return false };
    let named = users::all_named(first.value, incoming.database).unwrap_or_default();
    let own = |(database, name): &(String, String)| {
        session.logins.iter().any(|login| login.database == *database && login.name == *name)
    };
    !named.is_empty() && named.iter().all(own) && !is_set(incoming, "showCredentials")
}

/// Whether a `rolesInfo` names none but roles of the users of the connection.
fn is_about_own_roles(session: &Session, incoming: &Incoming<'_>) -> bool {
    let Some(first) = incoming.body.first() else { return false };
    let role = |value: Value<'_>| parse_role(value, incoming.database).ok();
    let named: Option<Vec<_>> = match first.value.as_array() {
        Some(array) => array.values().map(role).collect(),
        None => role(first.value).map(|role| vec![role]),
    };
    let own = |role: &RoleName| session.logins.iter().any(|login| login.roles.contains(role));
    named.is_some_and(|named| !named.is_empty() && named.iter().all(own))
}

/// Whether a `killOp` ends a command of the client's own user.
fn kills_own(server: &Server, session: &Session, incoming: &Incoming<'_>) -> bool {
    let Some(id) = incoming.body.get("op").as_ref().and_then(whole) else { return false };
    let running = server.service.state().operations.list();
    running.iter().any(|operation| i64::from(operation.id) == id && operation.user == session.client.user)
}

/// Whether the command within an `explain` is allowed; one that is not known is refused by the library.
fn explained_is_allowed(server: &Server, session: &Session, incoming: &Incoming<'_>) -> bool {
    let Some(body) = incoming.body.first().and_then(|first| first.value.as_document()) else { return true };
    let inner = Incoming::new(incoming.database, body, incoming.sequences);
    match server.service.command(inner.name()) {
        Some(declared) if declared.name != "explain" => is_allowed(server, session, &inner, declared),
        Some(_) => false,
        None => true,
    }
}

/// Whether each write of a `bulkWrite` is allowed on its collection.
fn bulk_write_is_allowed(granted: &Privileges, incoming: &Incoming<'_>) -> bool {
    let documents = |name: &str| -> Vec<Document<'_>> {
        let array = incoming.body.get(name).and_then(|array| array.as_array());
        let beside = incoming.sequences.iter().filter(|(field, _)| *field == name).flat_map(|(_, documents)| documents);
        array.into_iter().flatten().filter_map(|value| value.as_document()).chain(beside.copied()).collect()
    };
    let namespaces = documents("nsInfo");
    documents("ops").iter().all(|write| {
        let Some(first) = write.first() else { return true };
        let place = whole(&first.value).and_then(|at| usize::try_from(at).ok()).and_then(|at| namespaces.get(at));
        let namespace = place.and_then(|namespace| namespace.get("ns")).and_then(|namespace| namespace.as_str());
        // What makes no sense is refused by the library, before it writes.
        let Some(namespace) = namespace else { return true };
        let upsert = write.get("upsert").as_ref().and_then(truth) == Some(true);
        let actions: &[&str] = match first.name.as_str() {
            Some("insert") => &["insert"],
            Some("update") if upsert => &["update", "insert"],
            Some("update") => &["update"],
            _ => &["remove"],
        };
        actions.iter().all(|action| granted.allow(action, namespace_target(namespace)))
    })
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

/// On what a command wants a privilege.
fn target<'a>(resource: Resource, incoming: &Incoming<'a>, declared: &Declaration) -> Target<'a> {
    match resource {
        Resource::Cluster => Target::Cluster,
        Resource::Database => Target::Database(incoming.database),
        Resource::Collection => {
            let first = incoming.body.first().and_then(|first| first.value.as_str());
            let field = incoming.body.get("collection").and_then(|name| name.as_str());
            match (declared.target, first.or(field)) {
                (spec::Target::Namespace, Some(namespace)) => namespace_target(namespace),
                (_, Some(collection)) => Target::Collection(incoming.database, collection),
                (_, None) => Target::Database(incoming.database),
            }
        }
    }
}

fn namespace_target(namespace: &str) -> Target<'_> {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    Target::Collection(database, collection)
}

/// Whether a collection may be moved: within a database by an action of its own, else by removing and inserting.
fn rename_is_allowed(granted: &Privileges, incoming: &Incoming<'_>) -> bool {
    let (Some(from), Some(to)) = (
        incoming.body.first().and_then(|first| first.value.as_str()),
        incoming.body.get("to").and_then(|to| to.as_str()),
    ) else {
        return true;
    };
    let (from, to) = (namespace_target(from), namespace_target(to));
    let same = matches!((from, to), (Target::Collection(a, _), Target::Collection(b, _)) if a == b);
    let within = |target| granted.allow("renameCollectionSameDB", target);
    let across = || {
        ["find", "dropCollection"].iter().all(|action| granted.allow(action, from))
            && ["insert", "createCollection", "dropCollection"].iter().all(|action| granted.allow(action, to))
    };
    same && within(from) && within(to) || across()
}

/// Whether the collections that a pipeline reads beside its own, and the one that it writes to, may be used so.
fn pipeline_is_allowed(granted: &Privileges, database: &str, pipeline: Array<'_>) -> bool {
    pipeline.values().filter_map(|stage| stage.as_document()).all(|stage| {
        stage.elements().all(|element| {
            let name = element.name.to_str_lossy();
            stage_is_allowed(granted, database, &name, element.value)
        })
    })
}

fn stage_is_allowed(granted: &Privileges, database: &str, name: &str, value: Value<'_>) -> bool {
    let document = value.as_document().unwrap_or(Document::empty());
    let nested = |field: &str| {
        let pipeline = document.get(field).and_then(|pipeline| pipeline.as_array());
        pipeline.is_none_or(|pipeline| pipeline_is_allowed(granted, database, pipeline))
    };
    let reads = |field: &str| document.get(field).is_none_or(|from| reads_allowed(granted, database, from));
    match name {
        "$lookup" => reads("from") && nested("pipeline"),
        "$graphLookup" => reads("from"),
        "$unionWith" if value.as_str().is_some() => reads_allowed(granted, database, value),
        "$unionWith" => reads("coll") && nested("pipeline"),
        "$facet" => document
            .elements()
            .all(|part| part.value.as_array().is_none_or(|pipeline| pipeline_is_allowed(granted, database, pipeline))),
        "$out" => writes_allowed(granted, database, value, &["insert", "remove"]),
        "$merge" => {
            let into = document.get("into").unwrap_or(value);
            writes_allowed(granted, database, into, &["insert", "update"])
        }
        // Without it, the stage shows the client's own.
        "$currentOp" if document.get("allUsers").as_ref().and_then(truth) != Some(true) => true,
        "$currentOp" => granted.allow("inprog", Target::Cluster),
        // Of all databases, when it is run on `admin`.
        "$listClusterCatalog" if database == "admin" => granted.allow("listDatabases", Target::Cluster),
        "$listClusterCatalog" => granted.allow("listCollections", Target::Database(database)),
        "$querySettings" => granted.allow("querySettings", Target::Cluster),
        _ => true,
    }
}

/// The collection that a stage names: its name, or `{db, coll}`.
fn named<'a>(database: &'a str, value: Value<'a>) -> Option<Target<'a>> {
    if let Some(collection) = value.as_str() {
        return Some(Target::Collection(database, collection));
    }
    let document = value.as_document()?;
    let other = document.get("db").and_then(|name| name.as_str()).unwrap_or(database);
    Some(Target::Collection(other, document.get("coll")?.as_str()?))
}

fn reads_allowed(granted: &Privileges, database: &str, value: Value<'_>) -> bool {
    named(database, value).is_none_or(|target| granted.allow("find", target))
}

fn writes_allowed(granted: &Privileges, database: &str, value: Value<'_>, actions: &[&str]) -> bool {
    named(database, value).is_none_or(|target| actions.iter().all(|action| granted.allow(action, target)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::roles;
    use spinney_document::bson::DocumentBuf;

    fn allowed(role: &str, pipeline: &str) -> bool {
        let (roles, mut granted) =
            roles::contents(&RoleName { role: role.to_owned(), database: "app".to_owned() }).unwrap();
        roles.iter().for_each(|role| granted.add_all(&roles::contents(role).unwrap().1));
        let document = DocumentBuf::from_json(&format!(r#"{{"pipeline": {pipeline}}}"#)).unwrap();
        pipeline_is_allowed(&granted, "app", document.view().get("pipeline").unwrap().as_array().unwrap())
    }

    #[test]
    fn a_reader_cannot_write_by_a_pipeline_or_read_elsewhere() {
        for pipeline in [
            r#"[{"$match": {}}, {"$out": "x"}]"#,
            r#"[{"$out": {"db": "app", "coll": "x"}}]"#,
            r#"[{"$merge": "x"}]"#,
            r#"[{"$merge": {"into": "x"}}]"#,
            r#"[{"$merge": {"into": {"db": "other", "coll": "x"}}}]"#,
            r#"[{"$lookup": {"from": {"db": "other", "coll": "x"}, "as": "y"}}]"#,
            r#"[{"$lookup": {"from": "system.users", "as": "y"}}]"#,
            r#"[{"$facet": {"a": [{"$unionWith": {"coll": "system.users"}}]}}]"#,
            r#"[{"$unionWith": {"coll": "x", "pipeline": [{"$merge": {"into": "y"}}]}}]"#,
            r#"[{"$currentOp": {"allUsers": true}}]"#,
        ] {
            assert!(!allowed("read", pipeline), "{pipeline}");
        }
        assert!(allowed("read", r#"[{"$lookup": {"from": "x", "as": "y"}}, {"$unionWith": "z"}]"#));
        assert!(allowed("readWrite", r#"[{"$out": "x"}]"#));
        let listed = DocumentBuf::from_json(r#"{"$listClusterCatalog": {}}"#).unwrap();
        let catalog = |granted: &Privileges, database| {
            stage_is_allowed(granted, database, "$listClusterCatalog", listed.view().first().unwrap().value)
        };
        let reader = roles::contents(&RoleName { role: "read".to_owned(), database: "app".to_owned() }).unwrap().1;
        assert!(catalog(&reader, "app") && !catalog(&reader, "admin") && !catalog(&reader, "other"));
        assert!(!allowed("readWrite", r#"[{"$out": {"db": "other", "coll": "x"}}]"#));
    }
}
