//! Configurations of replica sets as documents, as `replSetGetConfig` shows them and `replSetReconfig` takes them.

use std::fmt::Display;

use spinney_document::base::num::nearest_f64;
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, ObjectId, Value};
use spinney_document::{Error, ErrorCode, Result};
use spinney_replica::{Config, Member, Times};

use crate::base::fields::{Fields, truth, whole, wrong_type};
use crate::peer::address::with_port;

/// The highest priority.
const PRIORITY_MAX: f64 = 1000.0;

/// The highest `_id` of a member.
const ID_MAX: i64 = 255;

/// The settings that are numbers, and cannot be changed: with MongoDB's defaults, which configurations that were copied
/// from MongoDB have.
const FIXED_SETTINGS: [(&str, i64); 3] =
    [("heartbeatTimeoutSecs", 10), ("catchUpTimeoutMillis", -1), ("catchUpTakeoverDelayMillis", 30_000)];

/// A configuration as a client tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The version.
    pub version: i64,
    /// The members in the order of their ids.
    pub members: Vec<Member>,
    /// The identity of the set, if it is told.
    pub set_id: Option<[u8; 12]>,
    /// The time between heartbeats in milliseconds, if it is told.
    pub heartbeat_ms: Option<u64>,
    /// The election timeout in milliseconds, if it is told.
    pub election_timeout_ms: Option<u64>,
}

/// The settings of a configuration that can be told.
#[derive(Clone, Copy, Debug, Default)]
struct ToldSettings {
    set_id: Option<[u8; 12]>,
    heartbeat_ms: Option<u64>,
    election_timeout_ms: Option<u64>,
}

impl Told {
    /// The times that are told; nothing for those that members have of themselves.
    #[must_use]
    pub fn times(&self) -> Option<Times> {
        let Times { heartbeat_ms, election_timeout_ms } = Times::default();
        let times = Times {
            heartbeat_ms: self.heartbeat_ms.unwrap_or(heartbeat_ms),
            election_timeout_ms: self.election_timeout_ms.unwrap_or(election_timeout_ms),
        };
        (times != Times::default()).then_some(times)
    }
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::INVALID_REPLICA_SET_CONFIG, what)
}

/// A number as MongoDB tells it: of 32 bits where that is enough. Shells compute with it, which they cannot with
/// others.
pub(super) fn number(number: u64) -> Value<'static> {
    i32::try_from(number).map_or_else(|_| Value::Int64(i64::try_from(number).unwrap_or(i64::MAX)), Value::Int32)
}

/// The document of a configuration.
#[must_use]
pub fn document(set: &str, term: u64, config: &Config) -> DocumentBuf {
    let mut document = DocumentBuilder::new();
    document.append("_id", set).append("version", number(config.version)).append("term", number(term));
    document.open_array("members");
    for member in &config.members {
        document.push_document().append("_id", number(member.id)).append("host", member.host.as_str());
        document.append("arbiterOnly", false).append("buildIndexes", true).append("hidden", member.hidden);
        document.append("priority", nearest_f64(i64::from(member.priority_thousandths)) / 1000.0);
        document.open_document("tags").close();
        document.append("secondaryDelaySecs", 0_i64).append("votes", i32::from(member.votes)).close();
    }
    document.close().append("protocolVersion", 1_i64).append("writeConcernMajorityJournalDefault", true);
    let Times { heartbeat_ms, election_timeout_ms } = config.times.unwrap_or_default();
    document.open_document("settings").append("heartbeatIntervalMillis", number(heartbeat_ms));
    document.append("electionTimeoutMillis", number(election_timeout_ms));
    document.append("replicaSetId", ObjectId::from_bytes(config.set_id)).close();
    document.finish()
}

