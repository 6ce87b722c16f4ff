//! The command `aggregate`.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::call::{Call, Reply};
use super::change_stream;
use super::commands::Command;
use super::commits::Commits;
use super::current::{idle_cursor, idle_session, shown};
use super::cursors::{Cursor, Source};
use super::explain::append_rest;
use super::find::hint;
use super::generic::ReadLevel;
use super::query_settings::{self, shape_hash_of};
use super::reply::{cursor_option, first_batch, short};
use super::spec::{Field, FieldType, Target};
use super::usage::Usage;
use crate::aggregate::{Is, Report, Rows, stage_is};
use crate::base::{Error, ErrorCode, Need, Result};
use crate::bson::{DOCUMENT_BYTES_MAX, Document, DocumentBuf, DocumentBuilder, Kind, Value};
use crate::collection::WriteOptions;
use crate::exec::Reader;
use crate::expr::value::truth;
use crate::pipeline::aggregation::AggregateOptions;
use crate::pipeline::{Aggregation, ExplainedShape, Server, Target as Over};
use crate::plan::IndexHints;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] =
    &[Command::new("aggregate", Target::CollectionOrDatabase, "Runs a pipeline over documents.", aggregate)
        .fields(&[
            Field::required("pipeline", FieldType::Array).not_null(),
            Field::optional("explain", FieldType::StrictBool).not_null(),
            Field::optional("allowDiskUse", FieldType::StrictBool).not_null(),
            Field::optional("cursor", FieldType::Object).not_null(),
            Field::optional("hint", FieldType::Any),
            Field::optional("let", FieldType::Object),
            Field::optional("collation", FieldType::Object),
            Field::optional("bypassDocumentValidation", FieldType::Bool),
            Field::optional("bypassEmptyTsReplacement", FieldType::Bool),
            Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
            Field::optional("isMapReduceCommand", FieldType::Bool),
            Field::optional("includeQueryStatsMetrics", FieldType::Bool),
            Field::optional("querySettings", FieldType::Object),
        ])
        .needs_by(needs)
        .reads()
        .in_transactions()
        .stable()
        .explained(explain)];

/// What the pipeline of the command needs.
fn needs(call: &Call<'_>) -> Result<Need> {
    let over = call.request.body.first().and_then(|first| first.value.as_str());
    call.pipeline_needs(over, call.array("pipeline").unwrap_or(crate::bson::Array::empty()), &call.context()?)
}

/// The pipeline of the command.
///
/// # Errors
/// Those of the stages and the options.
fn aggregation(call: &Call<'_>, write: WriteOptions, hints: Option<Arc<IndexHints>>) -> Result<Aggregation> {
    let over = match call.request.body.first().map(|first| first.value) {
        Some(Value::String(_)) => {
            let namespace = call.namespace()?;
            let entry = call.find(&namespace)?;
            call.check_uuid(&namespace, entry.as_ref())?;
            Over::Collection(namespace)
        }
        _ => Over::Database(call.request.database.to_owned()),
    };
    let options = AggregateOptions {
        allow_disk_use: call.flag("allowDiskUse").unwrap_or(true),
        hint: call.request.body.get("hint").map(hint).transpose()?.flatten(),
        index_hints: hints,
        write,
        ..AggregateOptions::default()
    };
    let stages = call.array("pipeline").unwrap_or(crate::bson::Array::empty());
    let reader: Arc<dyn Reader> = call.reader()?.into();
    let parts = call.state.database.parts();
    let context = call.context()?.of_pipeline();
    let aggregation = Aggregation::parse(parts, reader, over, stages, context, options)?;
    if aggregation.writes() && call.generic.autocommit == Some(false) {
        let what = "$out and $merge cannot be used in a transaction";
        return Err(Error::new(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, what));
    }
    let server = Told::of(call, &aggregation)?;
    Ok(aggregation.with_server(Arc::new(server)))
}

/// What the message of an error begins with that a running pipeline meets, as MongoDB has it.
const WHILE_RUNNING: &str = "PlanExecutor error during aggregation :: caused by :: ";

