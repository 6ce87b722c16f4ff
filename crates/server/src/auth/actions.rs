//! The actions that privileges name, by what they are about.

/// Reading the collections of a database.
pub(super) const READ: &[&str] = &[
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

/// Writing them.
pub(super) const WRITE: &[&str] = &[
    "convertToCapped",
    "createCollection",
    "createIndex",
    "createSearchIndexes",
    "dropCollection",
    "dropIndex",
    "dropSearchIndex",
    "insert",
    "remove",
    "renameCollectionSameDB",
    "update",
    "updateSearchIndex",
];

/// Administering a database.
pub(super) const ADMINISTER: &[&str] = &[
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
    "querySettings",
    "reIndex",
    "renameCollectionSameDB",
    "storageDetails",
    "validate",
];

/// Administering users and roles.
pub(super) const MANAGE_USERS: &[&str] = &[
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

/// Watching the server.
pub(super) const MONITOR: &[&str] = &[
    "checkFreeMonitoringStatus",
    "connPoolStats",
    "getClusterParameter",
    "getCmdLineOpts",
    "getDefaultRWConcern",
    "getLog",
    "getParameter",
    "hostInfo",
    "inprog",
    "listDatabases",
    "listSessions",
    "netstat",
    "queryStatsRead",
    "replSetGetConfig",
    "replSetGetStatus",
    "serverStatus",
    "top",
];

/// Managing the process.
pub(super) const MANAGE_HOST: &[&str] = &[
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
    "setClusterParameter",
    "setParameter",
    "shutdown",
    "touch",
    "unlock",
];

/// Managing the replica set.
pub(super) const MANAGE_CLUSTER: &[&str] = &[
    "appendOplogNote",
    "applicationMessage",
    "getDefaultRWConcern",
    "listSessions",
    "querySettings",
    "replSetConfigure",
    "replSetGetConfig",
    "replSetGetStatus",
    "replSetStateChange",
    "resync",
    "setDefaultRWConcern",
    "setFeatureCompatibilityVersion",
];

/// Actions that no built-in role has, or that are about what this server does not do: roles of dumps name them.
const OTHERS: &[&str] = &[
    "addShard",
    "anyAction",
    "bypassWriteBlockingMode",
    "changeOwnCustomData",
    "changeOwnPassword",
    "cleanupOrphaned",
    "cpuProfiler",
    "emptycapped",
    "enableSharding",
    "getDatabaseVersion",
    "getShardMap",
    "getShardVersion",
    "impersonate",
    "internal",
    "listShards",
    "moveChunk",
    "refineCollectionShardKey",
    "removeShard",
    "reshardCollection",
    "setFreeMonitoring",
    "setUserWriteBlockMode",
    "shardingState",
    "splitChunk",
    "splitVector",
    "useUUID",
    "viewRole",
    "viewUser",
];

/// Whether there is an action with a name.
#[must_use]
pub fn is_known(action: &str) -> bool {
    [READ, WRITE, ADMINISTER, MANAGE_USERS, MONITOR, MANAGE_HOST, MANAGE_CLUSTER, OTHERS]
        .iter()
        .any(|group| group.contains(&action))
}
