//! The built-in roles: which actions each allows on what, and from which roles it inherits.

use super::actions::{ADMINISTER, MANAGE_CLUSTER, MANAGE_HOST, MANAGE_USERS, MONITOR, READ, WRITE};
use super::privilege::{Privileges, Resource};
use super::user::RoleName;

/// On what a grant allows its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The database of the role and its collections but those of the system.
    Database,
    /// A collection of the database of the role.
    DatabaseCollection(&'static str),
    /// All databases and their collections but those of the system.
    AnyDatabase,
    /// A collection of each database.
    AnyCollection(&'static str),
    /// A collection.
    Collection(&'static str, &'static str),
    /// The cluster.
    Cluster,
    /// Everything.
    Any,
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

const LIST: &[&str] = &["listDatabases"];

/// What administrators of a database may do with the collection of its profiler.
const PROFILED: &[&str] = &[
    "changeStream",
    "collStats",
    "convertToCapped",
    "createCollection",
    "dbHash",
    "dbStats",
    "dropCollection",
    "find",
    "killCursors",
    "listCollections",
    "listIndexes",
    "planCacheRead",
];

/// The collections in which users and roles are kept.
const USERS: Scope = Scope::Collection("admin", "system.users");
const ROLES_KEPT: Scope = Scope::Collection("admin", "system.roles");

/// The collection that tells in which form they are stored.
const VERSION: Scope = Scope::Collection("admin", "system.version");

const fn grant(actions: &'static [&'static str], scope: Scope) -> Grant {
    Grant { actions, scope }
}

const fn role(name: &'static str, grants: &'static [Grant], inherits: &'static [&'static str]) -> Role {
    Role { name, admin_only: false, grants, inherits }
}

const fn admin_role(name: &'static str, grants: &'static [Grant], inherits: &'static [&'static str]) -> Role {
    Role { name, admin_only: true, grants, inherits }
}

/// The roles.
const ROLES: [Role; 18] = [
    role("read", &[grant(READ, Scope::Database), grant(READ, Scope::DatabaseCollection("system.js"))], &[]),
    role(
        "readWrite",
        &[grant(WRITE, Scope::Database), grant(WRITE, Scope::DatabaseCollection("system.js"))],
        &["read"],
    ),
    role(
        "dbAdmin",
        &[grant(ADMINISTER, Scope::Database), grant(PROFILED, Scope::DatabaseCollection("system.profile"))],
        &[],
    ),
    role("userAdmin", &[grant(MANAGE_USERS, Scope::Database)], &[]),
    role("dbOwner", &[], &["readWrite", "dbAdmin", "userAdmin"]),
    role("enableSharding", &[], &[]),
    admin_role(
        "readAnyDatabase",
        &[grant(READ, Scope::AnyDatabase), grant(READ, Scope::AnyCollection("system.js")), grant(LIST, Scope::Cluster)],
        &[],
    ),
    admin_role(
        "readWriteAnyDatabase",
        &[grant(WRITE, Scope::AnyDatabase), grant(WRITE, Scope::AnyCollection("system.js"))],
        &["readAnyDatabase"],
    ),
    admin_role(
        "dbAdminAnyDatabase",
        &[
            grant(ADMINISTER, Scope::AnyDatabase),
            grant(PROFILED, Scope::AnyCollection("system.profile")),
            grant(LIST, Scope::Cluster),
        ],
        &[],
    ),
    admin_role(
        "userAdminAnyDatabase",
        &[
            grant(MANAGE_USERS, Scope::AnyDatabase),
            grant(READ, USERS),
            grant(READ, ROLES_KEPT),
            grant(READ, VERSION),
            grant(&["listDatabases", "invalidateUserCache"], Scope::Cluster),
        ],
        &[],
    ),
    admin_role(
        "clusterMonitor",
        &[
            grant(MONITOR, Scope::Cluster),
            grant(&["collStats", "dbStats", "getDatabaseVersion", "indexStats", "useUUID"], Scope::AnyDatabase),
            grant(&["find"], Scope::AnyCollection("system.profile")),
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
            grant(READ, Scope::Any),
            grant(&["appendOplogNote", "getParameter", "listDatabases", "serverStatus"], Scope::Cluster),
        ],
        &[],
    ),
    admin_role(
        "restore",
        &[
            grant(WRITE, Scope::Any),
            grant(
                &["bypassDocumentValidation", "collMod", "dropDatabase", "listCollections", "listIndexes"],
                Scope::AnyDatabase,
            ),
            grant(MANAGE_USERS, Scope::AnyDatabase),
            grant(&["find"], USERS),
            grant(&["find"], ROLES_KEPT),
            // Where mongorestore puts the users and roles of a dump.
            grant(&["find"], Scope::Collection("admin", "tempusers")),
            grant(&["find"], Scope::Collection("admin", "temproles")),
            grant(&["getParameter", "listDatabases", "serverStatus"], Scope::Cluster),
        ],
        &[],
    ),
    admin_role(
        "root",
        &[grant(&["validate"], Scope::AnyCollection("system.js"))],
        &["readWriteAnyDatabase", "dbAdminAnyDatabase", "userAdminAnyDatabase", "clusterAdmin", "backup", "restore"],
    ),
    // The members of a replica set have it.
    admin_role("__system", &[grant(&["internal"], Scope::Cluster)], &["root"]),
];

