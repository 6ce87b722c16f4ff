//! What clients can do to the cluster's time.

use std::time::SystemTime;

use spinney_document::bson::{DocumentBuf, Value};
use spinney_server::auth::Mechanism;

use crate::client::{TestServer, number};

const DAY: u32 = 24 * 3600;

#[expect(clippy::disallowed_methods, reason = "the test compares with the time of day")]
fn wall() -> u32 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

fn seconds(reply: &DocumentBuf) -> u32 {
    let told = reply.view().get("$clusterTime").and_then(|told| told.as_document().map(DocumentBuf::from)).unwrap();
    match told.view().get("clusterTime") {
        Some(Value::Timestamp(time)) => time.time,
        other => panic!("{other:?}"),
    }
}

fn find(time: u32, more: &str) -> String {
    let signature = r#""signature": {"hash": {"$binary": {"base64": "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "subType": "00"}}, "keyId": {"$numberLong": "0"}}"#;
    let time = format!(r#"{{"clusterTime": {{"$timestamp": {{"t": {time}, "i": 1}}}}, {signature}}}"#);
    format!(r#"{{"find": "c", "$clusterTime": {time}{more}}}"#)
}

/// A user with `read` on one database once moved the time by a year with each `find`, as the limit was measured from
/// the time that it moved: 80 of them brought it to its end, for good.
#[test]
fn a_client_without_the_right_does_not_move_the_time() {
    let mut server = TestServer::new(|settings| {
        settings.auth = true;
        settings.replica_set = Some("rs".to_owned());
    });
    let mut root = server.client();
    root.ok("admin", r#"{"createUser": "root", "pwd": "p", "roles": ["root"]}"#);
    assert_eq!(number(&root.log_in(Mechanism::Sha256, "admin", "root", "p"), "ok"), 1);
    root.ok("admin", r#"{"createUser": "r", "pwd": "p", "roles": [{"role": "read", "db": "t"}]}"#);
    let mut client = server.client();
    assert_eq!(number(&client.log_in(Mechanism::Sha256, "admin", "r", "p"), "ok"), 1);
    for ahead in [DAY / 2, DAY, 300 * DAY] {
        for _ in 0..3 {
            let refused = client.json("t", &find(wall() + ahead, ""));
            assert_eq!(number(&refused, "code"), 211, "{refused:?}");
            assert!(seconds(&refused) <= wall() + 1, "{refused:?}");
        }
    }
    // What this server has given is fine, and what a server of the same set may have given.
    let given = seconds(&client.ok("t", r#"{"find": "c"}"#));
    client.ok("t", &find(given, ""));
    client.ok("t", &find(wall() + 10, ""));
    server.end();
}

#[test]
fn nobody_moves_the_time_more_than_a_day_ahead_of_the_time_of_day() {
    let mut server = TestServer::new(|settings| settings.replica_set = Some("rs".to_owned()));
    let mut client = server.client();
    client.ok("t", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    let mut told = wall();
    for _ in 0..80 {
        told = told.saturating_add(DAY / 3);
        let reply = client.json("t", &find(told, ""));
        assert!(number(&reply, "ok") == 1 || number(&reply, "code") == 209, "{reply:?}");
        assert!(seconds(&reply) <= wall() + DAY + 1, "{reply:?}");
    }
    let far = wall() + 300 * DAY;
    // Nor by what a read asks for. The service itself is of no set here, and has no times to read after.
    let time = format!(r#"{{"$timestamp": {{"t": {far}, "i": 1}}}}"#);
    for (concern, code) in [
        (format!(r#"{{"level": "snapshot", "atClusterTime": {time}}}"#), 72),
        (format!(r#"{{"afterClusterTime": {time}}}"#), 20),
    ] {
        assert_eq!(client.code("t", &format!(r#"{{"find": "c", "readConcern": {concern}}}"#)), code, "{concern}");
    }
    let start = format!(r#"{{"$changeStream": {{"startAtOperationTime": {{"$timestamp": {{"t": {far}, "i": 1}}}}}}}}"#);
    drop(client.json("t", &format!(r#"{{"aggregate": "c", "pipeline": [{start}], "cursor": {{}}}}"#)));
    assert!(seconds(&client.ok("t", r#"{"ping": 1}"#)) <= wall() + DAY + 1);
    server.end();
}
