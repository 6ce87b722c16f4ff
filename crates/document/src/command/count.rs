//! The commands `count` and `distinct`.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::Arc;

use super::call::{Call, Reply};
use super::commands::Command;
use super::explained::explain_query;
use super::find::hint;
use super::reply::count as number;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, DOCUMENT_BYTES_MAX, Document, DocumentBuf, DocumentBuilder, Kind, Value, ValueBuf};
use crate::catalog::{Entry, Namespace};
use crate::collation::{Collated, compare, equal, hash};
use crate::exec::Execution;
use crate::path::{Part, Path};
use crate::plan::Query;
use crate::query::Filter;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("count", Target::Collection, "Counts documents.", count)
        .fields(&[
            Field::optional("query", FieldType::Object),
            Field::optional("limit", FieldType::Any),
            Field::optional("skip", FieldType::Long).at_least(0),
            Field::optional("hint", FieldType::Any),
            Field::optional("collation", FieldType::Object),
            Field::optional("fields", FieldType::Any),
            Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
        ])
        .needs(&[Privilege::on_collection("find")])
        .reads()
        .stable()
        .explained(explain),
    Command::new("distinct", Target::Collection, "Gives the distinct values of a field.", distinct)
        .fields(&[
            Field::required("key", FieldType::String),
            Field::optional("query", FieldType::Object),
            Field::optional("hint", FieldType::Any),
            Field::optional("collation", FieldType::Object),
            Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
        ])
        .needs(&[Privilege::on_collection("find")])
        .reads()
        .in_transactions()
        .explained(explain),
];

/// What either command asks for.
///
/// # Errors
/// Those of the filter, the hint and the collation.
pub(super) fn query(call: &Call<'_>) -> Result<Query> {
    let context = call.context()?;
    let mut query = Query::new(Filter::parse(call.document_or_empty("query"), &context)?.with_implied());
    query.collation = context.collation;
    query.hint = call.request.body.get("hint").map(hint).transpose()?.flatten();
    if call.command.name == "count" {
        query.counts = true;
        query.skip = call.count("skip").unwrap_or_default();
        // A negative limit was how old clients asked for a single batch.
        query.limit = limit(call)?.map(i64::unsigned_abs).filter(|limit| *limit > 0);
    }
    Ok(query)
}

/// The limit of a count, which is a whole number and not the least one, whose size is none.
fn limit(call: &Call<'_>) -> Result<Option<i64>> {
    let Some(value) = call.request.body.get("limit") else { return Ok(None) };
    if !value.kind().is_number() || value.as_exact_i64() == Some(i64::MIN) {
        return Err(Error::bad_value(format!("'limit' must be a number whose size has 64 bits, it is {value}")));
    }
    let what = || format!("'limit' must be a whole number of 64 bits, it is {value}");
    value.as_exact_i64().map(Some).ok_or_else(|| Error::new(ErrorCode::FAILED_TO_PARSE, what()))
}

fn explain(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let mut query = query(call)?;
    if call.command.name == "distinct" {
        query.allowed = call.query_settings(true)?.and_then(|settings| settings.allowed(&namespace));
    }
    match entry {
        Some(Entry::Damaged(damage)) => Err(damage.error()),
        None => explain_query(call, &namespace, None, query),
        Some(Entry::Collection(state)) => explain_query(call, &namespace, Some(&state), query),
        Some(Entry::View(_)) => call.explain_as("aggregate", &view_pipeline(call, &namespace, &query)),
    }
}

fn count(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let query = query(call)?;
    let counted = match entry {
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        None => 0,
        Some(Entry::View(_)) => count_on_view(call, &namespace, &query)?,
        Some(Entry::Collection(state)) if call.reads_now() && query.filter.is_empty() && query.hint.is_none() => {
            let all = state.count(call.state.database.engine())?.saturating_sub(query.skip);
            query.limit.map_or(all, |limit| all.min(limit))
        }
        Some(Entry::Collection(state)) => {
            let query = query.with_spill(call.state.database.engine());
            let execution = Execution::open(call.reader()?, &state, Arc::new(query))?;
            execution.count()?
        }
    };
    let mut reply = Reply::new();
    reply.append("n", number(counted));
    Ok(reply)
}

/// A count on a view is a pipeline.
fn view_pipeline(call: &Call<'_>, namespace: &Namespace, query: &Query) -> DocumentBuf {
    let mut body = DocumentBuilder::new();
    body.append("aggregate", namespace.collection()).open_array("pipeline");
    body.push_document().append("$match", call.document_or_empty("query")).close();
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    if query.skip > 0 {
        body.push_document().append("$skip", whole(query.skip)).close();
    }
    if let Some(limit) = query.limit {
        body.push_document().append("$limit", whole(limit)).close();
    }
    if query.counts {
        body.push_document().append("$count", "count").close();
    }
    body.close().open_document("cursor").close();
    append_options(call, &mut body);
    body.finish()
}

/// Appends the collation and the hint of the command to that which is run in its place.
fn append_options(call: &Call<'_>, body: &mut DocumentBuilder) {
    for option in ["collation", "hint"] {
        call.value(option).into_iter().for_each(|value| {
            body.append(option, value);
        });
    }
}

fn count_on_view(call: &Call<'_>, namespace: &Namespace, query: &Query) -> Result<u64> {
    let mut counted = 0;
    for_each(call, &view_pipeline(call, namespace, query), &mut |document| {
        let number = document.get("count").and_then(|count| count.as_exact_i64());
        counted = number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default();
        Ok(())
    })?;
    Ok(counted)
}