fn aggregate(call: &Call<'_>) -> Result<Reply> {
    let stages = call.array("pipeline").unwrap_or(crate::bson::Array::empty());
    check_strict(call, stages)?;
    check_read_level(call, stages)?;
    if call.is_set("explain") {
        cursor_option(call)?;
        if call.generic.write_concern.is_some() {
            let what = "Option 'explain' does not go together with 'writeConcern'";
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
        let mut reply = explain(call)?;
        append_rest(call, call.request.body, &mut reply);
        return Ok(reply);
    }
    if call.value("cursor").is_none() {
        let what = "The 'cursor' option is required, except for aggregate with the explain argument";
        return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
    }
    let batch = cursor_option(call)?;
    let hints = call.query_settings(false)?.and_then(|settings| settings.hints.clone());
    check_in_transaction(call, stages)?;
    if let Some(operand) = change_stream::operand(stages) {
        return change_stream::open(call, stages, operand, batch);
    }
    let commits = Commits::of(call, true)?;
    let aggregation = aggregation(call, commits.options, hints)?;
    let namespace = match aggregation.target() {
        Over::Collection(namespace) => namespace.to_string(),
        Over::Database(name) => format!("{name}.$cmd.aggregate"),
    };
    let mut rows = aggregation.rows().map_err(|error| error.prefixed(WHILE_RUNNING))?;
    let writes = aggregation.writes();
    if writes {
        // The documents are written now, whatever the size of the batch. Nothing is given.
        let written = rows.try_for_each(|row| row.map(drop));
        commits.end(call)?;
        written.map_err(|error| error.prefixed(WHILE_RUNNING))?;
    }
    let mut cursor =
        Cursor::new(Found { aggregation, rows, is_done: writes }, call.owner(namespace), short(call.request.body));
    WHILE_RUNNING.clone_into(&mut cursor.while_running);
    first_batch(call, cursor, batch)
}

fn explain(call: &Call<'_>) -> Result<Reply> {
    let settings = call.query_settings(true)?;
    let hints = settings.as_ref().and_then(|settings| settings.hints.clone());
    let aggregation = aggregation(call, call.write_options()?, hints)?;
    let mut reply = Reply::new();
    let hash = shape_hash_of(call.request.database, call.request.body).unwrap_or_default();
    let shape = ExplainedShape { hash: &hash, settings: settings.as_ref().map(|settings| settings.document.view()) };
    aggregation.explain(call.executes, &shape, &mut reply)?;
    Ok(reply)
}

/// The most bytes of a document of a result: a little more than of one that is stored.
const RESULT_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + (16 << 10);

/// The names and operands of stages.
fn named<'s>(stages: crate::bson::Array<'s>) -> impl Iterator<Item = (std::borrow::Cow<'s, str>, Value<'s>)> {
    let first = stages.values().filter_map(|stage| stage.as_document()?.first());
    first.map(|first| (first.name.to_str_lossy(), first.value))
}

/// Refuses what is not part of the stable API, where nothing else is asked for.
fn check_strict(call: &Call<'_>, stages: crate::bson::Array<'_>) -> Result<()> {
    if !call.is_set("apiStrict") {
        return Ok(());
    }
    let refused = |what: String| Err(Error::new(ErrorCode::API_STRICT_ERROR, what));
    if call.value("explain").is_some() {
        return refused("Provided apiStrict:true with the option 'explain' of aggregate".to_owned());
    }
    match stages.values().filter_map(|stage| stage.as_document()).find(|stage| !is_stable(*stage)) {
        Some(stage) => refused(format!("stage {stage} is not allowed with 'apiStrict: true' in API Version 1")),
        None => Ok(()),
    }
}

/// Whether a stage is part of the stable API.
pub(super) fn is_stable(stage: Document<'_>) -> bool {
    let Some(first) = stage.first() else { return true };
    match &*first.name.to_str_lossy() {
        "$collStats" => first.value.as_document().is_none_or(|spec| spec.elements().all(|field| field.name == "count")),
        name => !stage_is(name, Is::Unstable),
    }
}

/// Refuses a read concern of stages that read no documents.
fn check_read_level(call: &Call<'_>, stages: crate::bson::Array<'_>) -> Result<()> {
    let level = call.generic.read_concern.level;
    if matches!(level, None | Some(ReadLevel::Local)) {
        return Ok(());
    }
    match named(stages).next().filter(|(name, _)| stage_is(name, Is::ReadsLocally)) {
        Some((name, _)) => {
            let what = format!("Aggregation stage {name} requires the read concern level 'local'");
            Err(Error::new(ErrorCode::INVALID_OPTIONS, what))
        }
        None => Ok(()),
    }
}

/// Refuses stages that no transaction has.
fn check_in_transaction(call: &Call<'_>, stages: crate::bson::Array<'_>) -> Result<()> {
    if !call.is_in_transaction() {
        return Ok(());
    }
    match named(stages).find(|(name, _)| stage_is(name, Is::OutsideTransactions)) {
        Some((name, _)) => {
            let what = format!("{name} cannot be used in a transaction");
            Err(Error::new(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, what))
        }
        None => Ok(()),
    }
}

/// The documents that a pipeline gives.
struct Found {
    aggregation: Aggregation,
    rows: Rows,
    is_done: bool,
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Found").field(self.aggregation.target()).finish()
    }
}