/// The configuration that a document is.
///
/// # Errors
/// `InvalidReplicaSetConfig` (93) for what makes no sense, for another set, for two members with one id or address, and
/// for what is not supported: arbiters, tags, members that follow with a delay or that have no indexes, and settings of
/// catching up and write concerns with other values than MongoDB's defaults. `TypeMismatch` (14).
pub fn parse(set: &str, document: Document<'_>) -> Result<Told> {
    let fields = Fields::new("config", document);
    let mut told = ToldSettings::default();
    for element in document.elements() {
        let value = element.value;
        match &*element.name.to_str_lossy() {
            "_id" | "version" | "term" | "members" => {}
            "settings" if value.is_nullish() => {}
            "settings" => {
                let settings = value.as_document().ok_or_else(|| wrong_type("config", "settings", &value, "object"))?;
                told = settings_of(settings)?;
            }
            "protocolVersion" if whole(&value) == Some(1) => {}
            "protocolVersion" => return Err(only("protocolVersion", "1", &value)),
            "writeConcernMajorityJournalDefault" if truth(&value) == Some(true) => {}
            name @ "writeConcernMajorityJournalDefault" => return Err(only(name, "true", &value)),
            other => return Err(invalid(format!("the field '{other}' of a configuration is not supported"))),
        }
    }
    let name = fields.required_text("_id")?;
    if name != set {
        return Err(invalid(format!("the configuration is of the set '{name}', this member is of '{set}'")));
    }
    let members = fields.array("members")?.ok_or_else(|| invalid("a configuration has members"))?;
    let members = members.values().map(|member| {
        let document = member.as_document().ok_or_else(|| invalid("a member is a document"))?;
        member_of(document)
    });
    let mut members = members.collect::<Result<Vec<_>>>()?;
    check_unique(&members)?;
    members.sort_by_key(|member| member.id);
    let ToldSettings { set_id, heartbeat_ms, election_timeout_ms } = told;
    let version = fields.number("version")?.unwrap_or(1);
    Ok(Told { version, members, set_id, heartbeat_ms, election_timeout_ms })
}

/// The error of a field that has one value only.
fn only(name: &str, possible: &str, given: &Value<'_>) -> Error {
    invalid(format!("{name} cannot be changed: it is {possible}, not {given}"))
}

/// The settings of a configuration that can be told; others have one value only.
fn settings_of(settings: Document<'_>) -> Result<ToldSettings> {
    let mut told = ToldSettings::default();
    for element in settings.elements() {
        let (name, value) = (element.name.to_str_lossy(), element.value);
        let refused = |possible: &str| Err(only(&format!("settings.{name}"), possible, &value));
        let fixed = FIXED_SETTINGS.iter().find(|(fixed, _)| *fixed == name).map(|(_, default)| *default);
        if let Some(default) = fixed {
            if value.as_f64() != Some(nearest_f64(default)) {
                return refused(&default.to_string());
            }
            continue;
        }
        match &*name {
            "chainingAllowed" if truth(&value) != Some(true) => return refused("true"),
            "getLastErrorModes" if value.as_document().is_none_or(|modes| !modes.is_empty()) => return refused("{}"),
            "getLastErrorDefaults" if !value.as_document().is_some_and(is_default_concern) => {
                return refused("{w: 1, wtimeout: 0}");
            }
            "replicaSetId" => match value {
                Value::ObjectId(id) => told.set_id = Some(id.bytes()),
                _ => return Err(wrong_type("config", "settings.replicaSetId", &value, "objectId")),
            },
            "heartbeatIntervalMillis" => told.heartbeat_ms = Some(millis(&name, &value)?),
            "electionTimeoutMillis" => told.election_timeout_ms = Some(millis(&name, &value)?),
            "chainingAllowed" | "getLastErrorModes" | "getLastErrorDefaults" => {}
            other => return Err(invalid(format!("the field 'settings.{other}' is not supported"))),
        }
    }
    Ok(told)
}

/// A time of the settings. What is out of range is refused by the member.
fn millis(name: &str, value: &Value<'_>) -> Result<u64> {
    let millis = value.as_exact_i64().and_then(|millis| u64::try_from(millis).ok()).filter(|millis| *millis > 0);
    millis.ok_or_else(|| invalid(format!("settings.{name} is a whole number of milliseconds, not {value}")))
}

/// Whether a write concern is that of writes which tell none, as old configurations have it.
fn is_default_concern(concern: Document<'_>) -> bool {
    concern.elements().all(|element| {
        let default = match &*element.name.to_str_lossy() {
            "w" => 1.0,
            "wtimeout" => 0.0,
            _ => return false,
        };
        element.value.as_f64() == Some(default)
    })
}

/// Checks that no two members have one id or address.
fn check_unique(members: &[Member]) -> Result<()> {
    for (at, member) in members.iter().enumerate() {
        let found = |field: &str, before: usize, value: &dyn Display| {
            let what = format!(
                "Found two member configurations with same {field} field, members.{before}.{field} == \
                 members.{at}.{field} == {value}"
            );
            Err(invalid(what))
        };
        if let Some(before) = members[..at].iter().position(|other| other.host == member.host) {
            return found("host", before, &member.host);
        }
        if let Some(before) = members[..at].iter().position(|other| other.id == member.id) {
            return found("_id", before, &member.id);
        }
    }
    Ok(())
}

