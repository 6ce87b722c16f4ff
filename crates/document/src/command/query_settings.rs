//! The commands `setQuerySettings` and `removeQuerySettings`, what `$querySettings` tells, and how queries find their
//! settings.

use std::sync::Arc;

use super::call::{Call, Reply};
use super::commands::Command;
use super::kept_settings::QuerySetting;
use super::parse::wrong_type;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Kind, Value};
use crate::catalog::Namespace;
use crate::plan::query_shape::{query_shape, query_shape_hash};
use crate::query::parse::is_operators;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "setQuerySettings",
        Target::Value(&[Kind::String, Kind::Document]),
        "Limits the indexes that the queries of a shape use, or refuses the queries.",
        set,
    )
    .fields(&[Field::required("settings", FieldType::Object)])
    .needs(&[Privilege::on_cluster("querySettings")])
    .admin_only()
    .writes(),
    Command::new(
        "removeQuerySettings",
        Target::Value(&[Kind::String, Kind::Document]),
        "Forgets the settings of the queries of a shape.",
        remove,
    )
    .needs(&[Privilege::on_cluster("querySettings")])
    .admin_only()
    .writes(),
];

/// The commands that have a shape.
const SHAPED: [&str; 3] = ["find", "distinct", "aggregate"];

/// The hash of the shape of a command; nothing for a command that has none.
pub(super) fn shape_hash_of(database: &str, command: Document<'_>) -> Option<String> {
    let name = command.first()?.name;
    SHAPED.iter().any(|shaped| name == *shaped).then(|| query_shape_hash(&query_shape(database, command)))
}

impl Call<'_> {
    /// The settings of the command's shape. A query that they refuse is refused, unless it is only explained.
    ///
    /// # Errors
    /// `QueryRejectedBySettings` (411); those of the engine.
    pub(super) fn query_settings(&self, explained: bool) -> Result<Option<Arc<QuerySetting>>> {
        let database = self.request.database;
        // The server's own databases have none, so that nothing shuts the door to them.
        if is_internal(database) {
            return Ok(None);
        }
        let hash = || query_shape_hash(&query_shape(database, self.request.body));
        let setting = self.state.query_settings.of(&self.state.database, hash)?;
        if setting.as_ref().is_some_and(|setting| setting.rejects) && !explained {
            let what = "Query rejected by admin query settings";
            return Err(Error::new(ErrorCode::QUERY_REJECTED_BY_SETTINGS, what));
        }
        Ok(setting)
    }
}

fn is_internal(database: &str) -> bool {
    matches!(database, "admin" | "config" | "local")
}

/// The shape that a command is about: its hash, and the query if one is given.
fn target(call: &Call<'_>) -> Result<(String, Option<DocumentBuf>)> {
    match call.request.body.first().map(|first| first.value) {
        Some(Value::Document(query)) => Ok((hash_of(query)?, Some(query.into()))),
        Some(Value::String(hash)) => Ok((checked_hash(&hash.to_str_lossy())?, None)),
        _ => Err(Error::bad_value("a query or the hash of its shape must be given")),
    }
}

/// A hash as it is written.
fn checked_hash(hash: &str) -> Result<String> {
    if hash.len() % 2 == 1 || !hash.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(Error::bad_value(format!("'{hash}' is no hash of hexadecimal digits")));
    }
    if hash.len() != 64 {
        let what = format!("the hash of a query shape has 64 digits, and not {}", hash.len());
        return Err(Error::new(ErrorCode::INVALID_LENGTH, what));
    }
    Ok(hash.to_ascii_uppercase())
}

