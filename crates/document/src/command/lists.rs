//! Commands that list collections and databases.

use super::call::{Call, Reply};
use super::commands::Command;
use super::cursors::Known;
use super::reply::{cursor, cursor_option};
use super::sizes::sizes_of_database;
use super::spec::{Field, FieldType, Target};
use crate::base::{Need, On, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::catalog::Namespace;
use crate::query::Filter;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "listCollections",
        Target::Value(&[]),
        "Lists the collections and views of a database.",
        list_collections,
    )
    .fields(&[
        Field::optional("cursor", FieldType::Object),
        Field::optional("filter", FieldType::Object),
        Field::optional("nameOnly", FieldType::StrictBool),
        Field::optional("authorizedCollections", FieldType::StrictBool),
    ])
    .needs_by(collections_need)
    .stable(),
    Command::new("listDatabases", Target::Value(&[]), "Lists the databases.", list_databases)
        .fields(&[
            Field::optional("filter", FieldType::Object),
            Field::optional("nameOnly", FieldType::Bool),
            Field::optional("authorizedDatabases", FieldType::StrictBool),
        ])
        .needs_by(databases_need)
        .admin_only()
        .stable(),
];

/// What `listCollections` needs: the names of those that a client may use are for the client.
fn collections_need(call: &Call<'_>) -> Result<Need> {
    let reaches =
        call.request.client.rights.as_ref().is_some_and(|rights| rights.reaches_database(call.request.database));
    if reaches && call.is_set("authorizedCollections") && call.is_set("nameOnly") {
        return Ok(Need::NOTHING);
    }
    Ok(Need::Action("listCollections", call.on_database()))
}

/// What `listDatabases` needs: a client that may not list all sees those that it may use.
fn databases_need(call: &Call<'_>) -> Result<Need> {
    let all = call.flag("authorizedDatabases") == Some(false);
    Ok(if all { ALL_DATABASES } else { Need::NOTHING })
}

/// What the list of all databases needs.
const ALL_DATABASES: Need = Need::Action("listDatabases", On::Cluster);

fn list_collections(call: &Call<'_>) -> Result<Reply> {
    let batch = cursor_option(call)?;
    Namespace::new(call.request.database, "x")?;
    let filter = Filter::parse(call.document_or_empty("filter"), &call.context()?)?;
    let mut listed = Vec::new();
    for collection in seen(call, call.request.database, call.is_set("authorizedCollections")) {
        let shown = if call.is_set("nameOnly") { name_and_type(&collection) } else { collection };
        if filter.matches(shown.view())? {
            listed.push(shown);
        }
    }
    cursor(call, &format!("{}.$cmd.listCollections", call.request.database), Known::new(listed), batch)
}

/// The collections and views of a database: all, or those that the client may use.
fn seen(call: &Call<'_>, database: &str, limited: bool) -> Vec<DocumentBuf> {
    let mut collections = call.state.database.list_collections(database);
    if let Some(rights) = call.request.client.rights.as_ref().filter(|_| limited) {
        collections.retain(|collection| rights.reaches_collection(database, name_of(collection)));
    }
    collections
}

fn name_of(collection: &DocumentBuf) -> &str {
    collection.view().get("name").and_then(|name| name.as_str()).unwrap_or_default()
}

/// What `$listClusterCatalog` tells: the collections and views of a database, or of all when that is `admin`.
pub(super) fn catalog(call: &Call<'_>, spec: Document<'_>) -> Vec<DocumentBuf> {
    let databases = match call.request.database {
        "admin" => call.state.database.list_databases(),
        one => vec![one.to_owned()],
    };
    let mut listed = Vec::new();
    for database in &databases {
        for collection in seen(call, database, false) {
            let mut builder = DocumentBuilder::new();
            builder
                .append("ns", format!("{database}.{}", name_of(&collection)).as_str())
                .append("db", database.as_str());
            collection.view().elements().filter(|field| field.name != "name").for_each(|field| {
                builder.append_element(&field);
            });
            builder.append("sharded", false);
            if matches!(spec.get("shards"), Some(Value::Bool(true))) {
                builder.open_array("shards").close();
            }
            listed.push(builder.finish());
        }
    }
    listed
}

fn name_and_type(collection: &DocumentBuf) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    for name in ["name", "type"] {
        collection.view().element(name).into_iter().for_each(|element| {
            builder.append_element(&element);
        });
    }
    builder.finish()
}

/// The databases of users, settings and sessions, which are there without a collection of a client.
const SERVERS_OWN: [&str; 3] = ["admin", "config", "local"];

fn list_databases(call: &Call<'_>) -> Result<Reply> {
    let filter = Filter::parse(call.document_or_empty("filter"), &call.context()?)?;
    let (mut reply, mut total, name_only) = (Reply::new(), 0_u64, call.is_set("nameOnly"));
    reply.open_array("databases");
    let mut all = call.state.database.list_databases();
    all.extend(SERVERS_OWN.iter().map(|name| (*name).to_owned()));
    all.sort_unstable();
    all.dedup();
    let client = call.request.client;
    let limited = call.is_set("authorizedDatabases") || !client.may(&ALL_DATABASES);
    if let Some(rights) = client.rights.as_ref().filter(|_| limited) {
        all.retain(|name| rights.reaches_database(name));
    }
    for name in all {
        let mut database = DocumentBuilder::new();
        database.append("name", &name);
        let mut bytes = 0;
        if !name_only {
            bytes = sizes_of_database(&call.state.database, &name)?.on_disk();
            database.append("sizeOnDisk", i64::try_from(bytes).unwrap_or(i64::MAX)).append("empty", false);
        }
        let database = database.finish();
        if filter.matches(database.view())? {
            reply.push(&database);
            total += bytes;
        }
    }
    reply.close();
    if !name_only {
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        reply.append("totalSize", total).append("totalSizeMb", total >> 20);
    }
    Ok(reply)
}