fn member_of(document: Document<'_>) -> Result<Member> {
    let fields = Fields::new("members", document);
    let id = fields.number("_id")?.filter(|id| (0..=ID_MAX).contains(id));
    let id = id.and_then(|id| u64::try_from(id).ok());
    let id = id.ok_or_else(|| invalid(format!("a member has an _id from 0 to {ID_MAX}")))?;
    let host = with_port(fields.required_text("host")?).map_err(|error| invalid(error.message()))?;
    let mut member = Member::new(id, host);
    for element in document.elements() {
        let (name, value) = (element.name.to_str_lossy(), element.value);
        let is_set = || truth(&value).ok_or_else(|| invalid(format!("members.{name} is true or false")));
        let refused = |what: &str| Err(invalid(format!("{what} are not supported: member {}", member.host)));
        match &*name {
            "_id" | "host" => {}
            "priority" => member.priority_thousandths = priority(&value)?,
            "hidden" => member.hidden = is_set()?,
            "votes" => match whole(&value) {
                Some(votes @ (0 | 1)) => member.votes = votes == 1,
                _ => return Err(invalid("votes of a member are 0 or 1")),
            },
            "arbiterOnly" if is_set()? => return refused("arbiters"),
            "buildIndexes" if !is_set()? => return refused("members without indexes"),
            "secondaryDelaySecs" | "slaveDelay" if is_set()? => return refused("members with a delay"),
            "tags" if value.as_document().is_none_or(|tags| !tags.is_empty()) => return refused("tags of members"),
            "arbiterOnly" | "buildIndexes" | "secondaryDelaySecs" | "slaveDelay" | "tags" => {}
            other => return Err(invalid(format!("the field 'members.{other}' is not supported"))),
        }
    }
    if member.hidden && member.priority_thousandths != 0 {
        return Err(invalid("priority must be 0 when hidden=true"));
    }
    if !member.votes && member.priority_thousandths != 0 {
        return Err(invalid("priority must be 0 when non-voting (votes:0)"));
    }
    Ok(member)
}

