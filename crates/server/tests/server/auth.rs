//! Users log in, and may do what their roles say.

use std::net::TcpStream;

use spinney_document::bson::DocumentBuf;
use spinney_server::auth::Mechanism;

use crate::client::{Client, TestServer, number};

fn server() -> TestServer {
    TestServer::new(|settings| settings.auth = true)
}

/// The first user, made by a client of this machine; a connection of that user.
fn with_root(server: &TestServer) -> Client<TcpStream> {
    let mut client = server.client();
    client.ok("admin", r#"{"createUser": "root", "pwd": "secret", "roles": ["root"]}"#);
    assert_eq!(number(&client.log_in(Mechanism::Sha256, "admin", "root", "secret"), "ok"), 1);
    client
}

#[test]
fn nothing_but_a_handshake_is_for_strangers() {
    let server = server();
    let mut client = server.client();
    for command in [r#"{"hello": 1}"#, r#"{"ping": 1}"#, r#"{"connectionStatus": 1}"#, r#"{"whatsmyuri": 1}"#] {
        client.ok("admin", command);
    }
    for command in [r#"{"find": "system.users"}"#, r#"{"insert": "c", "documents": [{}]}"#, r#"{"usersInfo": 1}"#] {
        assert_eq!(client.code("admin", command), 13, "{command}");
    }
    // The first user is made from this machine, in admin; the next is not.
    assert_eq!(client.code("app", r#"{"createUser": "a", "pwd": "x", "roles": []}"#), 13);
    let mut root = with_root(&server);
    assert_eq!(client.code("admin", r#"{"createUser": "a", "pwd": "x", "roles": []}"#), 13);
    root.ok("app", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    // What is longer than a handshake is not even read.
    client.send_command("app", spinney_document::doc! {"x": &"x".repeat(100_000)}.view(), false, false);
    assert!(client.receive().is_none());
}

#[test]
fn a_password_opens_and_another_does_not() {
    let server = server();
    let mut root = with_root(&server);
    root.ok("app", r#"{"createUser": "ada", "pwd": "pencil", "roles": ["read"], "customData": {"a": 1}}"#);
    root.ok("app", r#"{"createUser": "old", "pwd": "pencil", "roles": [], "mechanisms": ["SCRAM-SHA-1"]}"#);
    for mechanism in [Mechanism::Sha1, Mechanism::Sha256] {
        let mut client = server.client();
        assert_eq!(number(&client.log_in(mechanism, "app", "ada", "pencil"), "ok"), 1);
        let status = client.ok("app", r#"{"connectionStatus": 1}"#).view().to_json();
        assert!(status.contains(r#""authenticatedUsers":[{"user":"ada","db":"app"}]"#), "{status}");
        client.ok("app", r#"{"find": "c"}"#);
        assert_eq!(client.code("app", r#"{"insert": "c", "documents": [{}]}"#), 13);
        assert_eq!(client.code("other", r#"{"find": "c"}"#), 13);
        assert_eq!(client.code("app", r#"{"usersInfo": 1}"#), 13);
        client.ok("app", r#"{"logout": 1}"#);
        assert_eq!(client.code("app", r#"{"find": "c"}"#), 13);
        for (user, password) in [("ada", "pen"), ("nobody", "pencil")] {
            assert_eq!(number(&server.client().log_in(mechanism, "app", user, password), "code"), 18);
        }
    }
    assert_eq!(number(&server.client().log_in(Mechanism::Sha256, "app", "old", "pencil"), "code"), 334);
    let hello = root.ok("admin", r#"{"hello": 1, "saslSupportedMechs": "app.old"}"#);
    assert_eq!(hello.view().get("saslSupportedMechs").unwrap().to_string(), r#"["SCRAM-SHA-1"]"#);
    let log = server.log();
    assert!(log.contains("authentication failed") && !log.contains("pencil") && !log.contains("secret"));
}

#[test]
fn users_are_changed_and_their_connections_follow() {
    let server = server();
    let mut root = with_root(&server);
    root.ok("app", r#"{"createUser": "ada", "pwd": "a", "roles": ["read"]}"#);
    assert_eq!(root.code("app", r#"{"createUser": "ada", "pwd": "a", "roles": []}"#), 51003);
    assert_eq!(root.code("app", r#"{"createUser": "x", "pwd": "a", "roles": ["nothing"]}"#), 31);
    assert_eq!(root.code("app", r#"{"createUser": "x", "pwd": "", "roles": []}"#), 2);
    let mut ada = server.client();
    assert_eq!(number(&ada.log_in(Mechanism::Sha256, "app", "ada", "a"), "ok"), 1);
    assert_eq!(ada.code("app", r#"{"insert": "c", "documents": [{}]}"#), 13);
    root.ok("app", r#"{"grantRolesToUser": "ada", "roles": ["readWrite"]}"#);
    ada.ok("app", r#"{"insert": "c", "documents": [{}]}"#);
    root.ok("app", r#"{"revokeRolesFromUser": "ada", "roles": ["readWrite"]}"#);
    assert_eq!(ada.code("app", r#"{"insert": "c", "documents": [{}]}"#), 13);
    root.ok("app", r#"{"updateUser": "ada", "pwd": "b"}"#);
    assert_eq!(number(&server.client().log_in(Mechanism::Sha256, "app", "ada", "a"), "code"), 18);
    assert_eq!(number(&server.client().log_in(Mechanism::Sha256, "app", "ada", "b"), "ok"), 1);
    let users = root.ok("app", r#"{"usersInfo": "ada", "showPrivileges": true}"#).view().to_json();
    assert!(
        users.contains(r#""mechanisms":["SCRAM-SHA-1","SCRAM-SHA-256"]"#) && !users.contains("storedKey"),
        "{users}"
    );
    // Users lie where dumps find them.
    let stored = root.ok("admin", r#"{"find": "system.users", "filter": {"user": "ada"}}"#).view().to_json();
    assert!(stored.contains(r#""_id":"app.ada""#) && stored.contains("storedKey"), "{stored}");
    root.ok("app", r#"{"dropUser": "ada"}"#);
    assert_eq!(root.code("app", r#"{"dropUser": "ada"}"#), 11);
    assert_eq!(ada.code("app", r#"{"find": "c"}"#), 13);
    assert_eq!(root.code("app", r#"{"createRole": "r", "privileges": [], "roles": []}"#), 238);
}

#[test]
fn a_user_cannot_give_roles_that_are_not_the_users_to_give() {
    let server = server();
    let mut root = with_root(&server);
    root.ok("app", r#"{"createUser": "owner", "pwd": "a", "roles": ["dbOwner"]}"#);
    let mut owner = server.client();
    owner.log_in(Mechanism::Sha256, "app", "owner", "a");
    owner.ok("app", r#"{"createUser": "x", "pwd": "a", "roles": ["readWrite"]}"#);
    let greedy = r#"{"createUser": "y", "pwd": "a", "roles": [{"role": "root", "db": "admin"}]}"#;
    assert_eq!(owner.code("app", greedy), 13);
    assert_eq!(owner.code("admin", r#"{"shutdown": 1}"#), 13);
    let privileges = owner.ok("app", r#"{"connectionStatus": 1, "showPrivileges": true}"#);
    assert!(
        DocumentBuf::from(privileges.view()).view().to_json().contains(r#""resource":{"db":"app","collection":""}"#)
    );
}

#[test]
fn what_a_command_contains_must_be_allowed_too() {
    let server = server();
    let mut root = with_root(&server);
    root.ok("app", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    root.ok("other", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    root.ok("app", r#"{"createUser": "reader", "pwd": "a", "roles": ["read"]}"#);
    root.ok("app", r#"{"createUser": "writer", "pwd": "a", "roles": ["readWrite"]}"#);
    let (mut reader, mut writer) = (server.client(), server.client());
    reader.log_in(Mechanism::Sha256, "app", "reader", "a");
    writer.log_in(Mechanism::Sha256, "app", "writer", "a");
    reader.ok("app", r#"{"explain": {"find": "c"}}"#);
    assert_eq!(reader.code("other", r#"{"explain": {"find": "c"}}"#), 13);
    let bulk = |namespace: &str| {
        format!(
            r#"{{"bulkWrite": 1, "ops": [{{"insert": 0, "document": {{}}}}], "nsInfo": [{{"ns": "{namespace}"}}]}}"#
        )
    };
    assert_eq!(reader.code("admin", &bulk("app.c")), 13);
    assert_eq!(writer.code("admin", &bulk("other.c")), 13);
    assert_eq!(writer.code("admin", &bulk("admin.system.users")), 13);
    writer.ok("admin", &bulk("app.c"));
    assert_eq!(reader.code("app", r#"{"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}}"#), 13);
    assert_eq!(reader.code("admin", r#"{"renameCollection": "app.c", "to": "app.d"}"#), 13);
    assert_eq!(writer.code("admin", r#"{"renameCollection": "app.c", "to": "other.d"}"#), 13);
    writer.ok("admin", r#"{"renameCollection": "app.c", "to": "app.d"}"#);
}
