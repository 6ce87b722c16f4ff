//! The table of MongoDB's error codes that this crate answers with, and their names.

use std::fmt;

/// A number that MongoDB's drivers and tools act on. Codes without a name of their own are shown as `Location<n>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(i32);

impl ErrorCode {
    /// The code with a number, for those that have no name.
    #[must_use]
    pub const fn new(number: i32) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Whether the server cannot do the command, or go on with it, because it ends or another member of the replica set
    /// is, or becomes, the primary: a driver sends it again, to the primary of then.
    #[must_use]
    pub const fn is_of_the_server(self) -> bool {
        matches!(
            self,
            Self::SHUTDOWN_IN_PROGRESS
                | Self::INTERRUPTED_AT_SHUTDOWN
                | Self::PRIMARY_STEPPED_DOWN
                | Self::EXCEEDED_TIME_LIMIT
                | Self::NOT_WRITABLE_PRIMARY
                | Self::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE
                | Self::NOT_PRIMARY_NO_SECONDARY_OK
                | Self::NOT_PRIMARY_OR_SECONDARY
        )
    }

    /// Whether a transaction that fails so may be begun again at once: nothing of it was done.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::WRITE_CONFLICT
                | Self::NO_SUCH_TRANSACTION
                | Self::LOCK_TIMEOUT
                | Self::SNAPSHOT_UNAVAILABLE
                | Self::SNAPSHOT_TOO_OLD
        )
    }

    /// Whether the whole operation was ended, by its limit of time or from outside: see
    /// [`Interrupt`](super::Interrupt).
    #[must_use]
    pub const fn is_interruption(self) -> bool {
        matches!(
            self,
            Self::MAX_TIME_MS_EXPIRED | Self::INTERRUPTED | Self::INTERRUPTED_AT_SHUTDOWN | Self::CLIENT_DISCONNECT
        )
    }
}

