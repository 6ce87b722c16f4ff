//! Whether a client may run a command.

use spinney_document::bson::{Array, Document, Value};
use spinney_document::command::spec::{self, Declaration, Resource};
use spinney_document::{Error, ErrorCode, Result};

use super::session::Session;
use super::spec::Incoming;
use crate::auth::RoleName;
use crate::auth::roles::{Target, allow};
use crate::base::fields::{truth, whole};
use crate::state::Server;

/// Commands of the library that a client may run before it has logged in: what a handshake needs, and nothing of data.
const BEFORE_LOGIN: [&str; 5] = ["ping", "buildInfo", "buildinfo", "listCommands", "whatsmyuri"];

/// Checks that a client may run a command. Without authentication every client may run every command.
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
    if session.logins.is_empty() {
        if may_make_the_first_user(server, session, incoming)? {
            return Ok(());
        }
        let what = format!("Command {} requires authentication", incoming.name());
        return Err(Error::new(ErrorCode::UNAUTHORIZED, what));
    }
    let roles: Vec<RoleName> = session.logins.iter().flat_map(|login| login.roles.iter().cloned()).collect();
    if is_allowed(server, &roles, incoming, declared) {
        return Ok(());
    }
    let what = format!("not authorized on {} to execute command {}", incoming.database, incoming.name());
    Err(Error::new(ErrorCode::UNAUTHORIZED, what))
}

/// Whether roles allow a command: what it declares, and what follows from its fields.
fn is_allowed(server: &Server, roles: &[RoleName], incoming: &Incoming<'_>, declared: &Declaration) -> bool {
    match declared.name {
        "renameCollection" => return rename_is_allowed(roles, incoming),
        "bulkWrite" => return bulk_write_is_allowed(roles, incoming),
        "explain" => return explained_is_allowed(server, roles, incoming),
        _ => {}
    }
    let declared_are = declared
        .privileges
        .iter()
        .all(|privilege| allow(roles, privilege.action, target(privilege.resource, incoming, declared)));
    let pipeline = incoming.body.get("pipeline").and_then(|pipeline| pipeline.as_array());
    declared_are && pipeline.is_none_or(|pipeline| pipeline_is_allowed(roles, incoming.database, pipeline))
}

/// Whether the command within an `explain` is allowed; one that is not known is refused by the library.
fn explained_is_allowed(server: &Server, roles: &[RoleName], incoming: &Incoming<'_>) -> bool {
    let Some(body) = incoming.body.first().and_then(|first| first.value.as_document()) else { return true };
    let inner = Incoming { body, ..*incoming };
    match server.service.command(inner.name()) {
        Some(declared) if declared.name != "explain" => is_allowed(server, roles, &inner, declared),
        Some(_) => false,
        None => true,
    }
}

/// Whether each write of a `bulkWrite` is allowed on its collection.
fn bulk_write_is_allowed(roles: &[RoleName], incoming: &Incoming<'_>) -> bool {
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
        actions.iter().all(|action| allow(roles, action, namespace_target(namespace)))
    })
}

/// Reads the roles of the connection's users again when users were changed since.
fn refresh(server: &Server, session: &mut Session) -> Result<()> {
    let generation = server.users.generation();
    if session.logins.iter().all(|login| login.generation == generation) {
        return Ok(());
    }
    let mut left = Vec::new();
    for mut login in std::mem::take(&mut session.logins) {
        // Another user who has the name now is not the one who has logged in.
        let user = server.users.find(&login.database, &login.name)?.filter(|user| user.id == login.id);
        if let Some(user) = user {
            login.roles = user.roles;
            login.generation = generation;
            left.push(login);
        }
    }
    session.logins = left;
    session.tell_library();
    Ok(())
}