/// The names of the built-in roles of a database.
pub fn names(database: &str) -> impl Iterator<Item = &'static str> {
    let admin = database == "admin";
    ROLES.iter().filter(move |role| admin || !role.admin_only).map(|role| role.name)
}

fn find(name: &RoleName) -> Option<&'static Role> {
    ROLES.iter().find(|role| role.name == name.role && (!role.admin_only || name.database == "admin"))
}

/// Whether there is a built-in role.
#[must_use]
pub fn is_built_in(role: &RoleName) -> bool {
    find(role).is_some()
}

/// The roles whose grants a built-in role has, and the privileges of its own, if there is such a role.
#[must_use]
pub fn contents(name: &RoleName) -> Option<(Vec<RoleName>, Privileges)> {
    let role = find(name)?;
    let mut privileges = Privileges::default();
    for grant in role.grants {
        privileges.add(&resource(grant.scope, &name.database), grant.actions.iter().copied());
    }
    let inherits = role.inherits.iter();
    let roles = inherits.map(|role| RoleName { role: (*role).to_owned(), database: name.database.clone() });
    Some((roles.collect(), privileges))
}

fn resource(scope: Scope, database: &str) -> Resource {
    match scope {
        Scope::Database => Resource::collections(database, ""),
        Scope::DatabaseCollection(collection) => Resource::collections(database, collection),
        Scope::AnyDatabase => Resource::collections("", ""),
        Scope::AnyCollection(collection) => Resource::collections("", collection),
        Scope::Collection(database, collection) => Resource::collections(database, collection),
        Scope::Cluster => Resource::Cluster,
        Scope::Any => Resource::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::actions;
    use crate::auth::privilege::Target;

    fn grants(role: &str, database: &str) -> Privileges {
        let (mut all, mut left) =
            (Privileges::default(), vec![RoleName { role: role.into(), database: database.into() }]);
        while let Some(role) = left.pop() {
            let (roles, privileges) = contents(&role).unwrap_or_default();
            left.extend(roles);
            all.add_all(&privileges);
        }
        all
    }

    #[test]
    fn a_role_of_a_database_ends_there() {
        let read = grants("read", "app");
        assert!(read.allow("find", Target::Collection("app", "c")));
        assert!(read.allow("find", Target::Collection("app", "system.js")));
        assert!(read.allow("listCollections", Target::Database("app")));
        for (action, target) in [
            ("insert", Target::Collection("app", "c")),
            ("find", Target::Collection("other", "c")),
            ("find", Target::Collection("app", "system.users")),
            ("find", Target::Collection("app", "system.profile")),
            ("listCollections", Target::Database("other")),
            ("listDatabases", Target::Cluster),
        ] {
            assert!(!read.allow(action, target), "{action} {target:?}");
        }
        let write = grants("readWrite", "app");
        assert!(write.allow("insert", Target::Collection("app", "c")));
        assert!(write.allow("find", Target::Collection("app", "c")));
        for action in ["createUser", "dropDatabase", "collMod", "bypassDocumentValidation", "enableProfiler"] {
            assert!(!write.allow(action, Target::Database("app")), "{action}");
        }
        assert!(grants("dbOwner", "app").allow("dropDatabase", Target::Database("app")));
        assert!(grants("dbAdmin", "app").allow("find", Target::Collection("app", "system.profile")));
        assert!(!grants("dbAdmin", "app").allow("find", Target::Collection("app", "c")));
    }

    #[test]
    fn only_a_few_roles_see_the_credentials_of_users() {
        let users = Target::Collection("admin", "system.users");
        for name in names("admin") {
            let sees = ["userAdminAnyDatabase", "backup", "restore", "root", "__system"].contains(&name);
            assert_eq!(grants(name, "admin").allow("find", users), sees, "{name}");
        }
    }

    #[test]
    fn root_has_what_every_other_role_has_and_every_action_is_known() {
        let root = grants("root", "admin");
        for name in names("admin").filter(|name| *name != "__system") {
            for privilege in grants(name, "admin").iter() {
                let target = match &privilege.resource {
                    Resource::Cluster | Resource::Any => Target::Cluster,
                    Resource::Collections { collection, .. } if !collection.is_empty() => {
                        Target::Collection("admin", collection)
                    }
                    Resource::Collections { database, .. } => Target::Database(database),
                };
                assert!(privilege.actions.iter().all(|action| root.allow(action, target)), "{name}: {privilege:?}");
                assert!(privilege.actions.iter().all(|action| actions::is_known(action)), "{name}: {privilege:?}");
            }
            for inherited in ROLES.iter().find(|role| role.name == name).map_or(&[][..], |role| role.inherits) {
                assert!(names("admin").any(|name| name == *inherited), "{name}: {inherited}");
            }
        }
    }

    #[test]
    fn roles_of_all_databases_are_of_admin_only() {
        for (role, database) in [("root", "app"), ("readAnyDatabase", "app"), ("nothing", "admin")] {
            let name = RoleName { role: role.to_owned(), database: database.to_owned() };
            assert!(!is_built_in(&name) && contents(&name).is_none());
        }
        assert!(is_built_in(&RoleName { role: "read".into(), database: "app".into() }));
    }
}