macro_rules! codes {
    ($($constant:ident = $number:literal $name:literal;)*) => {
        impl ErrorCode {
            $(#[doc = concat!("`", $name, "`, ", stringify!($number), ".")] pub const $constant: Self = Self($number);)*

            /// The name of the code as MongoDB writes it.
            #[must_use]
            pub fn name(self) -> String {
                match self.0 {
                    $($number => $name.to_owned(),)*
                    other => format!("Location{other}"),
                }
            }
        }
    };
}

codes! {
    INTERNAL_ERROR = 1 "InternalError";
    BAD_VALUE = 2 "BadValue";
    GRAPH_CONTAINS_CYCLE = 5 "GraphContainsCycle";
    UNKNOWN_ERROR = 8 "UnknownError";
    FAILED_TO_PARSE = 9 "FailedToParse";
    USER_NOT_FOUND = 11 "UserNotFound";
    UNSUPPORTED_FORMAT = 12 "UnsupportedFormat";
    UNAUTHORIZED = 13 "Unauthorized";
    TYPE_MISMATCH = 14 "TypeMismatch";
    OVERFLOW = 15 "Overflow";
    INVALID_LENGTH = 16 "InvalidLength";
    PROTOCOL_ERROR = 17 "ProtocolError";
    AUTHENTICATION_FAILED = 18 "AuthenticationFailed";
    ILLEGAL_OPERATION = 20 "IllegalOperation";
    INVALID_BSON = 22 "InvalidBSON";
    ALREADY_INITIALIZED = 23 "AlreadyInitialized";
    LOCK_TIMEOUT = 24 "LockTimeout";
    NAMESPACE_NOT_FOUND = 26 "NamespaceNotFound";
    INDEX_NOT_FOUND = 27 "IndexNotFound";
    PATH_NOT_VIABLE = 28 "PathNotViable";
    ROLE_NOT_FOUND = 31 "RoleNotFound";
    CANNOT_BACKFILL_ARRAY = 34 "CannotBackfillArray";
    FILE_STREAM_FAILED = 39 "FileStreamFailed";
    CONFLICTING_UPDATE_OPERATORS = 40 "ConflictingUpdateOperators";
    CURSOR_NOT_FOUND = 43 "CursorNotFound";
    NAMESPACE_EXISTS = 48 "NamespaceExists";
    INVALID_ROLE_MODIFICATION = 49 "InvalidRoleModification";
    MAX_TIME_MS_EXPIRED = 50 "MaxTimeMSExpired";
    DOLLAR_PREFIXED_FIELD_NAME = 52 "DollarPrefixedFieldName";
    INVALID_ID_FIELD = 53 "InvalidIdField";
    NOT_SINGLE_VALUE_FIELD = 54 "NotSingleValueField";
    EMPTY_FIELD_NAME = 56 "EmptyFieldName";
    DOTTED_FIELD_NAME = 57 "DottedFieldName";
    COMMAND_NOT_FOUND = 59 "CommandNotFound";
    SHARD_KEY_NOT_FOUND = 61 "ShardKeyNotFound";
    IMMUTABLE_FIELD = 66 "ImmutableField";
    CANNOT_CREATE_INDEX = 67 "CannotCreateIndex";
    INDEX_ALREADY_EXISTS = 68 "IndexAlreadyExists";
    INVALID_OPTIONS = 72 "InvalidOptions";
    INVALID_NAMESPACE = 73 "InvalidNamespace";
    INDEX_OPTIONS_CONFLICT = 85 "IndexOptionsConflict";
    INDEX_KEY_SPECS_CONFLICT = 86 "IndexKeySpecsConflict";
    SHUTDOWN_IN_PROGRESS = 91 "ShutdownInProgress";
    OPERATION_FAILED = 96 "OperationFailed";
    NOT_YET_INITIALIZED = 94 "NotYetInitialized";
    NOT_SECONDARY = 95 "NotSecondary";
    DOCUMENT_VALIDATION_FAILURE = 121 "DocumentValidationFailure";
    WRITE_CONFLICT = 112 "WriteConflict";
    COMMAND_NOT_SUPPORTED = 115 "CommandNotSupported";
    CAPPED_POSITION_LOST = 136 "CappedPositionLost";
    COMMAND_FAILED = 125 "CommandFailed";
    EXCEEDED_MEMORY_LIMIT = 146 "ExceededMemoryLimit";
    MAX_STALENESS_OUT_OF_RANGE = 160 "MaxStalenessOutOfRange";
    INCOMPATIBLE_COLLATION_VERSION = 161 "IncompatibleCollationVersion";
    OPTION_NOT_SUPPORTED_ON_VIEW = 167 "OptionNotSupportedOnView";
    COMMAND_NOT_SUPPORTED_ON_VIEW = 166 "CommandNotSupportedOnView";
    INVALID_PIPELINE_OPERATOR = 168 "InvalidPipelineOperator";
    CANNOT_INDEX_PARALLEL_ARRAYS = 171 "CannotIndexParallelArrays";
    INVALID_INDEX_SPECIFICATION_OPTION = 197 "InvalidIndexSpecificationOption";
    CANNOT_BUILD_INDEX_KEYS = 201 "CannotBuildIndexKeys";
    KEY_TOO_LONG = 17280 "KeyTooLong";
    TRANSACTION_TOO_OLD = 225 "TransactionTooOld";
    MAX_SUB_PIPELINE_DEPTH_EXCEEDED = 232 "MaxSubPipelineDepthExceeded";
    CURSOR_KILLED = 237 "CursorKilled";
    NOT_IMPLEMENTED = 238 "NotImplemented";
    NO_SUCH_TRANSACTION = 251 "NoSuchTransaction";
    TRANSACTION_TOO_LARGE = 257 "TransactionTooLarge";
    TRANSACTION_COMMITTED = 256 "TransactionCommitted";
    OPERATION_NOT_SUPPORTED_IN_TRANSACTION = 263 "OperationNotSupportedInTransaction";
    NO_QUERY_EXECUTION_PLANS = 291 "NoQueryExecutionPlans";
    QUERY_EXCEEDED_MEMORY_LIMIT = 292 "QueryExceededMemoryLimitNoDiskUseAllowed";
    SNAPSHOT_UNAVAILABLE = 246 "SnapshotUnavailable";
    CHANGE_STREAM_HISTORY_LOST = 286 "ChangeStreamHistoryLost";
    API_STRICT_ERROR = 323 "APIStrictError";
    DATA_CORRUPTION_DETECTED = 374 "DataCorruptionDetected";
    OUT_OF_DISK_SPACE = 14031 "OutOfDiskSpace";
    DATABASE_DIFFER_CASE = 13297 "DatabaseDifferCase";
    SEARCH_NOT_ENABLED = 31082 "SearchNotEnabled";
    BSON_OBJECT_TOO_LARGE = 10334 "BSONObjectTooLarge";
    DUPLICATE_KEY = 11000 "DuplicateKey";
    QUERY_REJECTED_BY_SETTINGS = 411 "QueryRejectedBySettings";
    CONVERSION_FAILURE = 241 "ConversionFailure";
    DIVIDE_BY_ZERO = 16608 "Location16608";
    NO_SUCH_KEY = 4 "NoSuchKey";
    INVALID_UUID = 207 "InvalidUUID";
    CLUSTER_TIME_FAILS_RATE_LIMITER = 209 "ClusterTimeFailsRateLimiter";
    TIME_PROOF_MISMATCH = 211 "TimeProofMismatch";
    API_VERSION_ERROR = 322 "APIVersionError";
    API_DEPRECATION_ERROR = 324 "APIDeprecationError";
    CLIENT_DISCONNECT = 279 "ClientDisconnect";
    INTERRUPTED = 11601 "Interrupted";
    INTERRUPTED_AT_SHUTDOWN = 11600 "InterruptedAtShutdown";
    CURSOR_IN_USE = 12051 "CursorInUse";
    UNKNOWN_REPL_WRITE_CONCERN = 79 "UnknownReplWriteConcern";
    UNSATISFIABLE_WRITE_CONCERN = 100 "UnsatisfiableWriteConcern";
    MECHANISM_UNAVAILABLE = 334 "MechanismUnavailable";
    CANNOT_CONVERT_INDEX_TO_UNIQUE = 359 "CannotConvertIndexToUnique";
    COLLECTION_UUID_MISMATCH = 361 "CollectionUUIDMismatch";
    NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE = 103 "NewReplicaSetConfigurationIncompatible";
    NODE_NOT_ELECTABLE = 104 "NodeNotElectable";
    INVALID_REPLICA_SET_CONFIG = 93 "InvalidReplicaSetConfig";
    NODE_NOT_FOUND = 74 "NodeNotFound";
    WRITE_CONCERN_FAILED = 64 "WriteConcernFailed";
    CONFIGURATION_IN_PROGRESS = 109 "ConfigurationInProgress";
    CLIENT_METADATA_DOCUMENT_TOO_LARGE = 185 "ClientMetadataDocumentTooLarge";
    CLIENT_METADATA_CANNOT_BE_MUTATED = 186 "ClientMetadataCannotBeMutated";
    FAIL_POINT_SET_FAILED = 266 "FailPointSetFailed";
    PRIMARY_STEPPED_DOWN = 189 "PrimarySteppedDown";
    EXCEEDED_TIME_LIMIT = 262 "ExceededTimeLimit";
    NOT_WRITABLE_PRIMARY = 10107 "NotWritablePrimary";
    INTERRUPTED_DUE_TO_REPL_STATE_CHANGE = 11602 "InterruptedDueToReplStateChange";
    NOT_PRIMARY_NO_SECONDARY_OK = 13435 "NotPrimaryNoSecondaryOk";
    NOT_PRIMARY_OR_SECONDARY = 13436 "NotPrimaryOrSecondary";
    NO_REPLICATION_ENABLED = 76 "NoReplicationEnabled";
    VIEW_DEPTH_LIMIT_EXCEEDED = 165 "ViewDepthLimitExceeded";
    AMBIGUOUS_INDEX_KEY_PATTERN = 181 "AmbiguousIndexKeyPattern";
    CONFLICTING_OPERATION_IN_PROGRESS = 117 "ConflictingOperationInProgress";
    SNAPSHOT_TOO_OLD = 239 "SnapshotTooOld";
    INVALID_RESUME_TOKEN = 260 "InvalidResumeToken";
    UNSATISFIABLE_COMMIT_QUORUM = 278 "UnsatisfiableCommitQuorum";
    CHANGE_STREAM_FATAL_ERROR = 280 "ChangeStreamFatalError";
    NO_MATCHING_DOCUMENT = 47 "NoMatchingDocument";
    QUERY_PLAN_KILLED = 175 "QueryPlanKilled";
    IDL_UNKNOWN_FIELD = 40415 "IDLUnknownField";
    IDL_FAILED_TO_PARSE = 40414 "IDLFailedToParse";
    IDL_DUPLICATE_FIELD = 40413 "IDLDuplicateField";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
