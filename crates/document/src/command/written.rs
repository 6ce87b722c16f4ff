//! What the statements of a command write to, and which of their errors end the command.

use super::call::Call;
use crate::base::{Error, ErrorCode, Result};
use crate::catalog::Namespace;
use crate::catalog::own::is_profile;
use crate::collection::{Collection, WriteOptions};

/// The collection that statements write to.
#[derive(Debug)]
pub(super) struct Written<'c, 'r> {
    pub(super) call: &'c Call<'r>,
    pub(super) namespace: Namespace,
    pub(super) options: WriteOptions,
}

impl Written<'_, '_> {
    /// The collection; nothing when there is none and it is not to be created.
    ///
    /// # Errors
    /// `CommandNotSupportedOnView` (166); those of [`check_target`] and of creating a collection.
    pub(super) fn collection(&self, create: bool) -> Result<Option<Collection>> {
        check_target(&self.namespace)?;
        if create {
            return self.call.collection_or_create(&self.namespace).map(Some);
        }
        self.call.collection(&self.namespace)
    }
}

/// Refuses statements that write to what the profiler alone writes to.
///
/// # Errors
/// `InvalidNamespace` (73).
pub(super) fn check_target(namespace: &Namespace) -> Result<()> {
    if is_profile(namespace) {
        return Err(Error::new(ErrorCode::INVALID_NAMESPACE, format!("cannot write to {namespace}")));
    }
    Ok(())
}

/// Whether an error ends the whole command, not its statement alone.
pub(super) fn ends_command(call: &Call<'_>, error: &Error) -> bool {
    let code = error.code();
    (call.is_in_transaction() && code.is_transient())
        || code == ErrorCode::FILE_STREAM_FAILED
        || code.is_interruption()
        || code.is_of_the_server()
}
