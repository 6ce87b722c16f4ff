//! What a member of a replica set tells of the set: `replSetGetStatus`, `replSetGetConfig`.

use std::time::Duration;

use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Timestamp, Value};
use spinney_document::{Error, ErrorCode, Result};
use spinney_replica::{Config, Member, MemberStatus, Role, Status};

use super::handshake::optime;
use super::replica_config;
use super::spec::Call;
use crate::base::clock::{monotonic, now_ms};
use crate::state::Server;
use crate::state::replica::{Replica, Standing, millis, standing};

/// How long a secondary waits for what the primary knows of the members.
const ASK_PRIMARY: Duration = Duration::from_millis(1500);

/// A member that has not answered for this time is told to be down.
const DOWN_AFTER: Duration = Duration::from_secs(2);

/// The name of the set, or the error of a standalone server.
pub(super) fn set_of(server: &Server) -> Result<&str> {
    let set = server.topology.set();
    set.ok_or_else(|| Error::new(ErrorCode::NO_REPLICATION_ENABLED, "not running with --replSet"))
}

/// The configuration in force.
///
/// # Errors
/// `NotYetInitialized` (94).
pub(super) fn config_of(status: &Status) -> Result<&Config> {
    let what = "no replset config has been received";
    status.config.as_ref().ok_or_else(|| Error::new(ErrorCode::NOT_YET_INITIALIZED, what))
}

/// The number and the name of what a member is, as MongoDB tells it.
fn state_of(status: &Status) -> (i32, &'static str) {
    match (status.role, standing(status)) {
        (_, Standing::Primary) => (1, "PRIMARY"),
        (_, Standing::Secondary) => (2, "SECONDARY"),
        (Role::Uninitiated, _) => (0, "STARTUP"),
        (Role::Removed, _) => (10, "REMOVED"),
        _ => (3, "RECOVERING"),
    }
}

/// The clock of the server as a duration since it was started, in seconds.
fn uptime(call: &Call<'_>) -> i64 {
    i64::try_from((monotonic() - call.server.started).as_secs()).unwrap_or(i64::MAX)
}

fn append_optime(reply: &mut DocumentBuilder, name: &str, (ts, term): (Timestamp, i64)) {
    reply.open_document(name).append("ts", ts).append("t", term).close();
}

/// `replSetGetStatus`.
///
/// # Errors
/// `NoReplicationEnabled` (76) for a standalone server, `NotYetInitialized` (94) for a member without a configuration.
pub fn status(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let set = set_of(call.server)?;
    match call.server.replica() {
        None => Ok(status_of_the_only_member(call, set)),
        Some(replica) => status_of_several(call, set, replica),
    }
}

fn status_of_the_only_member(call: &Call<'_>, set: &str) -> DocumentBuilder {
    let (time, now) = (call.server.cluster_time(), Value::DateTime(now_ms()));
    let mut reply = DocumentBuilder::new();
    reply.append("set", set).append("date", now).append("myState", 1).append("term", 1_i64);
    reply.append("heartbeatIntervalMillis", 2000_i64).append("majorityVoteCount", 1).append("writeMajorityCount", 1);
    reply.append("votingMembersCount", 1).append("writableVotingMembersCount", 1);
    reply.open_document("optimes");
    for name in ["lastCommittedOpTime", "readConcernMajorityOpTime", "appliedOpTime", "durableOpTime"] {
        append_optime(&mut reply, name, (time, 1));
    }
    reply.append("lastAppliedWallTime", now).append("lastDurableWallTime", now).close();
    reply.open_array("members").push_document().append("_id", 0);
    reply.append("name", call.server.topology.address().as_str()).append("health", 1.0).append("state", 1);
    reply.append("stateStr", "PRIMARY").append("uptime", uptime(call));
    append_optime(&mut reply, "optime", (time, 1));
    reply.append("optimeDate", now).append("electionTime", time);
    reply.append("configVersion", 1).append("configTerm", 1).append("self", true);
    reply.close().close();
    reply
}

fn status_of_several(call: &Call<'_>, set: &str, replica: &Replica) -> Result<DocumentBuilder> {
    let status = replica.node.status();
    let config = config_of(&status)?;
    let voters = config.members.iter().filter(|member| member.votes).count();
    let voters = i32::try_from(voters).unwrap_or(i32::MAX);
    let mut reply = DocumentBuilder::new();
    reply.append("set", set).append("date", Value::DateTime(now_ms())).append("myState", state_of(&status).0);
    reply.append("term", i64::try_from(status.term).unwrap_or(i64::MAX));
    if let Some(primary) = status.primary_host().filter(|_| status.primary != status.me) {
        reply.append("syncSourceHost", primary);
    }
    let heartbeat = millis(replica.node.settings().heartbeat);
    reply.append("heartbeatIntervalMillis", heartbeat).append("majorityVoteCount", voters / 2 + 1);
    reply.append("writeMajorityCount", voters / 2 + 1).append("votingMembersCount", voters);
    reply.append("writableVotingMembersCount", voters);
    reply.open_document("optimes");
    for (name, index) in [
        ("lastCommittedOpTime", status.committed),
        ("readConcernMajorityOpTime", status.applied),
        ("appliedOpTime", status.applied),
        ("durableOpTime", status.last),
    ] {
        append_optime(&mut reply, name, optime(index, status.applied_term));
    }
    reply.close();
    let of_primary = members_by_primary(replica, &status);
    reply.open_array("members");
    for member in &config.members {
        let told = of_primary.as_ref().and_then(|all| member_of(all.view(), member));
        if Some(member.id) == status.me {
            append_own(&mut reply, call, replica, &status, member);
        } else if let Some(told) = told {
            reply.push_document().append_all(told.view()).close();
        } else {
            append_other(&mut reply, replica, &status, member);
        }
    }
    reply.close();
    Ok(reply)
}

