//! The one error type: a kind that says what the caller should do, a message, and the cause.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another transaction committed a change to the same key first: retry the transaction.
    Conflict,
    /// Two transactions would wait for each other's locks: roll this one back and retry it.
    Deadlock,
    /// A lock was not to be had in time: retry, or wait longer.
    Timeout,
    /// The disk is full: free space and try again.
    Full,
    /// The transaction or batch is larger than memory allows: commit in parts, or give the database more memory.
    TooLarge,
    /// The operating system refused: see the message.
    Io,
    /// Stored bytes are not what was written: run `verify`.
    Corruption,
    /// The call is wrong: fix it.
    Invalid,
    /// There is no database, table or directory of this name.
    NotFound,
    /// The table was dropped while this handle of it, or what was made with it, was in use.
    Dropped,
    /// There is one of this name already.
    AlreadyExists,
    /// This version cannot do that.
    Unsupported,
    /// The database was closed.
    Closed,
    /// A write or sync failed earlier: reopen the database.
    Poisoned,
    /// Another process (or handle) has the database open.
    Locked,
    /// What was asked for is not kept any more: begin again with what there is.
    Gone,
    /// The database was opened by the process that this one was forked from: open it after the fork.
    Forked,
}

/// An error of the engine. Opaque: look at [`Error::kind`] to decide, print it to tell.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    /// The file and the offset in it that a `Corruption` is about.
    place: Option<(PathBuf, u64)>,
    /// A read failed, or what was read is damaged: nothing was changed on disk by it.
    of_read: bool,
    /// What failed would have changed something, and was refused before it did.
    unchanged: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with a message that says what to do.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        // Damage is found by reading.
        let of_read = kind == ErrorKind::Corruption;
        let (message, source) = (message.into(), None);
        Self(Box::new(Inner { kind, message, place: None, of_read, unchanged: false, source }))
    }

    /// The call is wrong.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The table `name` was dropped.
    #[must_use]
    pub(crate) fn dropped(name: &str) -> Self {
        Self::new(ErrorKind::Dropped, format!("table '{name}' was dropped"))
    }

    /// Bytes at `offset` of `file` are not what was written there.
    #[must_use]
    pub fn corruption(file: &Path, offset: u64, what: impl fmt::Display) -> Self {
        let mut error = Self::new(ErrorKind::Corruption, format!("{}: at offset {offset}: {what}", file.display()));
        error.0.place = Some((file.to_owned(), offset));
        error
    }

    /// The operating system failed to `verb` `path`. A full disk or quota becomes `Full`; an error of the engine within
    /// stays what it is.
    #[must_use]
    pub fn io(verb: &str, path: &Path, source: io::Error) -> Self {
        let source = match source.downcast::<Self>() {
            Ok(own) => return own,
            Err(source) => source,
        };
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => ErrorKind::Full,
            _ => ErrorKind::Io,
        };
        let message = format!("cannot {verb} {}: {source}", path.display());
        let source: Option<Box<dyn StdError + Send + Sync>> = Some(Box::new(source));
        Self(Box::new(Inner { kind, message, place: None, of_read: false, unchanged: false, source }))
    }

    /// The same error, of a read or of an open for reading: the operation may be tried again, or do without.
    #[must_use]
    pub fn of_read(mut self) -> Self {
        self.0.of_read = true;
        self
    }

    /// Whether a read or an open for reading failed, or what was read is damaged. Nothing was changed on disk by it,
    /// and nothing is wrong with what was written since: it fails the job that needed the read, and nothing else.
    #[must_use]
    pub fn is_of_read(&self) -> bool {
        self.0.of_read
    }

    /// The same error once more, without its cause: what was found wrong before is met again.
    #[must_use]
    pub fn again(&self) -> Self {
        let &Inner { kind, of_read, unchanged, .. } = &*self.0;
        let (message, place) = (self.0.message.clone(), self.0.place.clone());
        Self(Box::new(Inner { kind, message, place, of_read, unchanged, source: None }))
    }

    /// The same error, of a change that was refused before anything was changed, such as the creation of a file for
    /// which there was no space or no descriptor; or of one that was taken back. The same change may be made later.
    #[must_use]
    pub fn unchanged(mut self) -> Self {
        self.0.unchanged = true;
        self
    }

    /// Whether a change was refused, or taken back, so that nothing is changed.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.0.unchanged
    }

    /// What the caller can do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file that damage was found in, and the offset in bytes; only of a `Corruption`.
    #[must_use]
    pub fn place(&self) -> Option<(&Path, u64)> {
        self.0.place.as_ref().map(|(file, offset)| (file.as_path(), *offset))
    }

    /// The same error with what to do about it behind its message.
    #[must_use]
    pub fn advice(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{}: {what}", self.0.message);
        self
    }

    /// The same error with words in front of its message.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_its_own_kind() {
        let error = Error::io("write", Path::new("/x"), io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(error.to_string().starts_with("cannot write /x: "));
        assert!(error.source().is_some());
    }
}
