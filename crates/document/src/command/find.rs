//! The command `find`.

use std::sync::Arc;

use super::call::{Call, Reply};
use super::commands::Command;
use super::cursors::{Cursor, Known, Source};
use super::explained::explain_query;
use super::reply::{FirstBatch, first_batch, short};
use super::spec::{Field, FieldType, Privilege, Target};
use super::tail::Tail;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Kind, Value};
use crate::catalog::capped::record_number;
use crate::catalog::{CollectionState, Entry, Namespace};
use crate::exec::{Execution, Match};
use crate::expr::Context;
use crate::keys::hashed::hash_value;
use crate::path::Sort;
use crate::plan::{Hint, Query};
use crate::projection::{Projection, Use};
use crate::query::Filter;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new("find", Target::Collection, "Finds documents.", find)
    .fields(&[
        Field::optional("filter", FieldType::Object).not_null(),
        Field::optional("sort", FieldType::Object),
        Field::optional("projection", FieldType::Object),
        Field::optional("hint", FieldType::Any),
        Field::optional("skip", FieldType::Long).at_least(0),
        Field::optional("limit", FieldType::Long).at_least(0),
        Field::optional("batchSize", FieldType::Long).at_least(0),
        Field::optional("singleBatch", FieldType::Bool),
        Field::optional("max", FieldType::Object),
        Field::optional("min", FieldType::Object),
        Field::optional("returnKey", FieldType::Bool),
        Field::optional("showRecordId", FieldType::Bool),
        Field::optional("tailable", FieldType::Bool),
        Field::optional("awaitData", FieldType::Bool),
        Field::optional("oplogReplay", FieldType::Bool),
        Field::optional("noCursorTimeout", FieldType::Bool),
        Field::optional("allowPartialResults", FieldType::Bool),
        Field::optional("allowDiskUse", FieldType::Bool),
        Field::optional("collation", FieldType::Object),
        Field::optional("let", FieldType::Object),
        Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
        Field::optional("includeQueryStatsMetrics", FieldType::Bool),
        Field::optional("term", FieldType::Long),
        Field::optional("readOnce", FieldType::Bool),
        Field::optional("querySettings", FieldType::Object),
    ])
    .needs(&[Privilege::on_collection("find")])
    .reads()
    .in_transactions()
    .stable()
    .explained(explain)];

/// The collection that tools look into for what the server did last. It is refused, since an empty one would be read as
/// a set to which nothing ever happened.
const OPLOG: &str = "local.oplog.rs";

fn find(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    check_options(call)?;
    let settings = call.query_settings(false)?;
    let mut query = query(call, &call.context()?)?;
    query.allowed = settings.and_then(|settings| settings.allowed(&namespace));
    let state = match entry {
        None if call.state.options.replica_set && namespace.as_str() == OPLOG => {
            let what = "local.oplog.rs is not a collection here: change streams show what happened, and dumps are \
                        taken without it";
            return Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED, what));
        }
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        None => return open(call, &namespace, Known::new(Vec::new())),
        Some(Entry::View(_)) => return call.run_as("aggregate", &view_pipeline(call, &namespace)?),
        Some(Entry::Collection(state)) => state,
    };
    if call.is_set("tailable") {
        check_tailable(call, &namespace)?;
        return open(call, &namespace, Tail::new(call, &namespace, &state, query)?);
    }
    let found = Found::open(call, state, query)?;
    open(call, &namespace, found)
}