/// Whether a client of this machine may create the first user, as there is none yet.
fn may_make_the_first_user(server: &Server, session: &Session, incoming: &Incoming<'_>) -> Result<bool> {
    let wanted = incoming.name() == "createUser" && incoming.database == "admin";
    Ok(wanted && session.local && server.users.are_none()?)
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
fn rename_is_allowed(roles: &[RoleName], incoming: &Incoming<'_>) -> bool {
    let (Some(from), Some(to)) = (
        incoming.body.first().and_then(|first| first.value.as_str()),
        incoming.body.get("to").and_then(|to| to.as_str()),
    ) else {
        return true;
    };
    let (from, to) = (namespace_target(from), namespace_target(to));
    let same = matches!((from, to), (Target::Collection(a, _), Target::Collection(b, _)) if a == b);
    let within = |target| allow(roles, "renameCollectionSameDB", target);
    let across = || {
        ["find", "dropCollection"].iter().all(|action| allow(roles, action, from))
            && ["insert", "createCollection", "dropCollection"].iter().all(|action| allow(roles, action, to))
    };
    same && within(from) && within(to) || across()
}

/// Whether the collections that a pipeline reads beside its own, and the one that it writes to, may be used so.
fn pipeline_is_allowed(roles: &[RoleName], database: &str, pipeline: Array<'_>) -> bool {
    pipeline.values().filter_map(|stage| stage.as_document()).all(|stage| {
        stage.elements().all(|element| {
            let name = element.name.to_str_lossy();
            stage_is_allowed(roles, database, &name, element.value)
        })
    })
}

fn stage_is_allowed(roles: &[RoleName], database: &str, name: &str, value: Value<'_>) -> bool {
    let document = value.as_document().unwrap_or(Document::empty());
    let nested = |field: &str| {
        let pipeline = document.get(field).and_then(|pipeline| pipeline.as_array());
        pipeline.is_none_or(|pipeline| pipeline_is_allowed(roles, database, pipeline))
    };
    let reads = |field: &str| document.get(field).is_none_or(|from| reads_allowed(roles, database, from));
    match name {
        "$lookup" => reads("from") && nested("pipeline"),
        "$graphLookup" => reads("from"),
        "$unionWith" if value.as_str().is_some() => reads_allowed(roles, database, value),
        "$unionWith" => reads("coll") && nested("pipeline"),
        "$facet" => document
            .elements()
            .all(|part| part.value.as_array().is_none_or(|pipeline| pipeline_is_allowed(roles, database, pipeline))),
        "$out" => writes_allowed(roles, database, value, &["insert", "remove"]),
        "$merge" => {
            let into = document.get("into").unwrap_or(value);
            writes_allowed(roles, database, into, &["insert", "update"])
        }
        "$currentOp" => allow(roles, "inprog", Target::Cluster),
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

fn reads_allowed(roles: &[RoleName], database: &str, value: Value<'_>) -> bool {
    named(database, value).is_none_or(|target| allow(roles, "find", target))
}

fn writes_allowed(roles: &[RoleName], database: &str, value: Value<'_>, actions: &[&str]) -> bool {
    named(database, value).is_none_or(|target| actions.iter().all(|action| allow(roles, action, target)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::bson::DocumentBuf;

    fn allowed(role: &str, pipeline: &str) -> bool {
        let roles = [RoleName { role: role.to_owned(), database: "app".to_owned() }];
        let document = DocumentBuf::from_json(&format!(r#"{{"pipeline": {pipeline}}}"#)).unwrap();
        pipeline_is_allowed(&roles, "app", document.view().get("pipeline").unwrap().as_array().unwrap())
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
            r#"[{"$currentOp": {}}]"#,
        ] {
            assert!(!allowed("read", pipeline), "{pipeline}");
        }
        assert!(allowed("read", r#"[{"$lookup": {"from": "x", "as": "y"}}, {"$unionWith": "z"}]"#));
        assert!(allowed("readWrite", r#"[{"$out": "x"}]"#));
        assert!(!allowed("readWrite", r#"[{"$out": {"db": "other", "coll": "x"}}]"#));
    }
}