impl Source for Found {
    fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        let row = self.rows.next().transpose()?;
        if let Some(row) = row.as_ref().filter(|row| row.as_bytes().len() > RESULT_BYTES_MAX) {
            let what = format!("BSONObj size: {} is invalid. Size must be up to 16 MiB", row.as_bytes().len());
            return Err(Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, what));
        }
        Ok(row)
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// What the service tells of itself when the command begins.
#[derive(Debug)]
struct Told {
    /// What the first stage tells, if it is about the service.
    rows: Option<Vec<DocumentBuf>>,
    usage: Arc<Usage>,
}

impl Told {
    fn of(call: &Call<'_>, aggregation: &Aggregation) -> Result<Self> {
        let first = aggregation.pipeline().stages().first();
        let rows = match first.and_then(|stage| stage.as_report()) {
            None => None,
            Some(report) => match report.name {
                "$currentOp" => Some(operations(call, report.spec.view())),
                "$listLocalSessions" | "$listSessions" => Some(sessions(call, report.spec.view())),
                "$listClusterCatalog" => Some(super::lists::catalog(call, report.spec.view())),
                "$querySettings" => Some(query_settings::listed(call, report.spec.view())?),
                _ => None,
            },
        };
        Ok(Self { rows, usage: Arc::clone(&call.state.usage) })
    }
}

impl Server for Told {
    fn report(&self, report: &Report) -> Result<Rows> {
        match &self.rows {
            Some(rows) => Ok(Box::new(rows.clone().into_iter().map(Ok))),
            None => Err(Error::new(ErrorCode::NOT_IMPLEMENTED, format!("{} is not supported", report.name))),
        }
    }

    fn append_latencies(&self, namespace: &str, histograms: bool, builder: &mut DocumentBuilder) {
        self.usage.append_latencies(namespace, histograms, builder);
    }

    fn host(&self) -> String {
        super::host::name()
    }
}

/// The commands that run: those of the user, or of all users.
fn operations(call: &Call<'_>, spec: Document<'_>) -> Vec<DocumentBuf> {
    let all = matches!(spec.get("allUsers"), Some(Value::Bool(true)));
    let user = &call.request.client.user;
    let running = call.state.operations.list();
    let meant = running.iter().filter(|operation| all || operation.user == *user);
    let mut rows: Vec<DocumentBuf> = meant.map(|operation| shown(call, operation)).collect();
    let has = |name: &str, otherwise: bool| spec.get(name).map_or(otherwise, |value| truth(&value));
    if has("idleSessions", true) {
        let own = user.clone().unwrap_or_default();
        let is_idle = |uuid: &[u8; 16]| running.iter().all(|operation| operation.session.as_ref() != Some(uuid));
        let open = call.state.sessions.open().into_iter();
        let idle = open.filter(|(id, ..)| (all || id.user == own) && is_idle(&id.uuid));
        rows.extend(idle.map(|(id, number, started_ms)| idle_session(call, &id, number, started_ms)));
    }
    if has("idleCursors", false) {
        let idle = call.state.cursors.idle().into_iter().filter(|cursor| all || cursor.owner.user == *user);
        rows.extend(idle.map(|cursor| idle_cursor(&cursor)));
    }
    rows
}

/// The sessions, each with the user that it belongs to: those of the user, of some users, or of all.
fn sessions(call: &Call<'_>, spec: Document<'_>) -> Vec<DocumentBuf> {
    let all = matches!(spec.get("allUsers"), Some(Value::Bool(true)));
    let text = |user: Document<'_>, field: &str| user.get(field).and_then(|value| value.as_str()).map(str::to_owned);
    let users = spec.get("users").and_then(|users| users.as_array()).into_iter().flatten();
    let mut users: Vec<String> = users
        .filter_map(|user| user.as_document())
        .map(|user| format!("{}.{}", text(user, "db").unwrap_or_default(), text(user, "user").unwrap_or_default()))
        .collect();
    if users.is_empty() {
        users.push(call.request.client.user.clone().unwrap_or_default());
    }
    let known = call.state.sessions.used().into_iter();
    let listed = known.filter(|(id, _)| all || users.contains(&id.user)).map(|(id, used_ms)| {
        let mut builder = DocumentBuilder::new();
        let digest = Sha256::digest(&id.user);
        builder.open_document("_id").append("id", Value::Binary(4, &id.uuid));
        builder.append("uid", Value::Binary(0, &digest)).close();
        builder.append("lastUse", Value::DateTime(used_ms));
        if !id.user.is_empty() {
            builder.append("user", &id.user);
        }
        builder.finish()
    });
    listed.collect()
}
