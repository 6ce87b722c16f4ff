//! Cursors: those of other users, and those of users whose rights were taken.

use crate::client::{cursor, number};
use crate::roles::ROLES;
use crate::world::{World, is_refused};

/// A cursor belongs to the user who opened it, whatever others may do.
#[test]
fn a_cursor_of_another_user_gives_nothing() {
    let mut world = World::new();
    for role in ROLES {
        let found = world.root.ok("app", r#"{"find": "secret", "batchSize": 1}"#);
        let id = cursor(&found);
        let more = format!(r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "secret"}}"#);
        let (reply, wrong) = world.run(*role, "app", &more);
        assert!(is_refused(&reply) && wrong.is_empty(), "{role:?}: {reply:?} {wrong:?}");
        let kill = format!(r#"{{"killCursors": "secret", "cursors": [{{"$numberLong": "{id}"}}]}}"#);
        let (reply, _) = world.run(*role, "app", &kill);
        let may = world.granted(*role).allow("killAnyCursor", (None, None, true));
        assert_eq!(is_refused(&reply), !may, "{role:?}: {reply:?}");
        let left = world.root.json("app", &more);
        assert_eq!(number(&left, "ok"), i64::from(!may), "{role:?}: {left:?}");
    }
}

/// A cursor went on after its user's right was taken, for as long as it was used: a stream for ever. Each batch needs
/// what the command needed that opened the cursor.
#[test]
fn a_cursor_ends_with_the_right_of_its_user() {
    let mut world = World::new();
    let commands = [
        r#"{"find": "secret", "batchSize": 1}"#,
        r#"{"aggregate": "open", "pipeline": [{"$unionWith": "secret"}], "cursor": {"batchSize": 1}}"#,
        r#"{"aggregate": "secret", "pipeline": [{"$changeStream": {}}], "cursor": {}}"#,
        r#"{"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}}"#,
        r#"{"listCollections": 1, "cursor": {"batchSize": 1}}"#,
        r#"{"listIndexes": "open", "cursor": {"batchSize": 0}}"#,
    ];
    for command in commands {
        let user = r#"{"createUser": "left", "pwd": "p", "roles": ["one", "read"]}"#;
        world.root.ok("app", user);
        let mut client = world.connect("app", "left");
        let opened = client.ok("app", command);
        let reply = opened.view().get("cursor").unwrap().as_document().unwrap();
        let name = reply.get("ns").unwrap().as_str().unwrap().split_once('.').unwrap().1.to_owned();
        let more = format!(
            r#"{{"getMore": {{"$numberLong": "{}"}}, "collection": "{name}", "batchSize": 1{}}}"#,
            cursor(&opened),
            if command.contains("$changeStream") { r#", "maxTimeMS": 50"# } else { "" },
        );
        client.ok("app", &more);
        world.root.ok("app", r#"{"revokeRolesFromUser": "left", "roles": ["read"]}"#);
        assert_eq!(client.code("app", &more), 13, "{command}");
        client.ok("app", r#"{"find": "open"}"#);
        world.root.ok("app", r#"{"dropUser": "left"}"#);
    }
}
