//! What calls return, and the message of the last error.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use spinney::{Error, ErrorKind};

/// What a call returns. Everything but `SPINNEY_STATUS_OK` and `SPINNEY_STATUS_NONE` is an error, which
/// `spinney_error_message` describes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Ok = 0,
    /// It was done, and there is nothing: no such key, no further entry, no commit in time.
    None = 1,
    /// Another transaction committed a change to the same key first: run the transaction again.
    Conflict = 2,
    /// Two transactions would wait for each other's locks: roll this one back and run it again.
    Deadlock = 3,
    /// A lock was not to be had in time: retry, or wait longer.
    Timeout = 4,
    /// The disk is full: free space and try again.
    Full = 5,
    /// The operating system refused: see the message.
    Io = 6,
    /// Stored bytes are not what was written.
    Corruption = 7,
    /// The call is wrong: fix it.
    Invalid = 8,
    /// There is no database, table or directory of this name.
    NotFound = 9,
    /// There is one of this name already.
    AlreadyExists = 10,
    /// This version cannot do that.
    Unsupported = 11,
    /// The database was closed.
    Closed = 12,
    /// A write or sync failed earlier: open the database again.
    Poisoned = 13,
    /// Another process, or handle, has the database open.
    Locked = 14,
    /// What was asked for is not kept any more: begin again with what there is.
    Gone = 15,
    /// The database was opened by the process that this one was forked from: open it after the fork.
    Forked = 16,
    /// A fault of the library: the message says where. Close the database and report it.
    Fault = 17,
    /// The table was dropped while this handle of it, or what was made with it, was in use.
    Dropped = 18,
    /// The transaction or batch is larger than memory allows: commit in parts, or give the database more memory.
    TooLarge = 19,
}

impl Status {
    const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Conflict => Self::Conflict,
            ErrorKind::Deadlock => Self::Deadlock,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::Full => Self::Full,
            ErrorKind::TooLarge => Self::TooLarge,
            ErrorKind::Io => Self::Io,
            ErrorKind::Corruption => Self::Corruption,
            ErrorKind::Invalid => Self::Invalid,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Dropped => Self::Dropped,
            ErrorKind::AlreadyExists => Self::AlreadyExists,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Closed => Self::Closed,
            ErrorKind::Poisoned => Self::Poisoned,
            ErrorKind::Locked => Self::Locked,
            ErrorKind::Gone => Self::Gone,
            ErrorKind::Forked => Self::Forked,
            _ => Self::Fault,
        }
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// The message of the last error of a call of this thread; empty before the first. It is valid until the next error of
/// the thread.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_error_message() -> *const c_char {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

#[cold]
fn remember(status: Status, message: &str) -> Status {
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    MESSAGE.with_borrow_mut(|message| *message = text);
    status
}

/// The error of an argument that is `NULL`.
pub(crate) fn missing(argument: &str) -> Error {
    Error::invalid(format!("argument {argument} is NULL"))
}

/// What an argument points to, or the error that it is `NULL`.
pub(crate) trait Given<T> {
    /// The reference.
    fn given(self, argument: &str) -> spinney::Result<T>;
}

impl<T> Given<T> for Option<T> {
    #[inline]
    fn given(self, argument: &str) -> spinney::Result<T> {
        self.ok_or_else(|| missing(argument))
    }
}

/// Runs a call: no panic leaves it, and its error is remembered.
#[inline]
pub(crate) fn call(body: impl FnOnce() -> spinney::Result<Status>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => remember(Status::of(error.kind()), &error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            remember(Status::Fault, text.unwrap_or("a panic without a message"))
        }
    }
}

/// A call that has no more to say than that it was done.
#[inline]
pub(crate) fn done(body: impl FnOnce() -> spinney::Result<()>) -> Status {
    call(|| body().map(|()| Status::Ok))
}
