//! Changes of a replica set: `replSetInitiate`, `replSetReconfig`, `replSetStepDown`, `replSetFreeze`.

use std::time::Duration;

use spinney_document::bson::DocumentBuilder;
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
    let members = match given {
        Some(given) => replica_config::parse(set, given)?.members,
        None => vec![Member::new(0, replica.node.settings().host.clone())],
    };
    replica.node.initiate(members)?;
    let mut reply = DocumentBuilder::new();
    if given.is_none() {
        reply.append("info2", "no configuration specified. Using a default configuration for the set");
        reply.append("me", replica.node.settings().host.as_str());
    }
    Ok(reply)
}

/// `replSetReconfig`.
///
/// # Errors
/// `InvalidReplicaSetConfig` (93), `NewReplicaSetConfigurationIncompatible` (103) for a version that is not newer,
/// `NotWritablePrimary` (10107), `ConfigurationInProgress` (109), `NotImplemented` (238) with `force`.
pub fn reconfig(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let (set, replica) = (set_of(call.server)?, replica_of(call)?);
    let fields = call.fields();
    if fields.bool("force")? == Some(true) {
        let what = "replSetReconfig with force is not supported: a majority of the members decides";
        return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what));
    }
    let given = fields.nested(call.name)?.ok_or_else(|| Error::bad_value("replSetReconfig needs a configuration"))?;
    let status = replica.node.status();
    let current = config_of(&status)?;
    if standing(&status) != Standing::Primary {
        let what = "New config cannot be installed: this member is not the primary";
        return Err(Error::new(ErrorCode::NOT_WRITABLE_PRIMARY, what));
    }
    let Told { version, members } = replica_config::parse(set, given)?;
    let version = u64::try_from(version).ok().filter(|version| *version > current.version);
    let version = version.ok_or_else(|| {
        let what = format!("the version of the new configuration must be greater than {}", current.version);
        Error::new(ErrorCode::NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE, what)
    })?;
    let time = fields.number("maxTimeMS")?.filter(|time| *time > 0).and_then(|time| u64::try_from(time).ok());
    let config = Config { version, set_id: current.set_id, members };
    replica.node.change_members(config, time.map_or(RECONFIG, Duration::from_millis))?;
    Ok(DocumentBuilder::new())
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
        return Err(Error::new(ErrorCode::new(95), what));
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
