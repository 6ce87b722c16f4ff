//! `configureFailPoint`.

use spinney_document::Result;
use spinney_document::bson::{Document, DocumentBuilder, Value};

use super::spec::Call;

/// `configureFailPoint`: the fail point `failCommand`.
///
/// # Errors
/// As [`FailPoints::configure`](crate::state::fail_points::FailPoints::configure).
pub fn configure(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (fields, name) = (call.fields(), call.fields().required_text(call.name)?);
    let (mode, data) = (fields.value("mode").unwrap_or(Value::Null), fields.nested("data")?);
    let entered = call.server.fail_points.configure(name, mode, data.unwrap_or(Document::empty()))?;
    let mut reply = DocumentBuilder::new();
    reply.append("count", entered);
    Ok(reply)
}
