//! What the only member of a replica set tells of the set.

use spinney_document::bson::{DocumentBuilder, Value};
use spinney_document::{Error, ErrorCode, Result};

use super::spec::Call;
use crate::base::clock::{monotonic, now_ms};

/// The name of the set, or the error of a standalone server.
fn set_of<'c>(call: &Call<'c>) -> Result<&'c str> {
    let set = call.server.topology.set();
    set.ok_or_else(|| Error::new(ErrorCode::new(76), "not running with --replSet"))
}

/// `replSetGetStatus`.
///
/// # Errors
/// `NoReplicationEnabled` (76) for a standalone server.
pub fn status(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let set = set_of(call)?;
    let (time, now) = (call.server.cluster_time(), Value::DateTime(now_ms()));
    let uptime = i64::try_from((monotonic() - call.server.started).as_secs()).unwrap_or(i64::MAX);
    let mut reply = DocumentBuilder::new();
    reply.append("set", set).append("date", now).append("myState", 1).append("term", 1_i64);
    reply.append("heartbeatIntervalMillis", 2000_i64).append("majorityVoteCount", 1).append("writeMajorityCount", 1);
    reply.append("votingMembersCount", 1).append("writableVotingMembersCount", 1);
    reply.open_document("optimes");
    for name in ["lastCommittedOpTime", "readConcernMajorityOpTime", "appliedOpTime", "durableOpTime"] {
        reply.open_document(name).append("ts", time).append("t", 1_i64).close();
    }
    reply.append("lastAppliedWallTime", now).append("lastDurableWallTime", now).close();
    reply.open_array("members").push_document().append("_id", 0);
    reply.append("name", call.server.topology.address().as_str()).append("health", 1.0).append("state", 1);
    reply.append("stateStr", "PRIMARY").append("uptime", uptime);
    reply.open_document("optime").append("ts", time).append("t", 1_i64).close().append("optimeDate", now);
    reply.append("electionTime", time).append("configVersion", 1).append("configTerm", 1).append("self", true);
    reply.close().close();
    Ok(reply)
}

/// `replSetGetConfig`.
///
/// # Errors
/// `NoReplicationEnabled` (76) for a standalone server.
pub fn config(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let set = set_of(call)?;
    let mut reply = DocumentBuilder::new();
    reply.open_document("config");
    reply.append("_id", set).append("version", 1).append("term", 1).append("protocolVersion", 1_i64);
    reply.open_array("members").push_document().append("_id", 0);
    reply.append("host", call.server.topology.address().as_str()).append("arbiterOnly", false);
    reply.append("buildIndexes", true).append("hidden", false).append("priority", 1.0).append("votes", 1);
    reply.close().close().close();
    Ok(reply)
}
