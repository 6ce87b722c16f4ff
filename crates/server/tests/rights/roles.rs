//! The roles that the cases run with: built-in ones, and ones that allow a little.

/// A role: its database and name.
pub(crate) type Role = (&'static str, &'static str);

/// All roles. `nothing` has no privileges.
pub(crate) const ROLES: &[Role] = &[
    ("app", "nothing"),
    ("app", "one"),
    ("app", "viewer"),
    ("app", "watcher"),
    ("app", "updater"),
    ("app", "merger"),
    ("app", "renamer"),
    ("app", "read"),
    ("app", "readWrite"),
    ("app", "dbAdmin"),
    ("app", "userAdmin"),
    ("app", "dbOwner"),
    ("admin", "read"),
    ("admin", "readWrite"),
    ("admin", "dbAdmin"),
    ("admin", "readAnyDatabase"),
    ("admin", "readWriteAnyDatabase"),
    ("admin", "dbAdminAnyDatabase"),
    ("admin", "userAdminAnyDatabase"),
    ("admin", "clusterMonitor"),
    ("admin", "hostManager"),
    ("admin", "clusterManager"),
    ("admin", "clusterAdmin"),
    ("admin", "backup"),
    ("admin", "restore"),
    ("admin", "root"),
];

/// The roles of `app` that are made for the cases, and their privileges.
pub(crate) const OWN: &[(&str, &str)] = &[
    ("nothing", "[]"),
    ("one", r#"[{"resource": {"db": "app", "collection": "open"}, "actions": ["find"]}]"#),
    (
        "viewer",
        r#"[{"resource": {"db": "app", "collection": "made"}, "actions": ["find", "createCollection", "collMod"]},
            {"resource": {"db": "app", "collection": "shown"}, "actions": ["find", "collMod"]}]"#,
    ),
    ("watcher", r#"[{"resource": {"db": "app", "collection": "open"}, "actions": ["find", "changeStream"]}]"#),
    ("updater", r#"[{"resource": {"db": "app", "collection": "target"}, "actions": ["update"]}]"#),
    (
        "merger",
        r#"[{"resource": {"db": "app", "collection": "open"}, "actions": ["find"]},
            {"resource": {"db": "app", "collection": "target"}, "actions": ["insert"]}]"#,
    ),
    (
        "renamer",
        r#"[{"resource": {"db": "app", "collection": ""}, "actions": ["renameCollectionSameDB"]},
            {"resource": {"db": "app", "collection": "made"}, "actions": ["find"]}]"#,
    ),
];
