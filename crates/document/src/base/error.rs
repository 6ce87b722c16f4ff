//! The error of this crate: a code of MongoDB, a message, and the parts that a reply may carry with them.

use std::fmt;
use std::sync::Arc;

use spinney::ErrorKind;

use super::codes::ErrorCode;

/// The result of an operation on documents.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in the terms that drivers and tools of MongoDB act on.
#[derive(Clone, Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    code: ErrorCode,
    message: String,
    details: Details,
    source: Option<Arc<spinney::Error>>,
}

/// The optional parts of an error, each the bytes of a BSON document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Details {
    /// `errInfo`: why a document failed validation, for code 121.
    pub err_info: Option<Vec<u8>>,
    /// `keyPattern`: the fields of the index whose constraint was violated, for code 11000.
    pub key_pattern: Option<Vec<u8>>,
    /// `keyValue`: the values that were there already, for code 11000.
    pub key_value: Option<Vec<u8>>,
    /// `errorLabels`: what a driver may do about it, such as `TransientTransactionError`.
    pub labels: Vec<&'static str>,
}

/// The label of an error after which a whole transaction should be run again.
pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";

/// The label of a commit of which it is not known whether it was done, so that it should be sent again.
pub const UNKNOWN_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";

/// The label of a write that should be sent again, with the same number.
pub const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";

impl Error {
    /// An error with a code and a message that names the caller's field or value.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { inner: Box::new(Inner { code, message: message.into(), details: Details::default(), source: None }) }
    }

    /// `BadValue` (2) with a message.
    #[must_use]
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BAD_VALUE, message)
    }

    /// `TransactionTooLarge` (257), in words that name the option of the library and of the server.
    #[must_use]
    pub fn too_large(what: &str) -> Self {
        let what = format!("{what} (memory_bytes is the option --memory of a server)");
        Self::new(ErrorCode::TRANSACTION_TOO_LARGE, what)
    }

    /// The same error with an `errInfo` document.
    #[must_use]
    pub fn with_err_info(mut self, document: impl Into<Vec<u8>>) -> Self {
        self.inner.details.err_info = Some(document.into());
        self
    }

    /// The same error with a `keyPattern` and a `keyValue` document.
    #[must_use]
    pub fn with_key(mut self, pattern: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.inner.details.key_pattern = Some(pattern.into());
        self.inner.details.key_value = Some(value.into());
        self
    }

    /// The same error with a label.
    #[must_use]
    pub fn with_label(mut self, label: &'static str) -> Self {
        if !self.inner.details.labels.contains(&label) {
            self.inner.details.labels.push(label);
        }
        self
    }

    /// Whether the error has a label.
    #[must_use]
    pub fn has_label(&self, label: &str) -> bool {
        self.inner.details.labels.contains(&label)
    }

    /// The same error with `prefix` before its message, as errors of one statement of a batch are shown.
    #[must_use]
    pub fn prefixed(mut self, prefix: &str) -> Self {
        self.inner.message.insert_str(0, prefix);
        self
    }

    /// MongoDB's code, such as 11000.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.inner.code
    }

    /// Whether a transaction failed because another one committed a change first, so that it should be tried again.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.inner.code == ErrorCode::WRITE_CONFLICT
    }

    /// MongoDB's name of the code, such as `DuplicateKey`; `Location31253` for a code without a name.
    #[must_use]
    pub fn code_name(&self) -> String {
        self.inner.code.name()
    }

    /// The message, `errmsg` of a reply.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The documents that a reply carries beside the message.
    #[must_use]
    pub fn details(&self) -> &Details {
        &self.inner.details
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.inner.code.name(), self.inner.code.number(), self.inner.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_deref().map(|error| error as _)
    }
}

impl From<spinney::Error> for Error {
    /// An error of the engine, with the code of MongoDB that says the same.
    fn from(error: spinney::Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Conflict | ErrorKind::Deadlock => ErrorCode::WRITE_CONFLICT,
            ErrorKind::Timeout => ErrorCode::LOCK_TIMEOUT,
            ErrorKind::Full => ErrorCode::OUT_OF_DISK_SPACE,
            ErrorKind::TooLarge => return Self::too_large(&error.to_string()),
            ErrorKind::Corruption => ErrorCode::DATA_CORRUPTION_DETECTED,
            ErrorKind::Closed => ErrorCode::SHUTDOWN_IN_PROGRESS,
            // After a failed write or sync nothing is written any more until the database is opened again.
            ErrorKind::Io | ErrorKind::Poisoned => ErrorCode::FILE_STREAM_FAILED,
            ErrorKind::Unsupported => ErrorCode::NOT_IMPLEMENTED,
            ErrorKind::Dropped => {
                let what = "the collection or an index of it was dropped while the operation was under way";
                return Self::new(ErrorCode::QUERY_PLAN_KILLED, what);
            }
            _ => ErrorCode::INTERNAL_ERROR,
        };
        let mut converted = Self::new(code, error.to_string());
        converted.inner.source = Some(Arc::new(error));
        converted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_name_code_and_message() {
        let error = Error::new(ErrorCode::DUPLICATE_KEY, "E11000 duplicate key error").with_key([1], [2]);
        assert_eq!(error.to_string(), "DuplicateKey (11000): E11000 duplicate key error");
        assert_eq!(error.details().key_value.as_deref(), Some(&[2][..]));
        assert_eq!(Error::new(ErrorCode::new(31253), "x").code_name(), "Location31253");
    }

    /// A transaction above its limit of memory was answered as if the disk were full, and drivers of users looked
    /// there.
    #[test]
    fn too_large_is_no_full_disk() {
        let error = Error::from(spinney::Error::new(ErrorKind::TooLarge, "larger than memory_bytes allows"));
        assert_eq!(error.code(), ErrorCode::TRANSACTION_TOO_LARGE);
        assert!(error.message().contains("--memory"), "{error}");
        let error = Error::from(spinney::Error::new(ErrorKind::Full, "no space for another segment"));
        assert_eq!(error.code(), ErrorCode::OUT_OF_DISK_SPACE);
    }

    /// A command beside a drop was answered with `InternalError` and the name of a table of the engine.
    #[test]
    fn a_drop_under_a_command_is_told_in_the_words_of_the_caller() {
        let error = Error::from(spinney::Error::new(ErrorKind::Dropped, "table 'c-5' was dropped"));
        assert_eq!(error.code(), ErrorCode::QUERY_PLAN_KILLED);
        assert!(!error.message().contains("c-5"), "{error}");
    }
}
