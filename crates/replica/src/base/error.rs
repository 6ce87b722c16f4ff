//! Errors of replication.

use std::fmt;

use spinney_document::ErrorCode;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// This node is not primary, or not yet writable; the address of the primary, if it is known. Nothing was written.
    NotPrimary(Option<String>),
    /// The primary changed while a write was waiting for the majority: it is unknown whether it is, or will be,
    /// applied.
    Interrupted,
    /// The deadline passed. A write may still be applied later.
    TimedOut,
    /// There is no configuration yet.
    NotInitiated,
    /// There is a configuration already.
    AlreadyInitiated,
    /// A configuration is not accepted, and why.
    InvalidConfig(String),
    /// Another change of the members goes on.
    ConfigInProgress,
    /// No member can take over: none that may become primary has caught up.
    NoSuccessor,
    /// A request of another member makes no sense.
    Malformed(&'static str),
    /// The node has ended or failed, and why.
    Ended(String),
    /// What the engine says.
    Engine(spinney::Error),
}

impl Error {
    /// MongoDB's code for it.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotPrimary(_) => ErrorCode::NOT_WRITABLE_PRIMARY,
            Self::Interrupted => ErrorCode::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
            Self::TimedOut | Self::NoSuccessor => ErrorCode::EXCEEDED_TIME_LIMIT,
            Self::NotInitiated => ErrorCode::NOT_YET_INITIALIZED,
            Self::AlreadyInitiated => ErrorCode::ALREADY_INITIALIZED,
            Self::InvalidConfig(_) => ErrorCode::INVALID_REPLICA_SET_CONFIG,
            Self::ConfigInProgress => ErrorCode::CONFIGURATION_IN_PROGRESS,
            Self::Malformed(_) => ErrorCode::PROTOCOL_ERROR,
            Self::Ended(_) => ErrorCode::INTERRUPTED_AT_SHUTDOWN,
            Self::Engine(_) => ErrorCode::INTERNAL_ERROR,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPrimary(Some(primary)) => write!(f, "not primary; the primary is {primary}"),
            Self::NotPrimary(None) => write!(f, "not primary, and no primary is known"),
            Self::Interrupted => write!(f, "operation was interrupted by a change of the primary"),
            Self::TimedOut => write!(f, "waiting for replication timed out"),
            Self::NotInitiated => write!(f, "no replica set config has been received"),
            Self::AlreadyInitiated => write!(f, "already initialized"),
            Self::InvalidConfig(why) => write!(f, "{why}"),
            Self::ConfigInProgress => write!(f, "another change of the replica set's members goes on"),
            Self::NoSuccessor => write!(f, "no electable secondaries caught up"),
            Self::Malformed(what) => write!(f, "a message of another member makes no sense: {what}"),
            Self::Ended(why) => write!(f, "replication has ended: {why}"),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Engine(error) => Some(error),
            _ => None,
        }
    }
}

impl From<spinney::Error> for Error {
    fn from(error: spinney::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Error> for spinney_document::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Engine(error) => error.into(),
            error => Self::new(error.code(), error.to_string()),
        }
    }
}
