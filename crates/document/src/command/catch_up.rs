//! What a read at a time of the cluster, or after one, waits for on a member of a replica set.

use std::fmt::Debug;

use crate::base::{Error, ErrorCode, Result};
use crate::bson::Timestamp;

/// Waits for a member of a replica set to apply what it lacks.
pub trait CatchUp: Debug + Send + Sync {
    /// Returns when this member has applied all commits of the set up to a time. `is_known` says that this member has
    /// been told the time by a client that may advance the cluster's; otherwise it is refused when no commit of the set
    /// has it. `check` is called several times a second while it waits.
    ///
    /// # Errors
    /// Those of `check`; [`ahead`]; `MaxTimeMSExpired` (50) when this member reaches no primary for ten seconds.
    fn catch_up(&self, to: Timestamp, is_known: bool, check: &dyn Fn() -> Result<()>) -> Result<()>;
}

/// The error of a read at a time that is later than the cluster's: `InvalidOptions` (72).
#[must_use]
pub fn ahead() -> Error {
    let what = "readConcern afterClusterTime or atClusterTime value must not be greater than the current clusterTime";
    Error::new(ErrorCode::INVALID_OPTIONS, what)
}
