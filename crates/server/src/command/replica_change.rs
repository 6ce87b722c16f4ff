//! Changes of a replica set: `replSetInitiate`, `replSetReconfig`, `replSetStepDown`, `replSetFreeze`.

use std::time::Duration;

use spinney_document::bson::{DocumentBuilder, ObjectId};
use spinney_document::{Error, ErrorCode, Result};
use spinney_replica::{Config, Member};

use super::replica_config::{self, Told};
use super::replica_set::{config_of, set_of};
use super::spec::Call;
use crate::state::replica::{Replica, Standing, standing};

/// How long a change of the members may take: a new member first gets all data.
const RECONFIG: Duration = Duration::from_secs(600);

/// How long a primary that is asked to step down waits for a member that has caught up, in seconds.
const CATCH_UP_SECONDS: i64 = 10;

/// For how long a primary that stepped down is no primary again, in seconds.
const STEP_DOWN_SECONDS: i64 = 60;

/// The member of a set with several, or why there is none.
fn replica_of<'c>(call: &Call<'c>) -> Result<&'c Replica> {
    let set = set_of(call.server)?;
    call.server.replica().ok_or_else(|| {
        let what = format!(
            "this server is the only member of '{set}', without replication: start it with --members, or with --join"
        );
        Error::new(ErrorCode::COMMAND_NOT_SUPPORTED, what)
    })
}

/// Whole seconds from 0, of a field or of the command itself.
fn seconds(name: &str, number: Option<i64>, default: i64) -> Result<Duration> {
    let number = number.unwrap_or(default);
    let seconds = u64::try_from(number).map_err(|_| Error::bad_value(format!("{name} is negative: {number}")))?;
    Ok(Duration::from_secs(seconds))
}

/// `replSetInitiate`: with a configuration, or of this member alone.
///
/// # Errors
/// `AlreadyInitialized` (23), `InvalidReplicaSetConfig` (93), `NoReplicationEnabled` (76).
pub fn initiate(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let set = set_of(call.server)?;
    let Some(replica) = call.server.replica() else {
        return Err(Error::new(ErrorCode::ALREADY_INITIALIZED, "already initialized"));
    };
    let given = call.fields().value(call.name).and_then(|value| value.as_document()).filter(|given| !given.is_empty());
    let host = replica.node.settings().host.as_str();
    let (members, times) = match given {
        Some(given) => {
            let told = replica_config::parse(set, given)?;
            let times = told.times();
            (first_members(told, host)?, times)
        }
        None => (vec![Member::new(0, host)], None),
    };
    replica.node.initiate_with_times(members, times)?;
    let mut reply = DocumentBuilder::new();
    if given.is_none() {
        reply.append("info2", "no configuration specified. Using a default configuration for the set");
        reply.append("me", host);
    }
    Ok(reply)
}

/// The members of a configuration by which the member with an address makes a set.
fn first_members(told: Told, host: &str) -> Result<Vec<Member>> {
    let invalid = |what: String| Err(Error::new(ErrorCode::INVALID_REPLICA_SET_CONFIG, what));
    if told.version != 1 {
        let what = "Configuration used to initiate a replica set must have version 1, but found";
        return invalid(format!("{what} {}", told.version));
    }
    if told.set_id.is_some() {
        let what = "replica set configuration cannot contain 'replicaSetId' field when called from replSetInitiate";
        return invalid(what.to_owned());
    }
    if !told.members.iter().any(|member| member.host == host) {
        return invalid(format!(
            "no member of the configuration has the address of this server, which is {host}: name it so, or start the \
             server with --advertise and the address by which the other members reach it"
        ));
    }
    Ok(told.members)
}

/// `replSetReconfig`.
///
/// # Errors
/// `InvalidReplicaSetConfig` (93), `NewReplicaSetConfigurationIncompatible` (103) for a version that is not newer and
/// for another identity of the set, `NodeNotFound` (74) for members without this one, `NodeNotElectable` (104) for this
/// one with priority 0, `NotWritablePrimary` (10107), `ConfigurationInProgress` (109), `NotImplemented` (238) with
/// `force`.
pub fn reconfig(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (set, replica) = (set_of(call.server)?, replica_of(call)?);
    let fields = call.fields();
    let force = fields.bool("force")? == Some(true);
    let given = fields.nested(call.name)?.ok_or_else(|| Error::bad_value("replSetReconfig needs a configuration"))?;
    let status = replica.node.status();
    let current = config_of(&status)?;
    if standing(&status) != Standing::Primary && !force {
        let what = "New config cannot be installed: this member is not the primary";
        return Err(Error::new(ErrorCode::NOT_WRITABLE_PRIMARY, what));
    }
    let told = replica_config::parse(set, given)?;
    let host = replica.node.settings().host.as_str();
    let own = told.members.iter().find(|member| member.host == host).ok_or_else(|| {
        let what = format!("No host described in {} maps to this node", described(set, status.term, &told));
        Error::new(ErrorCode::NODE_NOT_FOUND, what)
    })?;
    if force {
        let what = "replSetReconfig with force is not supported: a majority of the members decides";
        return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what));
    }
    if own.priority_thousandths == 0 {
        let described = described(set, status.term, &told);
        let what = format!("This node, {host}, with _id {} is not electable under the {described}", own.id);
        return Err(Error::new(ErrorCode::NODE_NOT_ELECTABLE, what));
    }
    let config = next(current, told)?;
    let time = fields.number("maxTimeMS")?.filter(|time| *time > 0).and_then(|time| u64::try_from(time).ok());
    replica.node.change_members(config, time.map_or(RECONFIG, Duration::from_millis))?;
    Ok(DocumentBuilder::new())
}

