//! What a member of a replica set tells of the set: `replSetGetStatus`, `replSetGetConfig`.

use std::time::{Duration, Instant};

use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Timestamp, Value};
use spinney_document::{Error, ErrorCode, Result};
use spinney_replica::{Config, Member, MemberStatus, Role, Status};
use spinney_wire::Failure;

use super::handshake::optime;
use super::replica_config;
use super::spec::Call;
use crate::base::clock::{monotonic, now_ms};
use crate::state::Server;
use crate::state::replica::{Replica, Standing, answers, millis, standing};

/// How long a secondary waits for what the primary knows of the members.
const ASK_PRIMARY: Duration = Duration::from_millis(1500);

/// How long a secondary waits for what the other members say of themselves, when no primary tells of them.
const ASK_OTHERS: Duration = Duration::from_millis(1500);

/// The number and the name of the state of a member that does not answer.
const DOWN: (i32, &str) = (8, "(not reachable/healthy)");

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
/// `NoReplicationEnabled` (76) for a standalone server, `NotYetInitialized` (94) for a member without a configuration,
/// `InvalidReplicaSetConfig` (93) for one that was removed.
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
    check_part(status.role)?;
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
    append_members(&mut reply, call, replica, &status, config);
    Ok(reply)
}

/// Checks that this member was not removed from the set.
fn check_part(role: Role) -> Result<()> {
    let what = "Our replica set config is invalid or we are not a member of it";
    if role == Role::Removed { Err(Error::new(ErrorCode::INVALID_REPLICA_SET_CONFIG, what)) } else { Ok(()) }
}

/// The members: as the primary tells of them, or as this one hears of them.
fn append_members(reply: &mut DocumentBuilder, call: &Call<'_>, replica: &Replica, status: &Status, config: &Config) {
    let of_primary = members_by_primary(replica, status);
    let until = monotonic() + ASK_OTHERS;
    reply.open_array("members");
    for member in &config.members {
        if status.me == Some(member.id) {
            append_own(reply, call, replica, status, member);
            continue;
        }
        let is_primary = status.primary == Some(member.id);
        let heard = match &of_primary {
            Some(Ok(told)) => match member_of(told.view(), member) {
                Some(told) => {
                    reply.push_document().append_all(told.view()).close();
                    continue;
                }
                None => Heard::by_asking(replica, member, until),
            },
            Some(Err(why)) if is_primary => Heard::down(why.clone()),
            None if status.role == Role::Primary => Heard::by_primary(status, member),
            _ => Heard::by_asking(replica, member, until),
        };
        append_other(reply, replica, status, member, &heard);
    }
    reply.close();
}

/// What the primary tells of the members, or why it cannot be reached, when another member is the primary.
fn members_by_primary(replica: &Replica, status: &Status) -> Option<std::result::Result<DocumentBuf, String>> {
    let primary = status.primary_host().filter(|_| status.primary != status.me)?;
    let mut command = DocumentBuilder::new();
    command.append("replSetGetStatus", 1);
    match replica.members.run(primary, command, ASK_PRIMARY) {
        Ok(reply) => Some(Ok(reply)),
        Err(error @ Failure::Connection(_)) => Some(Err(error.to_string())),
        // It may be no primary, or no member, any more.
        Err(Failure::Refused(..)) => None,
    }
}

/// What this member hears of another one.
#[derive(Debug)]
struct Heard {
    /// The number and the name of its state.
    state: (i32, &'static str),
    /// The time since it last answered.
    contact: Option<Duration>,
    /// How long it took to answer.
    ping: Option<Duration>,
    /// What is wrong with it, as far as that is known.
    message: String,
}

impl Heard {
    /// Of a member that does not answer.
    const fn down(why: String) -> Self {
        Self { state: DOWN, contact: None, ping: None, message: why }
    }

