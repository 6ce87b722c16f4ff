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

#[test]
fn a_role_of_ones_own_gives_what_it_says_and_what_its_roles_give() {
    let server = server();
    let mut root = with_root(&server);
    root.ok("app", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    root.ok("app", r#"{"insert": "d", "documents": [{"_id": 1}]}"#);
    root.ok(
        "app",
        r#"{"createRole": "inner", "roles": [],
            "privileges": [{"resource": {"db": "app", "collection": "c"}, "actions": ["find"]}]}"#,
    );
    root.ok("app", r#"{"createRole": "outer", "roles": ["inner"], "privileges": []}"#);
    root.ok("app", r#"{"createUser": "ada", "pwd": "a", "roles": ["outer"]}"#);
    let mut ada = server.client();
    ada.log_in(Mechanism::Sha256, "app", "ada", "a");
    ada.ok("app", r#"{"find": "c"}"#);
    assert_eq!(ada.code("app", r#"{"find": "d"}"#), 13);
    assert_eq!(ada.code("app", r#"{"insert": "c", "documents": [{}]}"#), 13);
    // A change acts on the open connection.
    let insert = r#"[{"resource": {"db": "app", "collection": "c"}, "actions": ["insert"]}]"#;
    root.ok("app", &format!(r#"{{"grantPrivilegesToRole": "inner", "privileges": {insert}}}"#));
    ada.ok("app", r#"{"insert": "c", "documents": [{}]}"#);
    root.ok("app", &format!(r#"{{"revokePrivilegesFromRole": "inner", "privileges": {insert}}}"#));
    assert_eq!(ada.code("app", r#"{"insert": "c", "documents": [{}]}"#), 13);
    root.ok("app", r#"{"grantRolesToRole": "outer", "roles": ["readWrite"]}"#);
    ada.ok("app", r#"{"insert": "d", "documents": [{}]}"#);
    root.ok("app", r#"{"revokeRolesFromRole": "outer", "roles": ["readWrite"]}"#);
    assert_eq!(ada.code("app", r#"{"find": "d"}"#), 13);
    let info = root.ok("app", r#"{"rolesInfo": "outer", "showPrivileges": true}"#).view().to_json();
    assert!(
        info.contains(
            r#""role":"outer","db":"app","privileges":[],"roles":[{"role":"inner","db":"app"}],"inheritedRoles":[{"role":"inner","db":"app"}],"inheritedPrivileges":[{"resource":{"db":"app","collection":"c"},"actions":["find"]}],"isBuiltin":false"#
        ),
        "{info}"
    );
    // Only a role that is stored has an id.
    assert!(
        root.ok("app", r#"{"rolesInfo": "outer"}"#).view().to_json().contains(r#""_id":"app.outer","role":"outer""#)
    );
    assert!(!root.ok("app", r#"{"rolesInfo": "read"}"#).view().to_json().contains(r#""_id""#));
    // As the part of a user who has the roles, without the roles themselves.
    let info = root.ok("app", r#"{"rolesInfo": ["outer"], "showPrivileges": "asUserFragment"}"#).view().to_json();
    let fragment = r#"{"userFragment":{"roles":[{"role":"outer","db":"app"}],"inheritedRoles":[{"role":"outer","db":"app"},{"role":"inner","db":"app"}],"inheritedPrivileges":[{"resource":{"db":"app","collection":"c"},"actions":["find"]}]}"#;
    assert!(info.starts_with(fragment), "{info}");
    let info = root.ok("app", r#"{"usersInfo": "ada", "showPrivileges": true}"#).view().to_json();
    assert!(info.contains(r#""inheritedRoles":[{"role":"outer","db":"app"},{"role":"inner","db":"app"}]"#), "{info}");
    root.ok("app", r#"{"updateRole": "outer", "roles": []}"#);
    assert_eq!(ada.code("app", r#"{"find": "c"}"#), 13);
    // Users lose a role that is dropped.
    root.ok("app", r#"{"dropRole": "outer"}"#);
    let info = root.ok("app", r#"{"usersInfo": "ada"}"#).view().to_json();
    assert!(info.contains(r#""roles":[]"#), "{info}");
    assert_eq!(number(&root.ok("app", r#"{"dropAllRolesFromDatabase": 1}"#), "n"), 1);
    assert!(root.ok("app", r#"{"rolesInfo": 1}"#).view().to_json().contains(r#""roles":[]"#));
}

#[test]
fn roles_that_make_no_sense_are_refused() {
    let server = server();
    let mut root = with_root(&server);
    let create = |name: &str, roles: &str, resource: &str| {
        let privileges = format!(r#"[{{"resource": {resource}, "actions": ["find"]}}]"#);
        format!(r#"{{"createRole": "{name}", "roles": {roles}, "privileges": {privileges}}}"#)
    };
    let here = r#"{"db": "app", "collection": ""}"#;
    root.ok("app", &create("a", "[]", here));
    root.ok("app", &create("b", r#"["a"]"#, here));
    root.ok("app", &create("c", r#"["b"]"#, here));
    for (command, code) in [
        (create("a", "[]", here), 51002),
        (create("", "[]", here), 2),
        (create("read", "[]", here), 2),
        (create("x", r#"["nothing"]"#, here), 31),
        (create("x", r#"[{"role": "read", "db": "other"}]"#, here), 49),
        (create("x", "[]", r#"{"cluster": true}"#), 49),
        (create("x", "[]", r#"{"db": "other", "collection": ""}"#), 49),
        (create("x", "[]", r#"{"db": "app"}"#), 2),
        (r#"{"createRole": "x", "roles": []}"#.to_owned(), 40414),
        (r#"{"createUser": "x", "pwd": "a"}"#.to_owned(), 40414),
        // Circles, of one, two and three.
        (r#"{"grantRolesToRole": "a", "roles": ["a"]}"#.to_owned(), 49),
        (r#"{"grantRolesToRole": "a", "roles": ["b"]}"#.to_owned(), 49),
        (r#"{"updateRole": "a", "roles": ["c"]}"#.to_owned(), 49),
        (r#"{"updateRole": "a"}"#.to_owned(), 2),
        (r#"{"updateRole": "nothing", "roles": []}"#.to_owned(), 31),
        (r#"{"updateRole": "read", "roles": []}"#.to_owned(), 49),
        (r#"{"dropRole": "read"}"#.to_owned(), 49),
        (r#"{"dropRole": "nothing"}"#.to_owned(), 31),
        (r#"{"grantRolesToRole": "a", "roles": []}"#.to_owned(), 2),
        (r#"{"grantPrivilegesToRole": "a", "privileges": []}"#.to_owned(), 2),
    ] {
        assert_eq!(root.code("app", &command), code, "{command}");
    }
    // A role of admin reaches everything, and is only for those who may give what it gives.
    root.ok("admin", &create("all", r#"[{"role": "a", "db": "app"}]"#, r#"{"anyResource": true}"#));
    root.ok("app", r#"{"createUser": "owner", "pwd": "a", "roles": ["dbOwner"]}"#);
    let mut owner = server.client();
    owner.log_in(Mechanism::Sha256, "app", "owner", "a");
    owner.ok("app", &create("d", r#"["a"]"#, here));
    assert_eq!(owner.code("app", &create("e", r#"[{"role": "all", "db": "admin"}]"#, here)), 13);
    assert_eq!(owner.code("admin", &create("e", "[]", here)), 13);
}

#[test]
fn lists_show_what_a_user_may_see() {
    let server = server();
    let mut root = with_root(&server);
    for (database, collection) in [("app", "c"), ("app", "d"), ("other", "c")] {
        root.ok(database, &format!(r#"{{"insert": "{collection}", "documents": [{{}}]}}"#));
    }
    root.ok(
        "app",
        r#"{"createRole": "one", "roles": [],
            "privileges": [{"resource": {"db": "app", "collection": "c"}, "actions": ["find"]},
                           {"resource": {"db": "app", "collection": "none"}, "actions": ["find"]}]}"#,
    );
    root.ok("app", r#"{"createUser": "ada", "pwd": "a", "roles": ["one"]}"#);
    let mut ada = server.client();
    ada.log_in(Mechanism::Sha256, "app", "ada", "a");
    let names = |client: &mut Client<TcpStream>, command: &str| {
        let reply = client.ok("admin", command);
        let databases = reply.view().get("databases").unwrap().as_array().unwrap();
        databases.values().map(|database| database.as_document().unwrap().get("name").unwrap().to_string()).collect()
    };
    let all: Vec<String> = names(&mut root, r#"{"listDatabases": 1, "nameOnly": true}"#);
    assert_eq!(all, [r#""admin""#, r#""app""#, r#""config""#, r#""local""#, r#""other""#]);
    let own: Vec<String> = names(&mut ada, r#"{"listDatabases": 1}"#);
    assert_eq!(own, [r#""app""#]);
    let own: Vec<String> = names(&mut ada, r#"{"listDatabases": 1, "authorizedDatabases": true}"#);
    assert_eq!(own, [r#""app""#]);
    assert_eq!(ada.code("admin", r#"{"listDatabases": 1, "authorizedDatabases": false}"#), 13);
    assert_eq!(ada.code("app", r#"{"listCollections": 1, "nameOnly": true}"#), 13);
    assert_eq!(ada.code("app", r#"{"listCollections": 1, "authorizedCollections": true}"#), 13);
    let listed = ada.ok("app", r#"{"listCollections": 1, "nameOnly": true, "authorizedCollections": true}"#);
    assert_eq!(crate::client::batch(&listed), [r#"{"name":"c","type":"collection"}"#]);
    assert_eq!(crate::client::batch(&root.ok("app", r#"{"listCollections": 1, "nameOnly": true}"#)).len(), 2);
}

#[test]
fn users_may_look_at_themselves_and_refusals_are_noted() {
    let server = server();
    let mut root = with_root(&server);
    root.ok("app", r#"{"createUser": "ada", "pwd": "first", "roles": ["read"]}"#);
    let own = r#"[{"resource": {"db": "app", "collection": ""}, "actions": ["changeOwnPassword"]}]"#;
    root.ok("app", &format!(r#"{{"createRole": "own", "roles": [], "privileges": {own}}}"#));
    let mut ada = server.client();
    ada.log_in(Mechanism::Sha256, "app", "ada", "first");
    assert!(ada.ok("app", r#"{"usersInfo": "ada"}"#).view().to_json().contains(r#""user":"ada""#));
    assert_eq!(ada.code("app", r#"{"usersInfo": "ada", "showCredentials": true}"#), 13);
    assert_eq!(ada.code("app", r#"{"usersInfo": ["ada", {"user": "root", "db": "admin"}]}"#), 13);
    assert!(ada.ok("app", r#"{"rolesInfo": "read"}"#).view().to_json().contains(r#""isBuiltin":true"#));
    assert_eq!(ada.code("app", r#"{"rolesInfo": "readWrite"}"#), 13);
    ada.ok("admin", r#"{"currentOp": 1, "$ownOps": true}"#);
    assert_eq!(ada.code("admin", r#"{"currentOp": 1}"#), 13);
    assert_eq!(ada.code("app", r#"{"updateUser": "ada", "pwd": "second"}"#), 13);
    root.ok("app", r#"{"grantRolesToUser": "ada", "roles": ["own"]}"#);
    ada.ok("app", r#"{"updateUser": "ada", "pwd": "second"}"#);
    assert_eq!(ada.code("app", r#"{"updateUser": "ada", "roles": ["dbOwner"]}"#), 13);
    let log = server.log();
    assert!(
        log.contains(r#""event":"not authorized""#)
            && log.contains(r#""user":"app.ada","db":"app","command":"updateUser""#)
    );
    assert!(log.contains(r#""event":"user updated""#) && log.contains(r#""by":"app.ada""#), "{log}");
    assert!(!log.contains("first") && !log.contains("second"));
}

/// `mongorestore` puts the users and roles of a dump into collections of its own, and then runs this.
#[test]
fn users_and_roles_of_a_dump_are_taken_in() {
    let server = server();
    let mut root = with_root(&server);
    let role = r#"{"createRole": "clerk", "privileges": [], "roles": [{"role": "read", "db": "app"}]}"#;
    root.ok("app", role);
    root.ok("app", r#"{"createUser": "ada", "pwd": "pencil", "roles": ["clerk"]}"#);
    for kind in ["users", "roles"] {
        let copy =
            format!(r#"{{"aggregate": "system.{kind}", "pipeline": [{{"$out": "temp{kind}"}}], "cursor": {{}}}}"#);
        root.ok("admin", &copy);
    }
    root.ok("app", r#"{"dropUser": "ada"}"#);
    root.ok("app", r#"{"dropRole": "clerk"}"#);
    root.ok("app", r#"{"createUser": "eve", "pwd": "pencil", "roles": []}"#);
    root.ok("other", r#"{"createUser": "eve", "pwd": "pencil", "roles": []}"#);
    let merge = |more: &str| {
        let temporary = r#""tempUsersCollection": "admin.tempusers", "tempRolesCollection": "admin.temproles""#;
        format!(r#"{{"_mergeAuthzCollections": 1, {temporary}, {more}}}"#)
    };
    root.ok("admin", &merge(r#""db": "app", "drop": true"#));
    let mut ada = server.client();
    assert_eq!(number(&ada.log_in(Mechanism::Sha256, "app", "ada", "pencil"), "ok"), 1);
    ada.ok("app", r#"{"find": "c"}"#);
    assert_eq!(ada.code("admin", &merge(r#""db": """#)), 13);
    let users = root.ok("admin", r#"{"usersInfo": {"forAllDBs": true}}"#).view().to_json();
    let names = ["admin.root", "app.ada", "other.eve"];
    assert!(names.iter().all(|name| users.contains(&format!(r#""_id":"{name}""#))), "{users}");
    assert!(!users.contains(r#""_id":"app.eve""#), "{users}");
    root.ok("admin", &merge(r#""db": "", "drop": true"#));
    let users = root.ok("admin", r#"{"usersInfo": {"forAllDBs": true}}"#).view().to_json();
    assert!(!users.contains("eve"), "{users}");
    assert_eq!(root.code("admin", r#"{"_mergeAuthzCollections": 1, "db": "", "drop": true}"#), 2);
}