/// A new configuration as errors name it.
fn described(set: &str, term: u64, told: &Told) -> String {
    format!("new configuration with {{version: {}, term: {term}}} for replica set {set}", told.version)
}

/// The configuration that follows on the current one.
fn next(current: &Config, told: Told) -> Result<Config> {
    let incompatible = |what| Error::new(ErrorCode::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE, what);
    let version = u64::try_from(told.version).ok().filter(|version| *version > current.version).ok_or_else(|| {
        incompatible(format!("the version of the new configuration must be greater than {}", current.version))
    })?;
    if let Some(set_id) = told.set_id.filter(|set_id| *set_id != current.set_id) {
        let (new, old) = (ObjectId::from_bytes(set_id), ObjectId::from_bytes(current.set_id));
        let what = "New and old configurations differ in replica set ID";
        return Err(incompatible(format!("{what}; old was {old}, and new is {new}")));
    }
    let times = told.times();
    Ok(Config { version, set_id: current.set_id, times, members: told.members })
}

/// `replSetStepDown`.
///
/// # Errors
/// `NotWritablePrimary` (10107), `ExceededTimeLimit` (262) when no other member catches up, `BadValue` (2) when the
/// time to catch up is longer than the time of no primary.
pub fn step_down(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let replica = replica_of(call)?;
    let fields = call.fields();
    let period = seconds(call.name, fields.number(call.name)?.filter(|period| *period != 0), STEP_DOWN_SECONDS)?;
    let given = fields.number("secondaryCatchUpPeriodSecs")?;
    let catch_up = seconds("secondaryCatchUpPeriodSecs", given, CATCH_UP_SECONDS)?;
    if given.is_some() && period < catch_up {
        return Err(Error::bad_value("stepdown period must be longer than secondaryCatchUpPeriodSecs"));
    }
    let force = fields.bool("force")?.unwrap_or(false);
    replica.node.step_down(period, catch_up.min(period), force)?;
    Ok(DocumentBuilder::new())
}

/// `replSetFreeze`: for some seconds this member does not become the primary; 0 lets it again.
///
/// # Errors
/// `NotSecondary` (95) on the primary.
pub fn freeze(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let replica = replica_of(call)?;
    let period = seconds(call.name, call.fields().number(call.name)?, 0)?;
    if standing(&replica.node.status()) == Standing::Primary {
        let what = "cannot freeze node when primary or running for election. state: Primary";
        return Err(Error::new(ErrorCode::NOT_SECONDARY, what));
    }
    replica.node.freeze(period)?;
    let mut reply = DocumentBuilder::new();
    if period.is_zero() {
        reply.append("info", "unfreezing");
    } else if period < Duration::from_secs(2) {
        reply.append("warning", "you really want to freeze for only 1 second?");
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(version: i64, set_id: Option<[u8; 12]>) -> Told {
        let members = vec![Member::new(0, "127.0.0.1:1"), Member::new(1, "b:1")];
        Told { version, members, set_id, heartbeat_ms: None, election_timeout_ms: None }
    }

    #[test]
    fn a_set_begins_with_the_first_version_and_this_server() {
        assert_eq!(first_members(told(1, None), "127.0.0.1:1").unwrap(), told(1, None).members);
        for (told, host, what) in [
            (told(2, None), "127.0.0.1:1", "must have version 1, but found 2"),
            (told(1, Some([1; 12])), "127.0.0.1:1", "cannot contain 'replicaSetId'"),
            (told(1, None), "localhost:1", "the address of this server, which is localhost:1: name it so, or start"),
        ] {
            let error = first_members(told, host).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INVALID_REPLICA_SET_CONFIG);
            assert!(error.message().contains(what), "{}", error.message());
        }
        let error = first_members(told(1, None), "localhost:1").unwrap_err();
        assert!(error.message().contains("--advertise"), "{}", error.message());
    }

    #[test]
    fn a_configuration_follows_on_an_older_one_of_the_same_set() {
        let current = Config { version: 3, set_id: [7; 12], times: None, members: Vec::new() };
        for set_id in [None, Some([7; 12])] {
            let next = next(&current, told(5, set_id)).unwrap();
            assert_eq!((next.version, next.set_id, next.members.len()), (5, [7; 12], 2));
        }
        for (told, what) in [
            (told(3, None), "must be greater than 3"),
            (told(-1, None), "must be greater than 3"),
            (told(4, Some([8; 12])), "differ in replica set ID; old was 0707"),
        ] {
            let error = next(&current, told).unwrap_err();
            assert_eq!(error.code(), ErrorCode::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE);
            assert!(error.message().contains(what), "{}", error.message());
        }
    }
}
