//! Parts that several replies have.

use super::call::{Call, Reply};
use super::cursors::{Cursor, FIRST_BATCH_MAX, Source};
use crate::base::num::u64_of;
use crate::base::{Error, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder};

pub use crate::bson::number::count;

/// How a command asks for its first batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstBatch {
    /// The most documents; 101 when it does not say it.
    pub size: Option<u64>,
    /// Whether the cursor is closed behind it.
    pub single: bool,
}

/// The reply with the first batch of a cursor, which stays open when there is more.
///
/// # Errors
/// Those of the source.
pub fn first_batch(call: &Call<'_>, mut cursor: Cursor, batch: FirstBatch) -> Result<Reply> {
    let mut reply = DocumentBuilder::with_buffer(Vec::with_capacity(4096));
    reply.open_document("cursor").open_array("firstBatch");
    let size = batch.size.unwrap_or(FIRST_BATCH_MAX);
    let filled = cursor.fill(&mut reply, size, || call.check());
    let finished = filled.map_err(|error| error.prefixed(&cursor.while_running))?;
    reply.close();
    if let Some(token) = cursor.resume_token() {
        reply.append("postBatchResumeToken", &token);
    }
    let namespace = cursor.owner.namespace.clone();
    let id = if finished || batch.single {
        0
    } else {
        cursor.left_ms = call.interrupt.left_ms();
        call.state.cursors.add(cursor, &**call.state.database.environment(), call.state.cursor_limits())?
    };
    if let Some(at) = call.scoped.snapshot_at {
        reply.append("atClusterTime", crate::bson::Value::Timestamp(at));
    }
    reply.append("id", id).append("ns", &namespace).close();
    Ok(reply)
}

/// The reply with a cursor over the documents of a source, owned by the client of the command.
///
/// # Errors
/// Those of the source.
pub fn cursor(call: &Call<'_>, namespace: &str, source: impl Source + 'static, batch: FirstBatch) -> Result<Reply> {
    first_batch(call, Cursor::new(source, call.owner(namespace), short(call.request.body)), batch)
}

/// The size of the first batch in `cursor: {batchSize: ..}`.
///
/// # Errors
/// 40415 for another field, `TypeMismatch` (14), `BadValue` (2) for a negative size.
pub fn cursor_option(call: &Call<'_>) -> Result<FirstBatch> {
    use super::spec::{Field, FieldType};
    const SIZE: Field = Field::optional("batchSize", FieldType::Long).at_least(0);
    let mut batch = FirstBatch::default();
    for element in call.document_or_empty("cursor") {
        if element.name != "batchSize" {
            let what = format!("BSON field '{}.cursor.{}' is an unknown field.", call.command.name, element.name);
            return Err(Error::new(crate::base::ErrorCode::IDL_UNKNOWN_FIELD, what));
        }
        super::parse::check_field(&format!("{}.cursor", call.command.name), &SIZE, &element.value)?;
        batch.size = crate::bson::long_of(&element.value).map(|number| u64::try_from(number).unwrap_or_default());
    }
    Ok(batch)
}

/// A command without the parts that may be long.
#[must_use]
pub fn short(body: Document<'_>) -> DocumentBuf {
    const BYTES_MAX: usize = 4096;
    if body.as_bytes().len() <= BYTES_MAX {
        return DocumentBuf::from(body);
    }
    let mut builder = DocumentBuilder::new();
    for element in body.elements().filter(|element| element.raw().len() <= BYTES_MAX / 4) {
        builder.append_element(&element);
    }
    builder.append("$truncated", i64::try_from(body.as_bytes().len()).unwrap_or(i64::MAX));
    builder.finish()
}

/// Appends `writeErrors`, when there are any.
pub fn append_write_errors(reply: &mut Reply, errors: &[(usize, Error)]) {
    if errors.is_empty() {
        return;
    }
    reply.open_array("writeErrors");
    for (index, error) in errors {
        reply.push_document().append("index", count(u64_of(*index))).append("code", error.code().number());
        append_details(reply, error);
        reply.append("errmsg", error.message()).close();
    }
    reply.close();
}

/// Appends the documents that an error carries.
pub fn append_details(reply: &mut Reply, error: &Error) {
    let details = error.details();
    for (name, document) in
        [("keyPattern", &details.key_pattern), ("keyValue", &details.key_value), ("errInfo", &details.err_info)]
    {
        if let Some(document) = document.as_deref().and_then(Document::from_checked_bytes) {
            reply.append(name, document);
        }
    }
    if !details.labels.is_empty() {
        reply.open_array("errorLabels");
        details.labels.iter().for_each(|label| {
            reply.push(*label);
        });
        reply.close();
    }
}