/// A priority, in thousandths.
fn priority(value: &Value<'_>) -> Result<u32> {
    let priority = value.as_f64().filter(|priority| (0.0..=PRIORITY_MAX).contains(priority));
    let thousandths =
        priority.and_then(|priority| spinney_document::base::num::trunc_to_i64((priority * 1000.0).round()));
    let thousandths = thousandths.and_then(|thousandths| u32::try_from(thousandths).ok());
    thousandths.ok_or_else(|| invalid(format!("the priority of a member is a number from 0 to {PRIORITY_MAX}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> Result<Told> {
        parse("rs0", DocumentBuf::from_json(json).unwrap().view())
    }

    #[test]
    fn a_configuration_survives_its_document() {
        let mut members = vec![Member::new(0, "a:1"), Member::new(1, "b:27017"), Member::new(7, "c:3")];
        members[0].priority_thousandths = 2500;
        members[1].hidden = true;
        members[1].priority_thousandths = 0;
        members[2].votes = false;
        members[2].priority_thousandths = 0;
        let times = Some(Times { heartbeat_ms: 2000, election_timeout_ms: 10_000 });
        let config = Config { version: 4, set_id: [7; 12], times, members };
        let told = parse("rs0", document("rs0", 3, &config).view()).unwrap();
        assert_eq!(told.times(), times);
        let default = Config { times: None, ..config.clone() };
        let shown = document("rs0", 3, &default);
        let settings = shown.view().get("settings").and_then(|settings| settings.as_document()).unwrap();
        assert_eq!(settings.get("electionTimeoutMillis"), Some(Value::Int32(500)));
        assert_eq!(parse("rs0", shown.view()).unwrap().times(), None);
        assert_eq!((told.version, told.members, told.set_id), (4, config.members.clone(), Some([7; 12])));
        // A shell that adds 1 to a number of 64 bits gets a text.
        let shown = document("rs0", 3, &config);
        assert!(["version", "term"].iter().all(|name| matches!(shown.view().get(name), Some(Value::Int32(_)))));
    }

    #[test]
    fn what_is_not_supported_is_refused_and_not_dropped() {
        let member = |more: &str| format!(r#"{{"_id": "rs0", "members": [{{"_id": 1, "host": "a:1"{more}}}]}}"#);
        assert_eq!(parsed(&member("")).unwrap().members, [Member::new(1, "a:1")]);
        assert_eq!(parsed(&member(r#", "host": "a""#)).unwrap().members[0].host, "a:1");
        for more in [
            r#", "arbiterOnly": true"#,
            r#", "tags": {"dc": "east"}"#,
            r#", "secondaryDelaySecs": 60"#,
            r#", "slaveDelay": 60"#,
            r#", "buildIndexes": false, "priority": 0"#,
            r#", "hidden": true"#,
            r#", "votes": 0"#,
            r#", "votes": 2"#,
            r#", "priority": -1"#,
            r#", "priority": 1001"#,
            r#", "colour": "red""#,
        ] {
            assert_eq!(parsed(&member(more)).unwrap_err().code(), ErrorCode::INVALID_REPLICA_SET_CONFIG, "{more}");
        }
        for json in [
            r#"{"_id": "rs1", "members": [{"_id": 1, "host": "a:1"}]}"#,
            r#"{"_id": "rs0"}"#,
            r#"{"_id": "rs0", "members": [{"_id": 256, "host": "a:1"}]}"#,
            r#"{"_id": "rs0", "members": [{"_id": 1, "host": "::"}]}"#,
            r#"{"_id": "rs0", "members": [], "configsvr": true}"#,
        ] {
            assert_eq!(parsed(json).unwrap_err().code(), ErrorCode::INVALID_REPLICA_SET_CONFIG, "{json}");
        }
    }

    #[test]
    fn settings_have_the_defaults_of_mongodb_or_are_refused_by_their_names() {
        let with =
            |more: &str| parsed(&format!(r#"{{"_id": "rs0", "members": [{{"_id": 1, "host": "a:1"}}], {more}}}"#));
        let copied = r#""term": 12, "protocolVersion": 1, "writeConcernMajorityJournalDefault": true, "settings": {
            "chainingAllowed": true, "heartbeatIntervalMillis": 2000, "heartbeatTimeoutSecs": 10,
            "electionTimeoutMillis": 10000.0, "catchUpTimeoutMillis": -1, "catchUpTakeoverDelayMillis": 30000,
            "getLastErrorModes": {}, "getLastErrorDefaults": {"w": 1, "wtimeout": 0},
            "replicaSetId": {"$oid": "0102030405060708090a0b0c"}}"#;
        let told = with(copied).unwrap();
        assert_eq!(told.set_id, Some([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]));
        assert_eq!(told.times(), Some(Times { heartbeat_ms: 2000, election_timeout_ms: 10_000 }));
        assert_eq!(with(r#""settings": null"#).unwrap().set_id, None);
        for (setting, possible) in [
            (r#""electionTimeoutMillis": 0"#, "a whole number of milliseconds, not 0"),
            (r#""heartbeatIntervalMillis": 1.5"#, "a whole number of milliseconds, not 1.5"),
            (r#""heartbeatTimeoutSecs": 11"#, "it is 10, not 11"),
            (r#""catchUpTimeoutMillis": 0"#, "it is -1, not 0"),
            (r#""catchUpTakeoverDelayMillis": "x""#, "it is 30000, not"),
            (r#""chainingAllowed": false"#, "it is true, not false"),
            (r#""getLastErrorModes": {"m": {"dc": 2}}"#, "it is {}, not"),
            (r#""getLastErrorDefaults": {"w": 2, "wtimeout": 0}"#, "it is {w: 1, wtimeout: 0}, not"),
            (r#""getLastErrorDefaults": {"w": 1, "j": true}"#, "it is {w: 1, wtimeout: 0}, not"),
            (r#""colour": "red""#, "is not supported"),
        ] {
            let error = with(&format!(r#""settings": {{{setting}}}"#)).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INVALID_REPLICA_SET_CONFIG, "{setting}");
            let name = setting.split('"').nth(1).unwrap();
            let message = error.message();
            assert!(message.contains(&format!("settings.{name}")) && message.contains(possible), "{message}");
        }
        for (field, told) in [
            (r#""protocolVersion": 0"#, "protocolVersion cannot be changed: it is 1, not 0"),
            (
                r#""writeConcernMajorityJournalDefault": false"#,
                "writeConcernMajorityJournalDefault cannot be changed: it is true, not false",
            ),
            (r#""colour": 1"#, "the field 'colour' of a configuration is not supported"),
        ] {
            let error = with(field).unwrap_err();
            assert_eq!((error.code(), error.message()), (ErrorCode::INVALID_REPLICA_SET_CONFIG, told));
        }
    }

    #[test]
    fn two_members_with_one_address_or_id_are_told_with_what_they_share() {
        for (second, told) in [
            (
                r#"{"_id": 8, "host": "a:1"}"#,
                "Found two member configurations with same host field, members.0.host == members.1.host == a:1",
            ),
            (
                r#"{"_id": 1, "host": "b:1"}"#,
                "Found two member configurations with same _id field, members.0._id == members.1._id == 1",
            ),
        ] {
            let json = format!(r#"{{"_id": "rs0", "members": [{{"_id": 1, "host": "a:1"}}, {second}]}}"#);
            let error = parsed(&json).unwrap_err();
            assert_eq!((error.code(), error.message()), (ErrorCode::INVALID_REPLICA_SET_CONFIG, told));
        }
    }
}