/// Refuses what a tailable cursor cannot be.
fn check_tailable(call: &Call<'_>, namespace: &Namespace) -> Result<()> {
    if !call.reads_now() {
        let what = format!("a tailable cursor on {namespace} cannot be opened in a transaction or a snapshot");
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    Ok(())
}

fn explain(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    check_options(call)?;
    let mut query = query(call, &call.context()?)?;
    query.allowed = call.query_settings(true)?.and_then(|settings| settings.allowed(&namespace));
    match entry {
        Some(Entry::Damaged(damage)) => Err(damage.error()),
        None => explain_query(call, &namespace, None, query),
        Some(Entry::Collection(state)) => explain_query(call, &namespace, Some(&state), query),
        Some(Entry::View(_)) => call.explain_as("aggregate", &view_pipeline(call, &namespace)?),
    }
}

fn open(call: &Call<'_>, namespace: &Namespace, source: impl Source + 'static) -> Result<Reply> {
    let mut cursor = Cursor::new(source, call.owner(namespace.as_str()), short(call.request.body));
    cursor.while_running = format!("Executor error during find command: {namespace} :: caused by :: ");
    cursor.no_timeout = call.is_set("noCursorTimeout");
    cursor.awaits_data = call.is_set("awaitData");
    let batch = FirstBatch { size: call.count("batchSize"), single: call.is_set("singleBatch") };
    first_batch(call, cursor, batch)
}

/// Refuses options that do not go together or are not supported.
fn check_options(call: &Call<'_>) -> Result<()> {
    if call.is_set("awaitData") && !call.is_set("tailable") {
        let what = "Cannot set 'awaitData' without also setting 'tailable'";
        return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
    }
    if call.is_set("tailable") && call.is_set("singleBatch") {
        let what = "cannot use tailable option with the 'singleBatch' option";
        return Err(Error::bad_value(what));
    }
    let sort = call.document_or_empty("sort");
    if call.is_set("tailable") && !sort.is_empty() && !is_natural(sort) {
        return Err(Error::bad_value("cannot use tailable option with a sort other than {$natural: 1}"));
    }
    Ok(())
}

/// Whether a sort is the order in which documents are stored.
fn is_natural(sort: Document<'_>) -> bool {
    matches!(sort.get("$natural").map(|natural| natural_direction(&natural)), Some(Ok(false)))
}

/// What the command asks for.
///
/// # Errors
/// Those of the filter, the sort pattern, the projection and the hint.
pub(super) fn query(call: &Call<'_>, context: &Context) -> Result<Query> {
    let mut query = Query::new(Filter::parse(call.document_or_empty("filter"), context)?.with_implied());
    query.collation.clone_from(&context.collation);
    query.hint = call.value("hint").map(hint).transpose()?.flatten();
    set_sort(&mut query, call.document_or_empty("sort"))?;
    let projection = call.document_or_empty("projection");
    if !projection.is_empty() {
        query.projection = Some(Projection::parse(projection, Use::Find, context)?);
    }
    query.skip = call.count("skip").unwrap_or_default();
    query.limit = call.count("limit").filter(|limit| *limit > 0);
    query.min = call.document("min").filter(|min| !min.is_empty()).map(DocumentBuf::from);
    query.max = call.document("max").filter(|max| !max.is_empty()).map(DocumentBuf::from);
    if (query.min.is_some() || query.max.is_some()) && query.hint.is_none() {
        let what = "When using min()/max() a hint of which index to use must be provided";
        return Err(Error::new(ErrorCode::new(51173), what));
    }
    query.return_key = call.is_set("returnKey");
    Ok(query)
}

/// Sets the order, of which `{$natural: 1}` is a hint.
fn set_sort(query: &mut Query, sort: Document<'_>) -> Result<()> {
    match sort.get("$natural") {
        Some(natural) => {
            if sort.elements().nth(1).is_some() {
                let what = "Cannot include '$natural' in compound sort: it must be the only field";
                return Err(Error::bad_value(what));
            }
            if query.hint.as_ref().is_some_and(|hint| !matches!(hint, Hint::Natural { .. })) {
                return Err(Error::bad_value("cannot hint an index and sort by '$natural'"));
            }
            query.hint = Some(Hint::Natural { reverse: natural_direction(&natural)? });
        }
        None if !sort.is_empty() => query.sort = Some(Sort::parse(sort, query.collation.as_ref())?),
        None => {}
    }
    Ok(())
}

/// The index that a command must use.
///
/// # Errors
/// `FailedToParse` (9) for what is neither a string nor a document.
pub(super) fn hint(value: Value<'_>) -> Result<Option<Hint>> {
    match value {
        Value::String(name) => Ok(Some(Hint::Name(name.to_str_lossy().into_owned()))),
        Value::Document(pattern) => match pattern.get("$natural") {
            _ if pattern.is_empty() => Ok(None),
            Some(_) if pattern.elements().nth(1).is_some() => {
                Err(Error::bad_value("a hint of '$natural' must have no other field"))
            }
            Some(natural) => Ok(Some(Hint::Natural { reverse: natural_direction(&natural)? })),
            None => Ok(Some(Hint::Pattern(DocumentBuf::from(pattern)))),
        },
        _ => Err(Error::new(ErrorCode::FAILED_TO_PARSE, "Hint must be a string or an object")),
    }
}

fn natural_direction(value: &Value<'_>) -> Result<bool> {
    match value.as_exact_i64().filter(|_| value.kind().is_number()) {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => Err(Error::bad_value(format!("$natural must be 1 or -1, it is {value}"))),
    }
}

/// A find on a view is a pipeline.
fn view_pipeline(call: &Call<'_>, namespace: &Namespace) -> Result<DocumentBuf> {
    for option in [
        "hint",
        "min",
        "max",
        "returnKey",
        "showRecordId",
        "tailable",
        "awaitData",
        "noCursorTimeout",
        "allowPartialResults",
    ] {
        let given = call.value(option).is_some_and(|value| !matches!(value, Value::Bool(false)));
        if given && option != "hint" {
            let what = format!("The option '{option}' is not supported on a view: {namespace}");
            return Err(Error::new(ErrorCode::INVALID_PIPELINE_OPERATOR, what));
        }
    }
    let mut body = DocumentBuilder::new();
    body.append("aggregate", namespace.collection()).open_array("pipeline");
    for (stage, field) in [("$match", "filter"), ("$sort", "sort")] {
        let spec = call.document_or_empty(field);
        if !spec.is_empty() && spec.get("$natural").is_none() {
            body.push_document().append(stage, spec).close();
        }
    }
    let limit = call.long("limit").filter(|limit| *limit > 0);
    for (stage, number) in [("$skip", call.long("skip").filter(|skip| *skip > 0)), ("$limit", limit)] {
        if let Some(number) = number {
            body.push_document().append(stage, number).close();
        }
    }
    let projection = call.document_or_empty("projection");
    if !projection.is_empty() {
        body.push_document().append("$project", projection).close();
    }
    body.close().open_document("cursor");
    let size = if call.is_set("singleBatch") { limit.or(Some(i64::from(i32::MAX))) } else { call.long("batchSize") };
    if let Some(size) = size {
        body.append("batchSize", size);
    }
    body.close();
    for field in ["hint", "let", "collation", "allowDiskUse", "collectionUUID"] {
        if let Some(value) = call.value(field) {
            body.append(field, value);
        }
    }
    Ok(body.finish())
}

/// The documents that a find has found.
#[derive(Debug)]
struct Found {
    execution: Execution<'static>,
    /// How many there may still be.
    left: u64,
    /// The projection, when the documents show under which key they are stored.
    with_record_id: Option<Option<Projection>>,
    capped: bool,
}

impl Found {
    fn open(call: &Call<'_>, state: Arc<CollectionState>, mut query: Query) -> Result<Self> {
        let left = query.limit.unwrap_or(u64::MAX);
        let with_record_id = call.is_set("showRecordId").then(|| query.projection.take());
        if call.flag("allowDiskUse").unwrap_or(true) {
            query = query.with_spill(call.state.database.engine());
        }
        let execution = Execution::open(call.reader()?, &state, Arc::new(query))?;
        Ok(Self { execution, left, with_record_id, capped: state.capped.is_some() })
    }
}

impl Source for Found {
    fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        let found = match &self.with_record_id {
            None => self.execution.advance()?,
            Some(projection) => match self.execution.next_match()? {
                None => None,
                Some(found) => Some(add_record_id(&found, projection.as_ref(), self.capped)?),
            },
        };
        if found.is_some() {
            self.left = self.left.saturating_sub(1);
        }
        Ok(found)
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

/// A document with `$recordId`: of a capped collection, its number; of others, which are stored by their `_id`s, a
/// number that the `_id` gives.
fn add_record_id(found: &Match, projection: Option<&Projection>, capped: bool) -> Result<DocumentBuf> {
    let document = found.document.view();
    let mut builder = DocumentBuilder::new();
    match projection {
        None => builder.append_all(document),
        Some(projection) => builder.append_all(projection.apply(document, found.position)?.view()),
    };
    let number = record_number(&found.key).filter(|_| capped).map(u64::cast_signed);
    builder.append("$recordId", number.unwrap_or_else(|| hash_value(&Value::Binary(0, &found.key)) & i64::MAX));
    Ok(builder.finish())
}
