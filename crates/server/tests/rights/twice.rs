//! Fields that are given twice, of which a check may see one and the command the other.

use crate::client::number;
use crate::roles::ROLES;
use crate::world::World;

/// A command, and a field of it, in the place of the `@`: what gives nothing away, and what does. Each is run with the
/// one before the other and behind it.
type Twice = (&'static str, &'static str, [&'static str; 2]);

/// Fields by which a stage says what it needs: that they are there twice is an error.
const OF_RIGHTS: &[Twice] = &[
    (
        "admin",
        r#"{"aggregate": 1, "pipeline": [{"$changeStream": {@}}], "cursor": {}}"#,
        [r#""allChangesForCluster": false"#, r#""allChangesForCluster": true"#],
    ),
    (
        "admin",
        r#"{"aggregate": 1, "pipeline": [{"$currentOp": {@}}], "cursor": {}}"#,
        [r#""allUsers": false"#, r#""allUsers": true"#],
    ),
    (
        "app",
        r#"{"aggregate": 1, "pipeline": [{"$listLocalSessions": {@}}], "cursor": {}}"#,
        [r#""allUsers": false"#, r#""allUsers": true"#],
    ),
];

/// Other fields: a command may take the first or the last, and needs what it takes.
const OTHERS: &[Twice] = &[
    (
        "app",
        r#"{"aggregate": "open", "pipeline": [{"$unionWith": {@}}], "cursor": {}}"#,
        [r#""coll": "open""#, r#""coll": "secret""#],
    ),
    (
        "app",
        r#"{"aggregate": "open", "pipeline": [{"$unionWith": {"coll": "open", @}}], "cursor": {}}"#,
        [r#""pipeline": []"#, r#""pipeline": [{"$unionWith": "secret"}]"#],
    ),
    (
        "app",
        r#"{"aggregate": "open", "pipeline": [{"$lookup": {"pipeline": [], "as": "x", @}}], "cursor": {}}"#,
        [r#""from": "open""#, r#""from": "secret""#],
    ),
    (
        "app",
        r#"{"aggregate": "open", "cursor": {}, "pipeline": [{"$lookup": {"as": "x", "pipeline": [],
            "from": {"db": "app", @}}}]}"#,
        [r#""coll": "open""#, r#""coll": "secret""#],
    ),
    (
        "app",
        r#"{"aggregate": "open", "cursor": {}, "pipeline": [{"$graphLookup": {"startWith": "$n",
            "connectFromField": "n", "connectToField": "n", "as": "x", @}}]}"#,
        [r#""from": "open""#, r#""from": "secret""#],
    ),
    (
        "app",
        r#"{"aggregate": "open", "pipeline": [{@}], "cursor": {}}"#,
        [r#""$match": {}"#, r#""$unionWith": "secret""#],
    ),
    (
        "app",
        r#"{"aggregate": "open", "pipeline": [{"$facet": {@}}], "cursor": {}}"#,
        [r#""f": []"#, r#""f": [{"$unionWith": "secret"}]"#],
    ),
    (
        "app",
        r#"{"aggregate": "open", "pipeline": [{"$merge": {@}}], "cursor": {}}"#,
        [r#""into": "open""#, r#""into": "secret""#],
    ),
    (
        "app",
        r#"{"aggregate": "open", "cursor": {}, @}"#,
        [r#""pipeline": []"#, r#""pipeline": [{"$unionWith": "secret"}]"#],
    ),
    ("app", r#"{"create": "made", "pipeline": [], @}"#, [r#""viewOn": "open""#, r#""viewOn": "secret""#]),
    (
        "app",
        r#"{"create": "made", "viewOn": "open", @}"#,
        [r#""pipeline": []"#, r#""pipeline": [{"$unionWith": "secret"}]"#],
    ),
    ("app", r#"{"collMod": "shown", "pipeline": [], @}"#, [r#""viewOn": "open""#, r#""viewOn": "secret""#]),
    ("app", r#"{@}"#, [r#""find": "open""#, r#""find": "secret""#]),
    ("app", r#"{"explain": {@}}"#, [r#""find": "open""#, r#""find": "secret""#]),
    (
        "app",
        r#"{"update": "target", "updates": [{"q": {"_id": 80}, "u": {"$set": {"z": 1}}, @}]}"#,
        [r#""upsert": false"#, r#""upsert": true"#],
    ),
    (
        "admin",
        r#"{"bulkWrite": 1, "nsInfo": [{@}], "ops": [{"insert": 0, "document": {"_id": 80}}]}"#,
        [r#""ns": "app.target""#, r#""ns": "app.secret""#],
    ),
    (
        "admin",
        r#"{"bulkWrite": 1, "nsInfo": [{"ns": "app.target"}, {"ns": "app.secret"}],
            "ops": [{@, "document": {"_id": 80}}]}"#,
        [r#""insert": 0"#, r#""insert": 1"#],
    ),
    ("app", r#"{"usersInfo": "u_app_read", @}"#, [r#""showCredentials": false"#, r#""showCredentials": true"#]),
    ("app", r#"{"usersInfo": {"user": "root", @}}"#, [r#""db": "app""#, r#""db": "admin""#]),
    ("admin", r#"{"renameCollection": "app.open", @}"#, [r#""to": "app.made""#, r#""to": "other.made""#]),
    ("admin", r#"{"listDatabases": 1, @}"#, [r#""authorizedDatabases": true"#, r#""authorizedDatabases": false"#]),
    ("admin", r#"{"currentOp": 1, @}"#, [r#""$ownOps": true"#, r#""$ownOps": false"#]),
];

/// `read` on `admin` opened a stream over all databases by `{allChangesForCluster: false, allChangesForCluster: true}`:
/// its rights were asked of the first, and the stream took the second.
#[test]
fn a_field_that_is_given_twice_gives_no_more_rights() {
    let mut world = World::new();
    let mut wrong = Vec::new();
    for (at, (database, command, [one, other])) in OF_RIGHTS.iter().chain(OTHERS).enumerate() {
        for both in [format!("{one}, {other}"), format!("{other}, {one}")] {
            let command = command.replace('@', &both);
            for role in ROLES {
                let (reply, seen) = world.run(*role, database, &command);
                let told = |what: &str| format!("{} of {}: {command} on {database}: {what}", role.1, role.0);
                if at < OF_RIGHTS.len() && number(&reply, "ok") == 1 {
                    wrong.push(told("is not refused"));
                }
                wrong.extend(seen.iter().map(|what| told(what)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
