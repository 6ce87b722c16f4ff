//! The built-in roles: which actions each allows on what.
//!
//! A role is a list of grants. A grant's scope says on what: the database of the role, all databases, the cluster, or
//! the collections in which users are kept. `system.` collections do not count as a database's, except `system.js`.

use super::user::RoleName;

/// On what a grant allows its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The database of the role and its collections.
    Database,
    /// All databases and their collections.
    AnyDatabase,
    /// The cluster.
    Cluster,
    /// `admin.system.users` and `admin.system.roles`.
    UserCollections,
    /// All collections, also those of the system.
    Everything,
}

/// Actions on something.
#[derive(Clone, Copy, Debug)]
struct Grant {
    actions: &'static [&'static str],
    scope: Scope,
}

/// A built-in role.
#[derive(Clone, Copy, Debug)]
struct Role {
    name: &'static str,
    /// Whether only the database `admin` has it.
    admin_only: bool,
    grants: &'static [Grant],
    /// Roles whose grants it has, on the same database.
    inherits: &'static [&'static str],
}

/// On what an action is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// The cluster.
    Cluster,
    /// A database; its collections in general.
    Database(&'a str),
    /// A collection of a database.
    Collection(&'a str, &'a str),
}

const READ: &[&str] = &[
    "changeStream",
    "collStats",
    "dbHash",
    "dbStats",
    "find",
    "killCursors",
    "listCollections",
    "listIndexes",
    "listSearchIndexes",
    "planCacheRead",
];

const WRITE: &[&str] = &[
    "analyze",
    "bypassDocumentValidation",
    "collMod",
    "convertToCapped",
    "createCollection",
    "createIndex",
    "createSearchIndexes",
    "dropCollection",
    "dropIndex",
    "emptycapped",
    "insert",
    "remove",
    "renameCollectionSameDB",
    "update",
];

const ADMINISTER: &[&str] = &[
    "analyze",
    "bypassDocumentValidation",
    "collMod",
    "collStats",
    "compact",
    "convertToCapped",
    "createCollection",
    "createIndex",
    "dbStats",
    "dropCollection",
    "dropDatabase",
    "dropIndex",
    "enableProfiler",
    "indexStats",
    "killCursors",
    "listCollections",
    "listIndexes",
    "planCacheIndexFilter",
    "planCacheRead",
    "planCacheWrite",
    "reIndex",
    "renameCollectionSameDB",
    "storageDetails",
    "validate",
];

const MANAGE_USERS: &[&str] = &[
    "changeCustomData",
    "changePassword",
    "createRole",
    "createUser",
    "dropRole",
    "dropUser",
    "grantRole",
    "revokeRole",
    "setAuthenticationRestriction",
    "viewRole",
    "viewUser",
];

const MONITOR: &[&str] = &[
    "checkFreeMonitoringStatus",
    "connPoolStats",
    "getCmdLineOpts",
    "getDefaultRWConcern",
    "getLog",
    "getParameter",
    "hostInfo",
    "inprog",
    "listDatabases",
    "listSessions",
    "netstat",
    "replSetGetConfig",
    "replSetGetStatus",
    "serverStatus",
    "top",
];

const MANAGE_HOST: &[&str] = &[
    "applicationMessage",
    "closeAllDatabases",
    "connPoolSync",
    "dropConnections",
    "flushRouterConfig",
    "fsync",
    "invalidateUserCache",
    "killAnyCursor",
    "killAnySession",
    "killop",
    "logRotate",
    "oidReset",
    "resync",
    "rotateCertificates",
    "setParameter",
    "shutdown",
    "touch",
    "unlock",
];

const MANAGE_CLUSTER: &[&str] = &[
    "appendOplogNote",
    "replSetConfigure",
    "replSetGetConfig",
    "replSetGetStatus",
    "replSetStateChange",
    "setDefaultRWConcern",
    "setFeatureCompatibilityVersion",
];

const LIST: &[&str] = &["listDatabases"];

const fn grant(actions: &'static [&'static str], scope: Scope) -> Grant {
    Grant { actions, scope }
}

const fn role(name: &'static str, grants: &'static [Grant], inherits: &'static [&'static str]) -> Role {
    Role { name, admin_only: false, grants, inherits }
}

const fn admin_role(name: &'static str, grants: &'static [Grant], inherits: &'static [&'static str]) -> Role {
    Role { name, admin_only: true, grants, inherits }
}

