//! The command `validateDBMetadata`: what of collections, indexes and views the stable API does not have.

use super::aggregate::is_stable;
use super::call::{Call, Reply};
use super::commands::Command;
use super::parse::check_field;
use super::spec::{Field, FieldType, Target};
use crate::base::{Error, ErrorCode, Need, On, Result};
use crate::bson::{Array, DOCUMENT_BYTES_MAX, Document};
use crate::catalog::namespace::DATABASE_BYTES_MAX;
use crate::catalog::{Entry, Namespace};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(
    "validateDBMetadata",
    Target::Value(&[]),
    "Tells which indexes and views the stable API does not have.",
    validate,
)
.fields(&[
    Field::required("apiParameters", FieldType::Object),
    Field::optional("db", FieldType::String),
    Field::optional("collection", FieldType::String),
])
.needs_by(needs)];

/// What the command needs on the database that it tells of, or on all.
fn needs(call: &Call<'_>) -> Result<Need> {
    let on = call.text("db").map_or(On::AnyDatabase, |name| On::Database(name.to_owned()));
    Ok(Need::Action("validate", on))
}

/// The fields of `apiParameters`.
const API_PARAMETERS: &[Field] = &[
    Field::required("version", FieldType::String),
    Field::optional("strict", FieldType::StrictBool).not_null(),
    Field::optional("deprecationErrors", FieldType::StrictBool).not_null(),
];

/// The most bytes of what is told.
const TOLD_BYTES_MAX: usize = DOCUMENT_BYTES_MAX / 2;

fn validate(call: &Call<'_>) -> Result<Reply> {
    let parameters = call.document_or_empty("apiParameters");
    check_parameters(parameters)?;
    let (database, collection) = (call.text("db"), call.text("collection"));
    database.map_or(Ok(()), check_database)?;
    if collection.is_some_and(|name| name.is_empty() || name.starts_with('.') || name.contains('\0')) {
        return Err(Error::new(ErrorCode::INVALID_NAMESPACE, "'collection' is no name of a collection"));
    }
    let strict = parameters.get("strict").is_some_and(|strict| crate::expr::value::truth(&strict));
    let asked = strict && parameters.get("version").is_some_and(|version| version.as_str() == Some("1"));
    let (mut reply, mut has_more) = (Reply::new(), false);
    reply.open_array("apiVersionErrors");
    let all = if asked { call.state.database.catalog().list(database) } else { Vec::new() };
    for (namespace, entry) in all.iter().filter(|(name, _)| collection.is_none_or(|wanted| name.collection() == wanted))
    {
        for what in unstable(entry) {
            if reply.len() > TOLD_BYTES_MAX {
                has_more = true;
                break;
            }
            append(&mut reply, namespace, &what);
        }
    }
    reply.close();
    if has_more {
        reply.append("hasMoreErrors", true);
    }
    Ok(reply)
}

fn append(reply: &mut Reply, namespace: &Namespace, what: &str) {
    let code = ErrorCode::API_STRICT_ERROR;
    reply.push_document().append("ns", namespace.as_str()).append("code", code.number());
    reply.append("codeName", &code.name()).append("errmsg", what).close();
}

fn check_parameters(parameters: Document<'_>) -> Result<()> {
    for element in parameters {
        let name = element.name.to_str_lossy();
        let Some(field) = API_PARAMETERS.iter().find(|field| field.name == name) else {
            let what = format!("BSON field 'validateDBMetadata.apiParameters.{name}' is an unknown field.");
            return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
        };
        check_field("validateDBMetadata.apiParameters", field, &element.value)?;
    }
    if parameters.get("version").is_none_or(|version| version.is_nullish()) {
        let what = "BSON field 'validateDBMetadata.apiParameters.version' is missing but a required field";
        return Err(Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what));
    }
    Ok(())
}

/// Refuses what is no name of a database; one that does not exist is none of the errors.
fn check_database(name: &str) -> Result<()> {
    let refused = |code| Err(Error::new(code, format!("Invalid database name: '{name}'")));
    if name.is_empty() {
        return refused(ErrorCode::new(28_539));
    }
    if name.contains(['.', '\0']) || name.len() > DATABASE_BYTES_MAX {
        return refused(ErrorCode::INVALID_NAMESPACE);
    }
    if name.contains([' ', '/', '\\', '"']) {
        return refused(ErrorCode::new(13_280));
    }
    Ok(())
}

/// What of a collection or view is not part of version 1 of the stable API.
fn unstable(entry: &Entry) -> Vec<String> {
    match entry {
        Entry::Collection(state) => {
            let schema = state.schema();
            let sparse = schema.others().filter(|index| index.spec.sparse);
            sparse
                .map(|index| format!("The index with name {} is not allowed in API version 1.", index.spec.name))
                .collect()
        }
        Entry::Damaged(_) => Vec::new(),
        Entry::View(options) => {
            let stages = options.view.as_ref().map_or(Array::empty(), |(_, stages)| Array::of_document(stages.view()));
            let unstable = stages.values().filter_map(|stage| stage.as_document()).find(|stage| !is_stable(*stage));
            unstable.map(|stage| format!("stage {stage} is not allowed in API version 1.")).into_iter().collect()
        }
    }
}