/// Calls `each` with the documents that a pipeline gives.
fn for_each(call: &Call<'_>, body: &DocumentBuf, each: &mut dyn FnMut(Document<'_>) -> Result<()>) -> Result<()> {
    let mut reply = call.run_as("aggregate", body)?.finish();
    loop {
        let cursor = reply.view().get("cursor").and_then(|cursor| cursor.as_document()).unwrap_or(Document::empty());
        let batch = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch")).and_then(|batch| batch.as_array());
        batch.into_iter().flatten().filter_map(|value| value.as_document()).try_for_each(&mut *each)?;
        let id = cursor.get("id").and_then(|id| id.as_exact_i64()).unwrap_or_default();
        if id == 0 {
            return Ok(());
        }
        let collection = call.request.body.first().and_then(|first| first.value.as_str()).unwrap_or_default();
        reply = call.run_as("getMore", &doc! {"getMore": id, "collection": collection})?.finish();
    }
}

fn distinct(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let key = call.text("key").unwrap_or_default();
    if key.contains('\0') {
        return Err(Error::new(ErrorCode::new(31032), "a path cannot hold a zero"));
    }
    let settings = call.query_settings(false)?;
    let mut query = query(call)?;
    query.allowed = settings.and_then(|settings| settings.allowed(&namespace));
    let mut values = Values { collation: query.collation.clone(), ..Values::default() };
    match entry {
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        None => {}
        Some(Entry::View(_)) => return distinct_on_view(call, &namespace, key, values),
        Some(Entry::Collection(state)) => {
            let query = query.with_spill(call.state.database.engine());
            let (path, mut execution) = (Path::new(key), Execution::open(call.reader()?, &state, Arc::new(query))?);
            while let Some(found) = execution.next_match()? {
                values.add_all(found.document.view(), &path)?;
            }
        }
    }
    let mut reply = values.reply();
    if let Some(at) = call.scoped.snapshot_at {
        reply.append("atClusterTime", Value::Timestamp(at));
    }
    Ok(reply)
}

/// A `distinct` on a view is a pipeline whose documents are looked at as those of a collection.
fn distinct_on_view(call: &Call<'_>, namespace: &Namespace, key: &str, mut values: Values) -> Result<Reply> {
    let mut body = DocumentBuilder::new();
    body.append("aggregate", namespace.collection()).open_array("pipeline");
    body.push_document().append("$match", call.document_or_empty("query")).close();
    let top = key.split('.').next().unwrap_or_default();
    body.push_document().open_document("$project").append("_id", i32::from(top == "_id"));
    if top != "_id" {
        body.append(top, 1);
    }
    body.close().close().close().open_document("cursor").close();
    append_options(call, &mut body);
    let path = Path::new(key);
    for_each(call, &body.finish(), &mut |document| values.add_all(document, &path))?;
    Ok(values.reply())
}

/// The values of a path, with arrays taken apart; nothing for a field that is missing.
fn values_at<'d>(document: Document<'d>, parts: &[Part], add: &mut dyn FnMut(Value<'d>)) {
    let Some((first, rest)) = parts.split_first() else { return };
    match document.get(first.name()) {
        None => {}
        Some(Value::Array(array)) if rest.is_empty() => array.values().for_each(add),
        Some(value) if rest.is_empty() => add(value),
        Some(Value::Document(inner)) => values_at(inner, rest, add),
        Some(Value::Array(array)) => values_in(array, rest, add),
        Some(_) => {}
    }
}

fn values_in<'d>(array: Array<'d>, parts: &[Part], add: &mut dyn FnMut(Value<'d>)) {
    if parts.first().is_some_and(|part| part.index().is_some()) {
        return values_at(array.as_document(), parts, add);
    }
    for value in array {
        match value {
            Value::Document(inner) => values_at(inner, parts, add),
            Value::Array(inner) => values_at(inner.as_document(), parts, add),
            _ => {}
        }
    }
}

/// Distinct values. Of equal ones that differ in type, the first is kept.
#[derive(Debug, Default)]
struct Values {
    values: Vec<ValueBuf>,
    /// The places of values by their hash.
    known: HashMap<u64, Vec<usize>>,
    bytes: usize,
    collation: Collated,
}

impl Values {
    /// Adds the values of a path in a document.
    fn add_all(&mut self, document: Document<'_>, path: &Path) -> Result<()> {
        let mut added = Ok(());
        values_at(document, path.parts(), &mut |value| {
            if added.is_ok() {
                added = self.add(value);
            }
        });
        added
    }

    fn add(&mut self, value: Value<'_>) -> Result<()> {
        let mut hasher = DefaultHasher::new();
        hash(self.collation.as_deref(), &value, &mut hasher);
        let known = self.known.entry(hasher.finish()).or_default();
        let collation = self.collation.as_deref();
        if known.iter().any(|at| equal(collation, &self.values[*at].view(), &value)) {
            return Ok(());
        }
        known.push(self.values.len());
        let value = ValueBuf::from(value);
        // A value, its type, and its place in the array.
        self.bytes += value.payload().len() + 8;
        self.values.push(value);
        if self.bytes > DOCUMENT_BYTES_MAX {
            return Err(Error::new(ErrorCode::new(17217), "distinct too big, 16mb cap"));
        }
        Ok(())
    }

    /// The values in their order.
    fn reply(&mut self) -> Reply {
        let collation = self.collation.as_deref();
        self.values.sort_by(|a, b| compare(collation, &a.view(), &b.view()));
        let mut reply = Reply::new();
        reply.open_array("values");
        self.values.iter().for_each(|value| {
            reply.push(value);
        });
        reply.close();
        reply
    }
}
