//! `getLastError`, which drivers ask after writes by opcodes without a reply.

use spinney_document::Result;
use spinney_document::bson::{DocumentBuilder, Value};

use super::spec::Call;

/// `getLastError`: writes are done before it is read, as one connection sends both.
///
/// # Errors
/// None.
pub fn get_last_error(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let last = std::mem::take(&mut call.session.last_write);
    let mut reply = DocumentBuilder::new();
    reply.append("connectionId", i32::try_from(call.session.client.connection).unwrap_or(i32::MAX));
    if let Some(existing) = last.updated_existing {
        reply.append("updatedExisting", existing);
    }
    if let Some(id) = last.upserted.as_ref().and_then(|upserted| upserted.view().get("_id")) {
        reply.append("upserted", id);
    }
    reply.append("n", last.count);
    match &last.error {
        None => reply.append("err", Value::Null),
        Some((code, message)) => reply.append("err", message.as_str()).append("code", *code),
    };
    Ok(reply)
}