/// The roles. A role that others have the grants of stands before them.
const ROLES: [Role; 16] = [
    role("read", &[grant(READ, Scope::Database)], &[]),
    role("readWrite", &[grant(WRITE, Scope::Database)], &["read"]),
    role("dbAdmin", &[grant(ADMINISTER, Scope::Database)], &[]),
    role("userAdmin", &[grant(MANAGE_USERS, Scope::Database)], &[]),
    role("dbOwner", &[], &["readWrite", "dbAdmin", "userAdmin"]),
    role("enableSharding", &[], &[]),
    admin_role("readAnyDatabase", &[grant(READ, Scope::AnyDatabase), grant(LIST, Scope::Cluster)], &[]),
    admin_role("readWriteAnyDatabase", &[grant(WRITE, Scope::AnyDatabase)], &["readAnyDatabase"]),
    admin_role("dbAdminAnyDatabase", &[grant(ADMINISTER, Scope::AnyDatabase), grant(LIST, Scope::Cluster)], &[]),
    admin_role(
        "userAdminAnyDatabase",
        &[
            grant(MANAGE_USERS, Scope::AnyDatabase),
            grant(READ, Scope::UserCollections),
            grant(&["listDatabases", "invalidateUserCache"], Scope::Cluster),
        ],
        &[],
    ),
    admin_role(
        "clusterMonitor",
        &[
            grant(MONITOR, Scope::Cluster),
            grant(&["collStats", "dbStats", "getDatabaseVersion", "indexStats", "useUUID"], Scope::AnyDatabase),
        ],
        &[],
    ),
    admin_role("hostManager", &[grant(MANAGE_HOST, Scope::Cluster), grant(&["killCursors"], Scope::AnyDatabase)], &[]),
    admin_role("clusterManager", &[grant(MANAGE_CLUSTER, Scope::Cluster)], &[]),
    admin_role(
        "clusterAdmin",
        &[grant(&["dropDatabase"], Scope::AnyDatabase), grant(LIST, Scope::Cluster)],
        &["clusterMonitor", "hostManager", "clusterManager"],
    ),
    admin_role(
        "backup",
        &[
            grant(READ, Scope::Everything),
            grant(&["appendOplogNote", "getParameter", "listDatabases", "serverStatus"], Scope::Cluster),
        ],
        &[],
    ),
    admin_role(
        "restore",
        &[
            grant(WRITE, Scope::Everything),
            grant(&["dropDatabase", "listCollections", "listIndexes"], Scope::AnyDatabase),
            grant(MANAGE_USERS, Scope::AnyDatabase),
            grant(&["find"], Scope::UserCollections),
            grant(&["getParameter", "listDatabases"], Scope::Cluster),
        ],
        &[],
    ),
];

/// What `root` has the grants of.
const ROOT: [&str; 6] =
    ["readWriteAnyDatabase", "dbAdminAnyDatabase", "userAdminAnyDatabase", "clusterAdmin", "backup", "restore"];

/// The names of the built-in roles of a database.
pub fn names(database: &str) -> impl Iterator<Item = &'static str> {
    let admin = database == "admin";
    let roles = ROLES.iter().filter(move |role| admin || !role.admin_only).map(|role| role.name);
    roles.chain(admin.then_some("root"))
}

/// The roles whose grants a built-in role has, if there is such a role.
#[must_use]
pub fn inherited(name: &str) -> Option<&'static [&'static str]> {
    if name == "root" {
        return Some(&ROOT);
    }
    ROLES.iter().find(|role| role.name == name).map(|role| role.inherits)
}

/// Whether there is a built-in role.
#[must_use]
pub fn is_built_in(role: &RoleName) -> bool {
    names(&role.database).any(|name| name == role.role)
}

/// Whether one of the roles allows an action on something.
#[must_use]
pub fn allow(roles: &[RoleName], action: &str, target: Target<'_>) -> bool {
    roles.iter().any(|role| is_built_in(role) && allows(&role.role, &role.database, action, target))
}

fn allows(name: &str, database: &str, action: &str, target: Target<'_>) -> bool {
    let own = ROLES.iter().find(|role| role.name == name).map_or(&[][..], |role| role.grants);
    own.iter().any(|grant| grant.actions.contains(&action) && covers(grant.scope, database, target))
        || inherited(name).unwrap_or_default().iter().any(|other| allows(other, database, action, target))
}

fn covers(scope: Scope, of: &str, target: Target<'_>) -> bool {
    let plain = |collection: &str| !collection.starts_with("system.") || collection == "system.js";
    match (scope, target) {
        (Scope::Cluster, Target::Cluster) | (Scope::AnyDatabase | Scope::Everything, Target::Database(_)) => true,
        (Scope::Database, Target::Database(database)) => database == of,
        (Scope::Database, Target::Collection(database, collection)) => database == of && plain(collection),
        (Scope::AnyDatabase, Target::Collection(_, collection)) => plain(collection),
        (Scope::UserCollections, Target::Collection(database, collection)) => {
            database == "admin" && ["system.users", "system.roles"].contains(&collection)
        }
        (Scope::Everything, Target::Collection(..)) => true,
        _ => false,
    }
}