/// The hash of a query such as `{find: "orders", filter: {..}, $db: "shop"}`.
fn hash_of(query: Document<'_>) -> Result<String> {
    let name = query.first().map(|first| first.name.to_str_lossy().into_owned()).unwrap_or_default();
    if !SHAPED.contains(&&*name) {
        let what = format!("QueryShape can not be computed for command: {query}");
        return Err(Error::new(ErrorCode::new(7_746_402), what));
    }
    let database = match query.get("$db") {
        Some(Value::String(database)) => database.to_str_lossy().into_owned(),
        value if value.is_none_or(|value| value.is_nullish()) => {
            let what = format!("BSON field '{name}.$db' is missing but a required field");
            return Err(Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what));
        }
        Some(other) => return Err(wrong_type(&format!("{name}.$db"), &other, &[Kind::String])),
        None => String::new(),
    };
    let collection = query.first().and_then(|first| first.value.as_str().map(str::to_owned));
    Namespace::new(&database, collection.as_deref().unwrap_or("$cmd").trim_start_matches('$'))?;
    if is_internal(&database) || collection.is_some_and(|name| name.starts_with("system.")) {
        let what = "setQuerySettings command cannot be used on internal databases and on collections of the system";
        return Err(Error::new(ErrorCode::new(8_584_900), what));
    }
    if is_by_id(query) {
        let what = "setQuerySettings command cannot be used on queries that find a document by its '_id'";
        return Err(Error::new(ErrorCode::new(7_746_606), what));
    }
    Ok(query_shape_hash(&query_shape(&database, query)))
}

/// Whether a find asks for one `_id` and nothing else, so that there is nothing to plan.
fn is_by_id(query: Document<'_>) -> bool {
    let filter = query.get("filter").and_then(|filter| filter.as_document()).unwrap_or(Document::empty());
    let others = ["skip", "returnKey", "showRecordId", "tailable", "min", "max", "collation"];
    let only = |filter: Document<'_>| filter.elements().nth(1).is_none();
    let by_value = match filter.first() {
        Some(first) if first.name == "_id" && only(filter) => match first.value {
            Value::Document(tests) => !is_operators(tests) || tests.get("$eq").is_some() && only(tests),
            Value::Regex(..) => false,
            _ => true,
        },
        _ => false,
    };
    by_value && query.first().is_some_and(|first| first.name == "find") && others.iter().all(|f| query.get(f).is_none())
}

fn set(call: &Call<'_>) -> Result<Reply> {
    let (hash, query) = target(call)?;
    let given = checked(call.document_or_empty("settings"))?;
    let mut now = None;
    call.state.query_settings.change(&call.state.database, &hash, |before| {
        let merged = merged(before.map(|before| before.document.view()), given.view());
        if merged.view().is_empty() {
            let what = "the settings would have no effect: use removeQuerySettings to remove them";
            return Err(Error::new(ErrorCode::new(7_746_604), what));
        }
        let query = query.or_else(|| before.and_then(|before| before.query.clone()));
        let setting = QuerySetting::new(hash.clone(), query, merged.view())?;
        now = Some(setting.clone());
        Ok(Some(setting))
    })?;
    let mut reply = Reply::new();
    if let Some(setting) = now {
        append_setting(&mut reply, &setting);
    }
    Ok(reply)
}

fn remove(call: &Call<'_>) -> Result<Reply> {
    let (hash, _) = target(call)?;
    call.state.query_settings.change(&call.state.database, &hash, |_| Ok(None))?;
    Ok(Reply::new())
}

/// What is given in the place of what was, without what is as if it were not there.
fn merged(before: Option<Document<'_>>, given: Document<'_>) -> DocumentBuf {
    let mut merged = DocumentBuilder::new();
    for name in ["indexHints", "queryFramework", "reject", "comment"] {
        match given.get(name).or_else(|| before.and_then(|before| before.get(name))) {
            None => {}
            Some(Value::Array(hints)) if name == "indexHints" && hints.is_empty() => {}
            Some(Value::Bool(false)) if name == "reject" => {}
            Some(value) => _ = merged.append(name, value),
        }
    }
    let merged = merged.finish();
    // A comment alone sets nothing.
    if merged.view().elements().all(|element| element.name == "comment") { DocumentBuf::new() } else { merged }
}

