//! Refusals that MongoDB's manual asks for, written by hand, each with the page that says so. They do not know the
//! model of the other tests.

use crate::client::number;
use crate::roles::Role;
use crate::world::World;

/// A role, the database and the command that it may not run, and the page of the manual and its section.
type Refusal = (Role, &'static str, &'static str, &'static str);

const BUILT_IN: &str = "reference/built-in-roles";
const CREATE: &str = "reference/command/create: Access Control";
const COLL_MOD: &str = "reference/command/collMod: Access Control";
const VIEWS: &str = "core/views: Access Control";
const STREAMS: &str = "changeStreams: Access Control";
const LOOKUP: &str = "reference/operator/aggregation/lookup: find on the joined collection";
const UNION: &str = "reference/operator/aggregation/unionWith: find on the united collection";
const GRAPH: &str = "reference/operator/aggregation/graphLookup: find on the searched collection";
const OUT: &str = "reference/operator/aggregation/out: Required Privileges";
const MERGE: &str = "reference/operator/aggregation/merge: Required Privileges";
const ACTIONS: &str = "reference/privilege-actions";
const RESOURCES: &str = "reference/resource-document";
const BULK: &str = "reference/command/bulkWrite: Access Control";
const USERS_INFO: &str = "reference/command/usersInfo: Required Access";
const ROLES_INFO: &str = "reference/command/rolesInfo: Required Access";
const RENAME: &str = "reference/command/renameCollection: Access";
const FIND_AND_MODIFY: &str = "reference/command/findAndModify: Access Control";
const SESSIONS: &str = "reference/operator/aggregation/listLocalSessions: Access";
const CURRENT: &str = "reference/operator/aggregation/currentOp: Access Control";
const CURRENT_COMMAND: &str = "reference/command/currentOp: Access Control";
const DATABASES: &str = "reference/command/listDatabases: Required Access";
const CATALOG: &str = "reference/command/listCollections: Required Access";
const BYPASS: &str = "reference/privilege-actions: bypassDocumentValidation";

const READ_APP: Role = ("app", "read");
const WRITE_APP: Role = ("app", "readWrite");
const ADMIN_APP: Role = ("app", "dbAdmin");
const USERS_APP: Role = ("app", "userAdmin");
const OWNER_APP: Role = ("app", "dbOwner");
const READ_ADMIN: Role = ("admin", "read");
const WRITE_ADMIN: Role = ("admin", "readWrite");
const READ_ANY: Role = ("admin", "readAnyDatabase");
const WRITE_ANY: Role = ("admin", "readWriteAnyDatabase");
const DB_ANY: Role = ("admin", "dbAdminAnyDatabase");
const MONITOR: Role = ("admin", "clusterMonitor");
const HOST: Role = ("admin", "hostManager");
const CLUSTER: Role = ("admin", "clusterAdmin");
const BACKUP: Role = ("admin", "backup");
const RESTORE: Role = ("admin", "restore");
const ONE: Role = ("app", "one");
const VIEWER: Role = ("app", "viewer");
const WATCHER: Role = ("app", "watcher");
const UPDATER: Role = ("app", "updater");
const MERGER: Role = ("app", "merger");
const NOTHING: Role = ("app", "nothing");

/// The refusals.
const REFUSALS: &[Refusal] = &[
    (READ_APP, "app", r#"{"insert": "open", "documents": [{}]}"#, BUILT_IN),
    (READ_APP, "other", r#"{"find": "secret"}"#, BUILT_IN),
    (READ_APP, "app", r#"{"create": "made"}"#, BUILT_IN),
    (READ_APP, "admin", r#"{"find": "system.users"}"#, BUILT_IN),
    (WRITE_APP, "app", r#"{"dropDatabase": 1}"#, BUILT_IN),
    (WRITE_APP, "app", r#"{"collMod": "open", "validationLevel": "off"}"#, BUILT_IN),
    (WRITE_APP, "app", r#"{"profile": 2}"#, BUILT_IN),
    (WRITE_APP, "app", r#"{"createUser": "new", "pwd": "p", "roles": []}"#, BUILT_IN),
    (WRITE_APP, "admin", r#"{"shutdown": 1}"#, BUILT_IN),
    (ADMIN_APP, "app", r#"{"find": "open"}"#, BUILT_IN),
    (ADMIN_APP, "app", r#"{"delete": "open", "deletes": [{"q": {}, "limit": 0}]}"#, BUILT_IN),
    (USERS_APP, "app", r#"{"find": "open"}"#, BUILT_IN),
    (USERS_APP, "admin", r#"{"createUser": "new", "pwd": "p", "roles": []}"#, BUILT_IN),
    (OWNER_APP, "app", r#"{"createUser": "new", "pwd": "p", "roles": [{"role": "root", "db": "admin"}]}"#, BUILT_IN),
    (OWNER_APP, "other", r#"{"dropDatabase": 1}"#, BUILT_IN),
    (READ_ADMIN, "app", r#"{"find": "open"}"#, BUILT_IN),
    (READ_ADMIN, "admin", r#"{"find": "system.users"}"#, RESOURCES),
    (WRITE_ADMIN, "admin", r#"{"find": "system.users"}"#, RESOURCES),
    (
        WRITE_ADMIN,
        "admin",
        r#"{"update": "system.users", "updates": [{"q": {}, "u": {"$set": {"roles": []}}}]}"#,
        RESOURCES,
    ),
    (WRITE_ANY, "admin", r#"{"find": "system.users"}"#, RESOURCES),
    (READ_ANY, "app", r#"{"insert": "open", "documents": [{}]}"#, BUILT_IN),
    (DB_ANY, "other", r#"{"find": "secret"}"#, BUILT_IN),
    (MONITOR, "app", r#"{"find": "open"}"#, BUILT_IN),
    (MONITOR, "admin", r#"{"setParameter": 1, "ttlMonitorEnabled": true}"#, BUILT_IN),
    (HOST, "app", r#"{"find": "open"}"#, BUILT_IN),
    (CLUSTER, "admin", r#"{"find": "system.users"}"#, BUILT_IN),
    (BACKUP, "app", r#"{"insert": "open", "documents": [{}]}"#, BUILT_IN),
    (RESTORE, "app", r#"{"find": "open"}"#, BUILT_IN),
    (ONE, "app", r#"{"find": "secret"}"#, RESOURCES),
    (NOTHING, "app", r#"{"count": "open"}"#, ACTIONS),
    (WRITE_ADMIN, "admin", r#"{"create": "made", "viewOn": "system.users", "pipeline": []}"#, CREATE),
    (VIEWER, "app", r#"{"create": "made", "viewOn": "secret", "pipeline": []}"#, CREATE),
    (VIEWER, "app", r#"{"create": "made", "viewOn": "shown", "pipeline": [{"$unionWith": "secret"}]}"#, VIEWS),
    (VIEWER, "app", r#"{"collMod": "shown", "viewOn": "secret", "pipeline": []}"#, COLL_MOD),
    (VIEWER, "app", r#"{"find": "secret"}"#, VIEWS),
    (
        READ_ADMIN,
        "admin",
        r#"{"aggregate": 1, "pipeline": [{"$changeStream": {"allChangesForCluster": true}}], "cursor": {}}"#,
        STREAMS,
    ),
    (READ_APP, "other", r#"{"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}}"#, STREAMS),
    (ONE, "app", r#"{"aggregate": "open", "pipeline": [{"$changeStream": {}}], "cursor": {}}"#, STREAMS),
    (WATCHER, "app", r#"{"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}}"#, STREAMS),
    (WATCHER, "app", r#"{"aggregate": "secret", "pipeline": [{"$changeStream": {}}], "cursor": {}}"#, STREAMS),
    (
        ONE,
        "app",
        r#"{"aggregate": "open", "pipeline": [{"$lookup": {"from": "secret", "pipeline": [], "as": "x"}}], "cursor": {}}"#,
        LOOKUP,
    ),
    (
        READ_APP,
        "app",
        r#"{"aggregate": "open", "cursor": {},
            "pipeline": [{"$lookup": {"from": {"db": "other", "coll": "secret"}, "pipeline": [], "as": "x"}}]}"#,
        LOOKUP,
    ),
    (ONE, "app", r#"{"aggregate": "open", "pipeline": [{"$unionWith": "secret"}], "cursor": {}}"#, UNION),
    (ONE, "app", r#"{"explain": {"aggregate": "open", "pipeline": [{"$unionWith": "secret"}], "cursor": {}}}"#, UNION),
    (
        ONE,
        "app",
        r#"{"aggregate": "open", "cursor": {}, "pipeline": [{"$graphLookup": {
            "from": "secret", "startWith": "$n", "connectFromField": "n", "connectToField": "n", "as": "x"}}]}"#,
        GRAPH,
    ),
    (READ_APP, "app", r#"{"aggregate": "open", "pipeline": [{"$out": "made"}], "cursor": {}}"#, OUT),
    (MERGER, "app", r#"{"aggregate": "open", "pipeline": [{"$out": "target"}], "cursor": {}}"#, OUT),
    (MERGER, "app", r#"{"aggregate": "open", "pipeline": [{"$merge": "target"}], "cursor": {}}"#, MERGE),
    (
        WRITE_APP,
        "app",
        r#"{"aggregate": "open", "pipeline": [{"$merge": {"into": {"db": "other", "coll": "secret"}}}], "cursor": {}}"#,
        MERGE,
    ),
    (
        UPDATER,
        "app",
        r#"{"update": "target", "updates": [{"q": {"_id": 80}, "u": {"$set": {"z": 1}}, "upsert": true}]}"#,
        ACTIONS,
    ),
    (UPDATER, "app", r#"{"findAndModify": "target", "query": {}, "update": {"$set": {"z": 1}}}"#, FIND_AND_MODIFY),
    (
        UPDATER,
        "admin",
        r#"{"bulkWrite": 1, "nsInfo": [{"ns": "app.target"}],
            "ops": [{"update": 0, "filter": {"_id": 80}, "updateMods": {"$set": {"z": 1}}, "upsert": true}]}"#,
        BULK,
    ),
    (WRITE_APP, "app", r#"{"insert": "open", "documents": [{}], "bypassDocumentValidation": true}"#, BYPASS),
    (USERS_APP, "app", r#"{"usersInfo": {"user": "root", "db": "admin"}, "showCredentials": true}"#, USERS_INFO),
    (USERS_APP, "app", r#"{"usersInfo": {"forAllDBs": true}}"#, USERS_INFO),
    (USERS_APP, "app", r#"{"rolesInfo": {"role": "read", "db": "other"}}"#, ROLES_INFO),
    (WRITE_APP, "admin", r#"{"renameCollection": "app.open", "to": "other.made"}"#, RENAME),
    (READ_APP, "admin", r#"{"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": true}}], "cursor": {}}"#, CURRENT),
    (
        READ_APP,
        "app",
        r#"{"aggregate": 1, "pipeline": [{"$listLocalSessions": {"allUsers": true}}], "cursor": {}}"#,
        SESSIONS,
    ),
    (ONE, "app", r#"{"listCollections": 1}"#, CATALOG),
    (READ_APP, "admin", r#"{"listDatabases": 1, "authorizedDatabases": false}"#, DATABASES),
    (READ_APP, "app", r#"{"createIndexes": "open", "indexes": [{"key": {"m": 1}, "name": "m_1"}]}"#, BUILT_IN),
    (READ_APP, "app", r#"{"validate": "open"}"#, BUILT_IN),
    (ONE, "app", r#"{"dropIndexes": "open", "index": "n_1"}"#, BUILT_IN),
    (READ_APP, "admin", r#"{"serverStatus": 1}"#, BUILT_IN),
    (READ_APP, "admin", r#"{"getLog": "global"}"#, BUILT_IN),
    (READ_APP, "admin", r#"{"currentOp": 1}"#, CURRENT_COMMAND),
    (READ_APP, "admin", r#"{"killOp": 1, "op": 1}"#, ACTIONS),
    (WRITE_ANY, "admin", r#"{"killAllSessions": []}"#, ACTIONS),
    (OWNER_APP, "admin", r#"{"replSetStepDown": 1}"#, ACTIONS),
    (READ_APP, "app", r#"{"cloneCollectionAsCapped": "open", "toCollection": "made", "size": 4096}"#, ACTIONS),
    (USERS_APP, "admin", r#"{"updateUser": "root", "pwd": "q"}"#, ACTIONS),
    (USERS_APP, "app", r#"{"grantRolesToRole": "nothing", "roles": [{"role": "read", "db": "other"}]}"#, ACTIONS),
];

#[test]
fn what_the_manual_refuses_is_refused() {
    let mut world = World::new();
    let mut wrong = Vec::new();
    for (role, database, command, page) in REFUSALS {
        let (reply, seen) = world.run(*role, database, command);
        if number(&reply, "ok") != 0 || number(&reply, "code") != 13 {
            wrong.push(format!("{role:?}: {command} on {database} is not refused ({page}): {reply:?}"));
        }
        wrong.extend(seen.iter().map(|what| format!("{role:?}: {command} on {database}: {what}")));
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
