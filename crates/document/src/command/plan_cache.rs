//! Commands about plans: index filters, and a cache of plans, which there is none of: a plan is chosen anew for each
//! query.

use std::sync::Arc;

use super::call::{Call, Reply};
use super::commands::Command;
use super::indexes::is_view;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::{Error, Result};
use crate::bson::{Document, Value};
use crate::catalog::{CollectionState, Entry, IndexFilter, NamedIndex};
use crate::path::Sort;
use crate::plan::{Query, shape};
use crate::projection::{Projection, Use};
use crate::query::Filter;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("planCacheClear", Target::Collection, "Has no plans to forget.", clear_plans)
        .fields(SHAPE)
        .any_fields()
        .needs(&[Privilege::on_collection("planCacheWrite")]),
    Command::new("planCacheClearFilters", Target::Collection, "Forgets index filters.", clear_filters)
        .fields(SHAPE)
        .any_fields()
        .needs(&[Privilege::on_collection("planCacheIndexFilter")]),
    Command::new("planCacheListFilters", Target::Collection, "Lists index filters.", list)
        .any_fields()
        .needs(&[Privilege::on_collection("planCacheIndexFilter")]),
    Command::new("planCacheSetFilter", Target::Collection, "Limits the indexes of the queries of a shape.", set)
        .fields(&[QUERY, SORT, PROJECTION, COLLATION, Field::optional("indexes", FieldType::Any)])
        .any_fields()
        .needs(&[Privilege::on_collection("planCacheIndexFilter")]),
];

const QUERY: Field = Field::optional("query", FieldType::Any);
const SORT: Field = Field::optional("sort", FieldType::Any);
const PROJECTION: Field = Field::optional("projection", FieldType::Any);
const COLLATION: Field = Field::optional("collation", FieldType::Any);

/// The shape of a query.
const SHAPE: &[Field] = &[QUERY, SORT, PROJECTION, COLLATION];

/// The collection that the command names, if there is one.
fn collection(call: &Call<'_>) -> Result<Option<Arc<CollectionState>>> {
    let (namespace, entry) = call.entry()?;
    match entry {
        None => Ok(None),
        Some(Entry::Damaged(damage)) => Err(damage.error()),
        Some(Entry::View(_)) => Err(is_view(&namespace)),
        Some(Entry::Collection(state)) => Ok(Some(state)),
    }
}

/// A part of the shape; nothing when it is not given.
fn part<'r>(call: &Call<'r>, name: &str) -> Result<Option<Document<'r>>> {
    match call.request.body.get(name) {
        None => Ok(None),
        Some(Value::Document(document)) => Ok(Some(document)),
        Some(Value::Array(array)) => Ok(Some(array.as_document())),
        Some(other) => Err(Error::bad_value(format!("the field {name} must be an object, and not {other}"))),
    }
}

/// The shape that the command is about; nothing when it has no query.
fn given_shape(call: &Call<'_>) -> Result<Option<String>> {
    let (filter, sort, projection) = (part(call, "query")?, part(call, "sort")?, part(call, "projection")?);
    if part(call, "collation")?.is_some_and(Document::is_empty) {
        return Err(Error::bad_value("the field collation must not be empty"));
    }
    let Some(filter) = filter else {
        return match SHAPE.iter().find(|field| call.value(field.name).is_some()) {
            Some(other) => Err(Error::bad_value(format!("'{}' is allowed only with 'query'", other.name))),
            None => Ok(None),
        };
    };
    let context = call.context()?;
    let mut query = Query::new(Filter::parse(filter, &context)?.with_implied());
    if let Some(sort) = sort.filter(|sort| !sort.is_empty()) {
        query.sort = Some(Sort::parse(sort, context.collation.as_ref())?);
    }
    if let Some(projection) = projection.filter(|projection| !projection.is_empty()) {
        query.projection = Some(Projection::parse(projection, Use::Find, &context)?);
    }
    query.collation = context.collation;
    Ok(Some(shape(&query)))
}

fn clear_plans(call: &Call<'_>) -> Result<Reply> {
    if collection(call)?.is_some() {
        given_shape(call)?;
    }
    Ok(Reply::new())
}

fn clear_filters(call: &Call<'_>) -> Result<Reply> {
    if let Some(state) = collection(call)? {
        state.filters.clear(given_shape(call)?.as_deref());
    }
    Ok(Reply::new())
}

fn list(call: &Call<'_>) -> Result<Reply> {
    let filters = collection(call)?.map(|state| state.filters.list()).unwrap_or_default();
    let mut reply = Reply::new();
    reply.open_array("filters");
    filters.iter().for_each(|filter| {
        reply.push(&filter.listed);
    });
    reply.close();
    Ok(reply)
}

fn set(call: &Call<'_>) -> Result<Reply> {
    let Some(state) = collection(call)? else { return Err(Error::bad_value("no such collection")) };
    let Some(shape) = given_shape(call)? else { return Err(Error::bad_value("required field query missing")) };
    let Some(indexes) = call.array("indexes").filter(|indexes| !indexes.is_empty()) else {
        return Err(Error::bad_value("required field indexes must be an array with one index or more"));
    };
    let mut named = Vec::new();
    for index in indexes {
        named.push(match index {
            Value::Document(pattern) if !pattern.is_empty() => NamedIndex::Pattern(pattern.into()),
            Value::String(name) => NamedIndex::Name(name.to_str_lossy().into_owned()),
            other => return Err(Error::bad_value(format!("an index is a key pattern or a name, and not {other}"))),
        });
    }
    let mut listed = Reply::new();
    for name in ["query", "sort", "projection"] {
        listed.append(name, part(call, name)?.unwrap_or(Document::empty()));
    }
    if let Some(collation) = call.value("collation") {
        listed.append("collation", collation);
    }
    listed.append("indexes", indexes);
    state.filters.set(IndexFilter { shape, listed: listed.finish(), indexes: named });
    Ok(Reply::new())
}
