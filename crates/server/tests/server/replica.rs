//! Members of replica sets: how they are configured, and what they tell of each other.

use std::thread::park_timeout;
use std::time::Duration;

use spinney_document::bson::{DocumentBuf, Value};
use spinney_server::base::clock::monotonic;

use super::client::{TestServer, number};

/// How long anything may take.
const SOON: Duration = Duration::from_secs(60);

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = monotonic();
    while !is() {
        assert!(begun.elapsed() < SOON, "{what}");
        park_timeout(Duration::from_millis(20));
    }
}

fn message(server: &TestServer, command: &str) -> (i64, String) {
    let reply = server.client().json("admin", command);
    let text = reply.view().get("errmsg").and_then(|text| text.as_str().map(str::to_owned));
    (number(&reply, "code"), text.unwrap_or_default())
}

/// A configuration of members with ids from 0.
pub(super) fn config(version: i64, hosts: &[&str], more: &str) -> String {
    let members = hosts.iter().enumerate().map(|(id, host)| format!(r#"{{"_id": {id}, "host": "{host}"}}"#));
    let members = members.collect::<Vec<_>>().join(",");
    format!(r#"{{"_id": "rs", "version": {version}, "members": [{members}]{more}}}"#)
}

pub(super) fn initiate(server: &TestServer, config: &str) {
    server.client().ok("admin", &format!(r#"{{"replSetInitiate": {config}}}"#));
    let mut client = server.client();
    until("it is the primary", || {
        let hello = client.ok("admin", r#"{"hello": 1}"#);
        hello.view().get("isWritablePrimary") == Some(Value::Bool(true))
    });
}

/// What a server tells of another member, if it is part of the set.
fn told_of(server: &TestServer, other: &TestServer) -> Option<DocumentBuf> {
    let status = server.client().json("admin", r#"{"replSetGetStatus": 1}"#);
    let members = status.view().get("members").and_then(|members| members.as_array())?;
    let mut members = members.values().filter_map(|member| member.as_document());
    let is_other = |name: Option<Value<'_>>| name.and_then(|name| name.as_str()) == Some(&*other.address);
    members.find(|member| is_other(member.get("name"))).map(DocumentBuf::from)
}

/// Waits until a server tells another member to be in a state.
pub(super) fn until_told(server: &TestServer, other: &TestServer, state: &str) -> DocumentBuf {
    let mut told = None;
    until(state, || {
        told = told_of(server, other).filter(|told| text(told, "stateStr") == state);
        told.is_some()
    });
    told.unwrap()
}

fn text(document: &DocumentBuf, name: &str) -> String {
    document.view().get(name).and_then(|text| text.as_str()).unwrap().to_owned()
}

#[test]
fn a_set_begins_with_a_configuration_that_names_this_server_and_says_nothing_that_is_not_done() {
    let server = TestServer::member();
    let own = &*server.address;
    let other = own.replace("127.0.0.1", "localhost");
    for (config, told) in [
        (config(1, &[&other], ""), format!("the address of this server, which is {own}")),
        (config(1, &[&other], ""), "--advertise".to_owned()),
        (config(2, &[own], ""), "must have version 1, but found 2".to_owned()),
        (
            config(1, &[own], r#", "settings": {"electionTimeoutMillis": 200}"#),
            "the election timeout is at least three times the time between heartbeats".to_owned(),
        ),
        (config(1, &[own], r#", "protocolVersion": 0"#), "protocolVersion".to_owned()),
        (config(1, &[own, own], ""), format!("members.0.host == members.1.host == {own}")),
    ] {
        let (code, message) = message(&server, &format!(r#"{{"replSetInitiate": {config}}}"#));
        assert!(code == 93 && message.contains(&told), "{code}: {message}");
    }
    initiate(&server, &config(1, &[own], r#", "settings": {"electionTimeoutMillis": 10000}"#));
}

#[test]
fn a_primary_stays_a_member_that_may_be_the_primary() {
    let server = TestServer::member();
    let own = &*server.address;
    initiate(&server, &config(1, &[own], ""));
    for force in ["", r#", "force": true"#] {
        let left_out = format!(r#"{{"replSetReconfig": {}{force}}}"#, config(2, &["b:1"], ""));
        let (code, message) = message(&server, &left_out);
        assert_eq!(code, 74, "{message}");
        assert!(message.starts_with("No host described in new configuration with {version: 2, term: "), "{message}");
        assert!(message.ends_with("} for replica set rs maps to this node"), "{message}");
    }
    let reconfig = |config: &str, more: &str| message(&server, &format!(r#"{{"replSetReconfig": {config}{more}}}"#));
    let (code, told) = reconfig(&config(2, &[own], "").replace(r#""host""#, r#""priority": 0, "host""#), "");
    assert!(code == 104 && told.contains("is not electable under the new configuration"), "{code}: {told}");
    let other_set = r#", "settings": {"replicaSetId": {"$oid": "0102030405060708090a0b0c"}}"#;
    assert_eq!(reconfig(&config(2, &[own], other_set), "").0, 103);
    assert_eq!(reconfig(&config(1, &[own], ""), "").0, 103);
    assert_eq!(reconfig(&config(2, &[own], ""), r#", "force": true"#).0, 238);
    let frozen = server.client().json("admin", r#"{"replSetFreeze": 5}"#);
    assert_eq!((number(&frozen, "code"), text(&frozen, "codeName")), (95, "NotSecondary".to_owned()));
    server.client().ok("admin", &format!(r#"{{"replSetReconfig": {}}}"#, config(2, &[own], "")));
}

#[test]
fn a_lost_member_is_told_to_be_down_by_a_secondary_too() {
    let (first, mut second) = (TestServer::member(), TestServer::member());
    initiate(&first, &config(1, &[&first.address, &second.address], ""));
    let told = until_told(&first, &second, "SECONDARY");
    assert!(number(&told, "uptime") >= 0 && number(&told, "syncSourceId") == -1, "{told:?}");
    let empty = ["lastHeartbeatMessage", "syncSourceHost", "infoMessage"].map(|name| text(&told, name));
    assert_eq!(empty, [""; 3], "{told:?}");
    until_told(&second, &first, "PRIMARY");
    second.end();
    // Without a majority there is no primary any more.
    let state = || number(&first.client().ok("admin", r#"{"replSetGetStatus": 1}"#), "myState");
    until("the first member is a secondary", || state() == 2);
    let told = told_of(&first, &second).unwrap();
    assert_eq!(["state", "health", "uptime"].map(|name| number(&told, name)), [8, 0, 0], "{told:?}");
    assert_eq!(text(&told, "stateStr"), "(not reachable/healthy)");
    assert!(!text(&told, "lastHeartbeatMessage").is_empty());
}

#[test]
fn tags_and_quorums_are_of_the_members_that_a_set_has() {
    let server = TestServer::member();
    initiate(&server, &config(1, &[&server.address], ""));
    let mut client = server.client();
    for tags in [r#"{"dc": 3}"#, r#""nosuchtag""#] {
        let insert = format!(r#"{{"insert": "c", "documents": [{{}}], "writeConcern": {{"w": {tags}}}}}"#);
        let reply = client.ok("app", &insert);
        let error = reply.view().get("writeConcernError").and_then(|value| value.as_document()).unwrap();
        assert_eq!(
            error.get("codeName").and_then(|value| value.as_str()),
            Some("UnknownReplWriteConcern"),
            "{reply:?}"
        );
    }
    assert_eq!(number(&client.ok("app", r#"{"count": "c"}"#), "n"), 2);
    let alone = TestServer::new(|_| {});
    let insert = r#"{"insert": "c", "documents": [{}], "writeConcern": {"w": {"dc": 3}}}"#;
    assert!(alone.client().ok("app", insert).view().get("writeConcernError").is_none());
    let create = |field: &str, quorum: &str| {
        let index = format!(r#"{{"key": {{"{field}": 1}}, "name": "{field}"}}"#);
        format!(r#"{{"createIndexes": "c", "indexes": [{index}]{quorum}}}"#)
    };
    for (field, quorum, told) in [
        ("a", "", Some(r#""votingMembers""#)),
        ("a", "", None),
        ("b", r#", "commitQuorum": "majority""#, Some(r#""majority""#)),
        ("d", r#", "commitQuorum": 1"#, Some("1")),
    ] {
        let reply = client.ok("app", &create(field, quorum));
        assert_eq!(reply.view().get("commitQuorum").map(|value| value.to_string()).as_deref(), told, "{field}");
    }
    for (quorum, code) in [("2", 278), (r#""x""#, 79), ("-1", 9), ("{}", 9)] {
        assert_eq!(client.code("app", &create("e", &format!(r#", "commitQuorum": {quorum}"#))), code, "{quorum}");
    }
    assert!(alone.client().ok("app", &create("a", "")).view().get("commitQuorum").is_none());
}
