//! What is looked at at the next start.

use std::collections::{BTreeMap, BTreeSet};

use spinney_document::Database;
use spinney_document::bson::{Document, Value};
use spinney_document::command::Service;

use crate::act::NAMES;
use crate::claims::Found;
use crate::json;
use crate::member::APPLIED;

/// What there is, by its name.
pub(crate) fn found(db: &Database) -> Result<Found, String> {
    let (mut found, tell) = (Found::new(), |error: spinney_document::Error| error.to_string());
    for database in db.list_databases() {
        for listed in db.list_collections(&database) {
            let text =
                |name: &str| listed.view().get(name).and_then(|value| value.as_str().map(str::to_owned)).unwrap();
            let name = format!("{database}.{}", text("name"));
            // Each member has its own.
            if name.ends_with("system.profile") {
                continue;
            }
            let kind = text("type");
            if kind == "collection" {
                let validator = listed.view().get("options").and_then(|options| options.as_document());
                let validator = validator.and_then(|options| options.get("validator"));
                let number = validator
                    .and_then(|validator| validator.as_document()?.get("m")?.as_document()?.get("$ne")?.as_exact_i64());
                found.extend(number.map(|number| (format!("{name}/validator"), number.to_string())));
                for index in db.list_indexes(&name).map_err(tell)? {
                    let index_name = index.view().get("name").unwrap().as_str().unwrap().to_owned();
                    let hidden = index.view().get("hidden") == Some(Value::Bool(true));
                    found.insert(format!("{name}/{index_name} is hidden"), hidden.to_string());
                    found.insert(format!("{name}/{index_name}"), "index".to_owned());
                }
                for document in db.collection(&name).map_err(tell)?.unwrap().documents() {
                    let document = document.map_err(tell)?;
                    let id = document.view().get("_id").unwrap().as_exact_i64().unwrap();
                    if id % 5 != 4 {
                        found.insert(format!("{name}/document {id}"), "there".to_owned());
                    }
                }
            }
            found.insert(name, kind);
        }
    }
    Ok(found)
}

/// Whether each row has its tables and each table its row, each index agrees with the documents, and no query finds
/// something else by an index.
pub(crate) fn sound(db: &Database) -> Result<(), String> {
    let tables: BTreeSet<String> = db.engine().tables().unwrap().iter().map(|table| table.name().to_owned()).collect();
    let mut named: BTreeSet<String> = ["catalog", "catalog-own", APPLIED]
        .map(str::to_owned)
        .into_iter()
        .filter(|name| tables.contains(name))
        .collect();
    let (mut numbers, mut next) = (BTreeMap::new(), 0);
    for rows in ["catalog", "catalog-own"] {
        let Some(rows) = db.engine().table(rows).unwrap() else { continue };
        for entry in rows.range(..) {
            let (key, row) = entry.unwrap();
            let name = String::from_utf8(key.to_vec()).unwrap();
            if name == "#" {
                next = u64::from_le_bytes(*row.first_chunk().unwrap());
            }
            if name.starts_with('#') {
                continue;
            }
            let row = Document::parse(&row).map_err(|error| format!("the row of {name}: {error}"))?;
            let number = |row: Document<'_>| row.get("n").and_then(|n| n.as_exact_i64()).map(i64::cast_unsigned);
            let Some(own) = number(row) else { continue };
            let mut take = |number: u64, prefix: &str| {
                let table = match number.checked_sub(1 << 62) {
                    Some(number) => format!("o{prefix}-{number}"),
                    None => format!("{prefix}-{number}"),
                };
                if !tables.contains(&table) {
                    return Err(format!("the row of {name} names {table}, which is not there"));
                }
                named.insert(table);
                match numbers.insert(number, name.clone()) {
                    Some(other) => Err(format!("the rows of {name} and {other} both have number {number}")),
                    None => Ok(()),
                }
            };
            take(own, "c")?;
            for index in row.get("indexes").and_then(|indexes| indexes.as_array()).into_iter().flatten() {
                let index = index.as_document().unwrap();
                if index.get("ready") != Some(Value::Bool(true)) {
                    return Err(format!("{name} has an index that is not built: {index}"));
                }
                take(number(index).unwrap(), "i")?;
            }
        }
    }
    let left: Vec<_> = tables.difference(&named).collect();
    if !left.is_empty() {
        return Err(format!("no row names the tables {left:?}"));
    }
    if let Some((number, name)) = numbers.range(next..1 << 62).next() {
        return Err(format!("{name} has number {number}, and the next one to be given is {next}"));
    }
    collections_are_valid(db)
}

fn collections_are_valid(db: &Database) -> Result<(), String> {
    let service = Service::new(db.clone());
    for (name, kind) in found(db)? {
        if kind != "collection" {
            continue;
        }
        if !NAMES.contains(&&*name) {
            return Err(format!("{name} was left"));
        }
        let collection = db.collection(&name).map_err(|error| format!("{name}: {error}"))?.unwrap();
        let validation = collection.validate().map_err(|error| format!("{name}: {error}"))?;
        if !validation.is_valid() {
            return Err(format!("{name}: {validation:?}"));
        }
        for index in collection.schema().indexes.iter().filter(|index| ["t", "s"].contains(&&*index.spec.name)) {
            if index.spec.hidden {
                continue;
            }
            for range in [r#"{"$gte":2,"$lte":1}"#, r#"{"$gt":0}"#] {
                let count = |hint: &str| {
                    let (database, collection) = name.split_once('.').unwrap();
                    let count = format!(r#"{{"count":"{collection}","query":{{"t":{range}}},"hint":{hint}}}"#);
                    let reply = service.run_command(database, json(&count).view());
                    reply.map(|reply| reply.view().get("n").and_then(|n| n.as_exact_i64())).map_err(|e| e.to_string())
                };
                let (by_index, by_all) = (count(&format!("\"{}\"", index.spec.name))?, count(r#"{"$natural":1}"#)?);
                if by_index != by_all {
                    let index = &index.spec.name;
                    return Err(format!("{name}: of {range} index {index} finds {by_index:?} and a scan {by_all:?}"));
                }
            }
        }
    }
    Ok(())
}

/// The entries of a table.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The content of all tables that the members share, by their names.
fn tables(db: &Database) -> BTreeMap<String, Entries> {
    let is_shared = |name: &str| name != APPLIED && name != "catalog-own" && !name.starts_with('o');
    let shared = db.engine().tables().unwrap().into_iter().filter(|table| is_shared(table.name()));
    let content = shared.map(|table| {
        let entries = db.engine().snapshot().range(&table, ..).map(|entry| entry.unwrap());
        let entries = entries.map(|(key, value)| (key.to_vec(), value.to_vec()));
        let own = |key: &[u8]| table.name() == "catalog" && key.starts_with(b"#") && key != b"#";
        (table.name().to_owned(), entries.filter(|(key, _)| !own(key)).collect())
    });
    content.collect()
}

/// Whether two databases hold the same.
pub(crate) fn same(one: &Database, other: &Database) -> Result<(), String> {
    let (one, other) = (tables(one), tables(other));
    for name in one.keys().chain(other.keys()) {
        if one.get(name) != other.get(name) {
            return Err(format!("the databases differ in table {name}"));
        }
    }
    Ok(())
}