/// Settings whose fields were checked; a single hint becomes an array, and hints that allow nothing are left out.
fn checked(settings: Document<'_>) -> Result<DocumentBuf> {
    let mut checked = DocumentBuilder::new();
    for element in settings {
        let name = element.name.to_str_lossy();
        match (&*name, element.value) {
            ("indexHints" | "queryFramework", value) if value.is_nullish() => {}
            ("indexHints", Value::Array(hints)) => {
                checked.open_array("indexHints");
                for hint in hints.values() {
                    let wrong = || wrong_type("setQuerySettings.settings.indexHints", &hint, &[Kind::Document]);
                    append_hint(&mut checked, hint.as_document().ok_or_else(wrong)?)?;
                }
                checked.close();
            }
            ("indexHints", Value::Document(hint)) => {
                checked.open_array("indexHints");
                append_hint(&mut checked, hint)?;
                checked.close();
            }
            ("indexHints", other) => {
                let kinds = &[Kind::Array, Kind::Document];
                return Err(wrong_type("setQuerySettings.settings.indexHints", &other, kinds));
            }
            ("queryFramework", value) => match value.as_str() {
                Some("classic" | "sbe") => _ = checked.append_element(&element),
                Some(other) => {
                    let what = format!(
                        "Enumeration value '{other}' for field 'setQuerySettings.settings.queryFramework' is not a \
                         valid value."
                    );
                    return Err(Error::bad_value(what));
                }
                None => return Err(wrong_type("setQuerySettings.settings.queryFramework", &value, &[Kind::String])),
            },
            ("reject", Value::Bool(_)) | ("comment", _) => _ = checked.append_element(&element),
            ("reject", other) => return Err(wrong_type("setQuerySettings.settings.reject", &other, &[Kind::Bool])),
            // Settings of versions to come.
            _ => {}
        }
    }
    let checked = checked.finish();
    if checked.view().is_empty() {
        let what = "settings field in setQuerySettings command cannot be empty";
        return Err(Error::new(ErrorCode::new(8_727_502), what));
    }
    Ok(checked)
}

/// Appends an index hint, unless it allows nothing.
fn append_hint(checked: &mut DocumentBuilder, hint: Document<'_>) -> Result<()> {
    let missing = |field: &str| {
        let what = format!("BSON field 'indexHints.{field}' is missing but a required field");
        Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what)
    };
    let namespace = hint.get("ns").filter(|ns| !ns.is_nullish()).ok_or_else(|| missing("ns"))?;
    let Value::Document(names) = namespace else {
        return Err(wrong_type("indexHints.ns", &namespace, &[Kind::Document]));
    };
    for (field, code) in [("db", 8_727_500), ("coll", 8_727_501)] {
        match names.get(field).filter(|name| !name.is_nullish()) {
            None => {
                let what = format!("{field} field is missing in the ns of an index hint");
                return Err(Error::new(ErrorCode::new(code), what));
            }
            Some(Value::String(_)) => {}
            Some(other) => return Err(wrong_type(&format!("indexHints.ns.{field}"), &other, &[Kind::String])),
        }
    }
    let allowed = hint.get("allowedIndexes").filter(|allowed| !allowed.is_nullish());
    let allowed = allowed.ok_or_else(|| missing("allowedIndexes"))?;
    let Value::Array(indexes) = allowed else {
        return Err(wrong_type("indexHints.allowedIndexes", &allowed, &[Kind::Array]));
    };
    for index in indexes.values() {
        if !matches!(index, Value::String(_) | Value::Document(_)) {
            let what = format!("an allowed index is a name or a key pattern, and not {index}");
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
    }
    if !indexes.is_empty() {
        checked.push_document().append("ns", names).append("allowedIndexes", indexes).close();
    }
    Ok(())
}

fn append_setting(reply: &mut DocumentBuilder, setting: &QuerySetting) {
    reply.append("queryShapeHash", &setting.hash).append("settings", &setting.document);
    if let Some(query) = &setting.query {
        reply.append("representativeQuery", query);
    }
}

/// What `$querySettings` tells.
///
/// # Errors
/// Those of the engine.
pub(super) fn listed(call: &Call<'_>, spec: Document<'_>) -> Result<Vec<DocumentBuf>> {
    let debug = spec.get("showDebugQueryShape") == Some(Value::Bool(true));
    let all = call.state.query_settings.list(&call.state.database)?;
    let listed = all.iter().map(|setting| {
        let mut shown = DocumentBuilder::new();
        append_setting(&mut shown, setting);
        if let Some(query) = setting.query.as_ref().filter(|_| debug) {
            let database =
                query.view().get("$db").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
            shown.append("debugQueryShape", &query_shape(&database, query.view()));
        }
        shown.finish()
    });
    Ok(listed.collect())
}
