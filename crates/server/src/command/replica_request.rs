//! The commands by which the members of a replica set talk to each other. With authentication only members may send
//! them.

use std::time::Duration;

use spinney_document::bson::{DOCUMENT_BYTES_MAX, DocumentBuilder, Value};
use spinney_document::{Error, ErrorCode, Result};

use super::spec::Call;
use crate::peer::connection::joined;
use crate::peer::members::{PAYLOAD, READ_INDEX, READ_TIME};
use crate::state::Replica;
use crate::state::catch_up::read_index as read_index_of;

/// What of a document may be a payload.
const REPLY_BYTES_MAX: usize = DOCUMENT_BYTES_MAX - 1024;

fn replica_of<'c>(call: &Call<'c>) -> Result<&'c Replica> {
    let what = "this server is no member of a replica set with others";
    call.server.replica().ok_or_else(|| Error::new(ErrorCode::NO_REPLICATION_ENABLED, what))
}

/// `_replicaRequest`: hands a request to the node, and its answer back.
///
/// # Errors
/// Those of the node; `FailedToParse` (9) for a payload that is none.
pub fn request(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let replica = replica_of(call)?;
    let payload = call.sequences.iter().find(|(name, _)| *name == PAYLOAD).and_then(|(_, parts)| joined(parts));
    let payload = payload.ok_or_else(|| Error::new(ErrorCode::FAILED_TO_PARSE, "the request has no payload"))?;
    let answer = replica.node.handle(&payload)?;
    if answer.len() > REPLY_BYTES_MAX {
        let what = format!("an answer to a member of {} bytes is too long", answer.len());
        return Err(Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, what));
    }
    let mut reply = DocumentBuilder::with_buffer(Vec::with_capacity(answer.len() + 64));
    reply.append(PAYLOAD, Value::Binary(0, &answer));
    Ok(reply)
}

/// `_replicaStream`: behind its reply the connection carries requests of the primary to append entries, which the node
/// takes itself.
///
/// # Errors
/// `NoReplicationEnabled` (76).
pub fn stream(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    replica_of(call)?;
    call.session.carries_entries = true;
    Ok(DocumentBuilder::new())
}

/// `_replicaReadIndex`: the index in the log up to which a member must have applied entries so that its reads see all
/// that was acknowledged before, and all up to a time, if it names one.
///
/// # Errors
/// Those of [`read_index_of`].
pub fn read_index(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let replica = replica_of(call)?;
    let limit = call.fields().number("maxTimeMS")?.and_then(|time| u64::try_from(time).ok()).unwrap_or_default();
    let time = match call.fields().value(READ_TIME) {
        Some(Value::Timestamp(time)) => Some(time),
        _ => None,
    };
    let database = call.server.service.database();
    let index = read_index_of(&replica.node, database, time, Duration::from_millis(limit))?;
    let mut reply = DocumentBuilder::new();
    reply.append(READ_INDEX, i64::try_from(index).unwrap_or(i64::MAX));
    Ok(reply)
}