/// A privilege as `connectionStatus`, `usersInfo` and `rolesInfo` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The database; empty for all. Nothing for the cluster.
    pub database: Option<String>,
    /// The collection; empty for all.
    pub collection: &'static str,
    /// The actions, sorted.
    pub actions: Vec<&'static str>,
}

/// The privileges that roles give, one for each resource.
#[must_use]
pub fn privileges(roles: &[RoleName]) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    for role in roles.iter().filter(|role| is_built_in(role)) {
        collect(&role.role, &role.database, &mut shown);
    }
    for privilege in &mut shown {
        privilege.actions.sort_unstable();
        privilege.actions.dedup();
    }
    shown
}

fn collect(name: &str, database: &str, shown: &mut Vec<Shown>) {
    for grant in ROLES.iter().find(|role| role.name == name).map_or(&[][..], |role| role.grants) {
        let resources: &[(Option<&str>, &'static str)] = match grant.scope {
            Scope::Database => &[(Some(database), "")],
            Scope::AnyDatabase | Scope::Everything => &[(Some(""), "")],
            Scope::Cluster => &[(None, "")],
            Scope::UserCollections => &[(Some("admin"), "system.users"), (Some("admin"), "system.roles")],
        };
        for (database, collection) in resources {
            let same = |shown: &&mut Shown| shown.database.as_deref() == *database && shown.collection == *collection;
            match shown.iter_mut().find(same) {
                Some(shown) => shown.actions.extend(grant.actions),
                None => shown.push(Shown {
                    database: database.map(str::to_owned),
                    collection,
                    actions: grant.actions.to_vec(),
                }),
            }
        }
    }
    for other in inherited(name).unwrap_or_default() {
        collect(other, database, shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(names: &[(&str, &str)]) -> Vec<RoleName> {
        let role = |(role, database): &(&str, &str)| RoleName { role: (*role).into(), database: (*database).into() };
        names.iter().map(role).collect()
    }

    #[test]
    fn a_role_of_a_database_ends_there() {
        let read = roles(&[("read", "app")]);
        assert!(allow(&read, "find", Target::Collection("app", "c")));
        assert!(allow(&read, "listCollections", Target::Database("app")));
        for (action, target) in [
            ("insert", Target::Collection("app", "c")),
            ("find", Target::Collection("other", "c")),
            ("find", Target::Collection("app", "system.users")),
            ("listCollections", Target::Database("other")),
            ("listDatabases", Target::Cluster),
        ] {
            assert!(!allow(&read, action, target), "{action} {target:?}");
        }
        let write = roles(&[("readWrite", "app")]);
        assert!(allow(&write, "insert", Target::Collection("app", "c")));
        assert!(allow(&write, "find", Target::Collection("app", "c")));
        assert!(!allow(&write, "createUser", Target::Database("app")));
        assert!(!allow(&write, "dropDatabase", Target::Database("app")));
        assert!(allow(&roles(&[("dbOwner", "app")]), "dropDatabase", Target::Database("app")));
    }

    #[test]
    fn only_a_few_roles_see_the_credentials_of_users() {
        let users = Target::Collection("admin", "system.users");
        for name in names("admin") {
            let sees = ["userAdminAnyDatabase", "backup", "restore", "root"].contains(&name);
            assert_eq!(allow(&roles(&[(name, "admin")]), "find", users), sees, "{name}");
        }
    }

    #[test]
    fn root_has_what_every_other_role_has() {
        let root = roles(&[("root", "admin")]);
        for name in names("admin") {
            for shown in privileges(&roles(&[(name, "admin")])) {
                let target = match &shown.database {
                    None => Target::Cluster,
                    Some(_) if !shown.collection.is_empty() => Target::Collection("admin", shown.collection),
                    Some(database) => Target::Database(database),
                };
                assert!(shown.actions.iter().all(|action| allow(&root, action, target)), "{name}: {shown:?}");
            }
        }
        assert!(inherited("root").unwrap().iter().all(|name| inherited(name).is_some()));
    }

    #[test]
    fn roles_of_all_databases_are_of_admin_only() {
        let misplaced = roles(&[("root", "app"), ("readAnyDatabase", "app"), ("nothing", "admin")]);
        assert!(misplaced.iter().all(|role| !is_built_in(role)));
        assert!(!allow(&misplaced, "find", Target::Collection("app", "c")));
        assert!(is_built_in(&RoleName { role: "read".into(), database: "app".into() }));
    }
}
