//! Where the statements of a command run.

use std::sync::Arc;

use crate::bson::Timestamp;
use crate::session::{Scope, Session};

/// A command's session, and where in it the command runs.
#[derive(Clone, Debug, Default)]
pub struct Scoped {
    /// The session.
    pub session: Option<Arc<Session>>,
    /// Where statements run.
    pub scope: Scope,
    /// The time of the snapshot that is read from, for the read concern `snapshot`.
    pub snapshot_at: Option<Timestamp>,
}
