//! Change streams as cursors of `aggregate`.

use super::call::{Call, Reply};
use super::cursors::{Cursor, Source};
use super::generic::ReadLevel;
use super::reply::{FirstBatch, first_batch, short};
use crate::aggregate::Run;
use crate::base::{Error, ErrorCode, Interrupt, Result};
use crate::bson::{Array, DocumentBuf, DocumentBuilder, Value};
use crate::catalog::Entry;
use crate::changes::{ChangeStream, StreamOptions, Watched};
use crate::collation::Collation;

/// The stage that makes a pipeline a change stream.
pub(super) const STAGE: &str = "$changeStream";

/// The stage that shows large events in fragments.
const SPLIT_STAGE: &str = "$changeStreamSplitLargeEvent";

/// The operand of `$changeStream`, if a pipeline begins with it.
pub(super) fn operand<'p>(stages: Array<'p>) -> Option<Value<'p>> {
    stages.get(0)?.as_document()?.first().filter(|first| first.name == STAGE).map(|first| first.value)
}

/// The operand of `$changeStream` and the stages behind it, as `{rest: [..]}`, if a pipeline begins with it. The last
/// stage is left out when it is the one that shows large events in fragments.
pub(super) fn split<'p>(stages: Array<'p>) -> Option<(Value<'p>, DocumentBuf)> {
    let operand = operand(stages)?;
    let mut rest = DocumentBuilder::new();
    rest.open_array("rest");
    let count = stages.count();
    stages.values().take(count - usize::from(ends_split(stages))).skip(1).for_each(|stage| {
        rest.push(stage);
    });
    rest.close();
    Some((operand, rest.finish()))
}

/// Whether the last stage behind the first shows large events in fragments.
fn ends_split(stages: Array<'_>) -> bool {
    let count = stages.count();
    count > 1 && stages.get(count - 1).is_some_and(|last| splits(&last))
}

/// Opens a stream, and gives its first batch.
///
/// # Errors
/// Those of [`ChangeStream::open`]; `InvalidOptions` (72) for a read concern that no stream has.
pub(super) fn open(call: &Call<'_>, stages: Array<'_>, operand: Value<'_>, batch: FirstBatch) -> Result<Reply> {
    if call.is_in_transaction() {
        let what = "$changeStream cannot be used in a transaction";
        return Err(Error::new(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, what));
    }
    if !matches!(call.generic.read_concern.level, None | Some(ReadLevel::Majority)) {
        let what = "$changeStream cannot run with a readConcern other than 'majority'";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    let mut options = StreamOptions::parse(operand)?;
    options.image_seconds = call.state.parameters.image_seconds(&call.state.database)?;
    let (watched, namespace) = watched(call, options.all_databases)?;
    // A stream does not compare as the collection that it is about.
    let collation = Collation::of_operation(call.value("collation"))?.flatten();
    let context = call.context()?.collated(collation);
    options.splits = ends_split(stages);
    let (_, rest) = split(stages).unwrap_or_else(|| (operand, DocumentBuf::default()));
    let stages = rest.view().get("rest").and_then(|rest| rest.as_array()).unwrap_or(Array::empty());
    let pipeline = crate::aggregate::parse(stages, &context)?;
    let stream = ChangeStream::open(&call.state.database, watched, options, pipeline, Run::new(context))?;
    let mut cursor = Cursor::new(stream, call.owner(namespace), short(call.request.body));
    cursor.awaits_data = true;
    cursor.no_timeout = true;
    first_batch(call, cursor, batch)
}

/// Whether a stage shows large events in fragments.
fn splits(stage: &Value<'_>) -> bool {
    let named = stage.as_document().and_then(|stage| stage.first()).filter(|first| first.name == SPLIT_STAGE);
    named.is_some_and(|first| first.value.as_document().is_some_and(|spec| spec.first().is_none()))
}

/// What the stream is about, and the namespace of its cursor.
fn watched(call: &Call<'_>, all: bool) -> Result<(Watched, String)> {
    let database = call.request.database;
    if !matches!(call.request.body.first().map(|first| first.value), Some(Value::String(_))) {
        let namespace = format!("{database}.$cmd.aggregate");
        if all && database != "admin" {
            let what = "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database";
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        }
        if !all && matches!(database, "admin" | "config" | "local") {
            let what = format!("$changeStream may not be opened on the internal {database} database");
            return Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
        }
        let watched = if all { Watched::All } else { Watched::Database(database.to_owned()) };
        return Ok((watched, namespace));
    }
    let namespace = call.namespace()?;
    if all {
        let what = "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and \
                    with no collection name";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    if matches!(database, "admin" | "config" | "local") || namespace.collection().starts_with("system.") {
        let what = format!("$changeStream may not be opened on the internal namespace {namespace}");
        return Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
    }
    if let Some(Entry::View(_)) = call.state.database.catalog().find(&namespace) {
        let what = format!("$changeStream is not supported on the view {namespace}");
        return Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW, what));
    }
    let text = namespace.to_string();
    Ok((Watched::Collection(namespace), text))
}

impl Source for ChangeStream {
    fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        Self::advance(self)
    }

    fn is_done(&self) -> bool {
        self.is_over()
    }

    fn is_endless(&self) -> bool {
        !self.is_over()
    }

    fn outlives_collection(&self) -> bool {
        true
    }

    fn wait(&mut self, until_ms: i64, interrupt: &Interrupt) -> Result<()> {
        Self::wait(self, until_ms, interrupt)
    }

    fn resume_token(&self) -> Option<DocumentBuf> {
        Some(Self::resume_token(self).document())
    }
}