    /// Of a member that the primary, which this one is, sends entries to.
    fn by_primary(status: &Status, member: &Member) -> Self {
        let known = status.members.iter().find(|known| known.id == member.id);
        let contact = known.and_then(|known| known.last_contact);
        let refused = known.and_then(|known| known.refused.clone());
        if known.is_some_and(|known| answers(status, known)) {
            return Self { state: (2, "SECONDARY"), contact, ping: None, message: refused.unwrap_or_default() };
        }
        let silent = contact.map(|contact| format!("no answer for {} seconds", contact.as_secs()));
        Self { contact, ..Self::down(refused.or(silent).unwrap_or_default()) }
    }

    /// Of a member that is asked now: only the primary hears of the others all the time.
    fn by_asking(replica: &Replica, member: &Member, until: Instant) -> Self {
        let begun = monotonic();
        let left = until.saturating_duration_since(begun);
        if left.is_zero() {
            return Self::down("other members did not answer in time: this one was not asked".to_owned());
        }
        let mut hello = DocumentBuilder::new();
        hello.append("hello", 1);
        match replica.members.run(&member.host, hello, left) {
            Err(error) => Self::down(error.to_string()),
            Ok(reply) => {
                let is = |name: &str| reply.view().get(name) == Some(Value::Bool(true));
                let state = match (is("isWritablePrimary"), is("secondary")) {
                    (true, _) => (1, "PRIMARY"),
                    (false, true) => (2, "SECONDARY"),
                    (false, false) => (3, "RECOVERING"),
                };
                let ping = Some(monotonic().duration_since(begun));
                Self { state, contact: Some(Duration::ZERO), ping, message: String::new() }
            }
        }
    }
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

fn append_tail(
    reply: &mut DocumentBuilder,
    status: &Status,
    member: &Member,
    (message, source): (&str, Option<&Member>),
) {
    reply.append("lastHeartbeatMessage", message);
    reply.append("syncSourceHost", source.map_or("", |source| &source.host));
    reply.append("syncSourceId", source.map_or(Value::Int32(-1), |source| replica_config::number(source.id)));
    reply.append("infoMessage", "");
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
    let source = status.primary.filter(|primary| *primary != member.id);
    let source = source.and_then(|primary| status.config.as_ref()?.by_id(primary));
    append_tail(
        reply,
        status,
        member,
        (status.failure.as_deref().or(status.problem.as_deref()).unwrap_or_default(), source),
    );
    reply.append("self", true).close();
}

/// What this member knows itself of another.
fn append_other(reply: &mut DocumentBuilder, replica: &Replica, status: &Status, member: &Member, heard: &Heard) {
    let up = heard.state != DOWN;
    append_head(reply, member, if up { 1.0 } else { 0.0 }, heard.state);
    let uptime = replica.up_for(member.id, up).as_secs();
    reply.append("uptime", i64::try_from(uptime).unwrap_or(i64::MAX));
    let known = status.members.iter().find(|known| known.id == member.id);
    if let Some(MemberStatus { matched: Some(matched), .. }) = known {
        append_optime(reply, "optime", optime(*matched, status.applied_term));
        let lag = millis(replica.lag(status, *matched));
        reply.append("optimeDate", Value::DateTime(now_ms().saturating_sub(lag)));
    }
    if let Some(contact) = heard.contact {
        reply.append("lastHeartbeat", Value::DateTime(now_ms().saturating_sub(millis(contact))));
    }
    if let Some(ping) = heard.ping {
        reply.append("pingMs", millis(ping));
    }
    append_tail(reply, status, member, (&heard.message, None));
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
            Ok(replica_config::document(set, 1, &Config { version: 1, set_id: [0; 12], times: None, members }))
        }
        Some(replica) => {
            let status = replica.node.status();
            Ok(replica_config::document(set, status.term, config_of(&status)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_member_has_no_status() {
        assert!([Role::Primary, Role::Secondary, Role::Recovering].iter().all(|role| check_part(*role).is_ok()));
        let error = check_part(Role::Removed).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_REPLICA_SET_CONFIG);
        assert_eq!(error.message(), "Our replica set config is invalid or we are not a member of it");
    }
}