/// What the primary tells of the members, when it is another one.
fn members_by_primary(replica: &Replica, status: &Status) -> Option<DocumentBuf> {
    let primary = status.primary_host().filter(|_| status.primary != status.me)?;
    let mut command = DocumentBuilder::new();
    command.append("replSetGetStatus", 1);
    replica.members.run(primary, command, ASK_PRIMARY).ok()
}

/// What a reply of the primary tells of a member.
fn member_of(reply: Document<'_>, member: &Member) -> Option<DocumentBuf> {
    let members = reply.get("members")?.as_array()?;
    let mut documents = members.values().filter_map(|value| value.as_document());
    let told = documents.find(|told| told.get("name").and_then(|name| name.as_str()) == Some(member.host.as_str()))?;
    let mut own = DocumentBuilder::new();
    for element in told.elements().filter(|element| element.name != "self") {
        own.append_element(&element);
    }
    Some(own.finish())
}

fn append_head(reply: &mut DocumentBuilder, member: &Member, health: f64, state: (i32, &str)) {
    reply.push_document().append("_id", replica_config::number(member.id)).append("name", member.host.as_str());
    reply.append("health", health).append("state", state.0).append("stateStr", state.1);
}

fn append_tail(reply: &mut DocumentBuilder, status: &Status, member: &Member) {
    let known = status.members.iter().find(|known| known.id == member.id);
    if let Some((version, format)) = known.and_then(|known| known.program.as_ref()) {
        reply.append("programVersion", version.as_str()).append("replicationFormat", i64::from(*format));
    }
    let version = status.config.as_ref().map_or(0, |config| config.version);
    reply.append("configVersion", replica_config::number(version));
    reply.append("configTerm", replica_config::number(status.term));
}

fn append_own(reply: &mut DocumentBuilder, call: &Call<'_>, replica: &Replica, status: &Status, member: &Member) {
    append_head(reply, member, 1.0, state_of(status));
    reply.append("uptime", uptime(call));
    append_optime(reply, "optime", optime(status.applied, status.applied_term));
    let behind = millis(replica.behind(status));
    reply.append("optimeDate", Value::DateTime(now_ms().saturating_sub(behind)));
    if standing(status) == Standing::Primary {
        reply.append("electionTime", optime(status.term, 0).0);
    }
    append_tail(reply, status, member);
    reply.append("self", true).append("lastHeartbeatMessage", status.failure.as_deref().unwrap_or_default()).close();
}

/// What this member knows itself of another.
fn append_other(reply: &mut DocumentBuilder, replica: &Replica, status: &Status, member: &Member) {
    let known = status.members.iter().find(|known| known.id == member.id);
    let contact = known.and_then(|known| known.last_contact);
    let up = contact.is_some_and(|contact| contact < DOWN_AFTER);
    let state = match (status.primary == status.me, up) {
        (true, true) => (2, "SECONDARY"),
        (true, false) => (8, "(not reachable/healthy)"),
        // Only the primary hears of the others.
        (false, _) => (6, "UNKNOWN"),
    };
    append_head(reply, member, if up { 1.0 } else { 0.0 }, state);
    if let Some(MemberStatus { matched: Some(matched), .. }) = known {
        append_optime(reply, "optime", optime(*matched, status.applied_term));
        let lag = millis(replica.lag(status, *matched));
        reply.append("optimeDate", Value::DateTime(now_ms().saturating_sub(lag)));
    }
    if let Some(contact) = contact {
        reply.append("lastHeartbeat", Value::DateTime(now_ms().saturating_sub(millis(contact))));
    }
    append_tail(reply, status, member);
    if let Some(refused) = known.and_then(|known| known.refused.as_deref()) {
        reply.append("lastHeartbeatMessage", refused);
    }
    reply.close();
}

/// `replSetGetConfig`.
///
/// # Errors
/// `NoReplicationEnabled` (76) for a standalone server, `NotYetInitialized` (94) for a member without a configuration.
pub fn config(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let mut reply = DocumentBuilder::new();
    reply.append("config", &config_document(call.server)?);
    if call.fields().bool("commitmentStatus")? == Some(true) {
        let committed = call.server.replica().is_none_or(|replica| replica.node.status().config_committed);
        reply.append("commitmentStatus", committed);
    }
    Ok(reply)
}

/// The configuration in force.
///
/// # Errors
/// As [`config`].
pub(super) fn config_document(server: &Server) -> Result<DocumentBuf> {
    let set = set_of(server)?;
    match server.replica() {
        None => {
            let members = vec![Member::new(0, server.topology.address())];
            Ok(replica_config::document(set, 1, &Config { version: 1, set_id: [0; 12], members }))
        }
        Some(replica) => {
            let status = replica.node.status();
            Ok(replica_config::document(set, status.term, config_of(&status)?))
        }
    }
}
