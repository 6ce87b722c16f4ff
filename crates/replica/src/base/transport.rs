//! How a node's requests reach the other members.

use std::fmt::Debug;
use std::time::Duration;

use crate::base::config::Member;

/// Carries requests to other members. Blocking: the node calls it from threads of its own, one call at a time for each
/// member and kind of request.
pub trait Transport: Send + Sync + Debug + 'static {
    /// Sends `request` to a member, whose server hands it to [`Node::handle`](crate::Node::handle), and returns what
    /// that answered. A connection is kept for the next call. The bytes are opaque; a request is at most 48 MiB.
    ///
    /// # Errors
    /// `TimedOut` when there is no reply within `timeout`; any other kind when the member cannot be reached or does not
    /// know this one. The request may have been handled or not.
    fn call(&self, member: &Member, request: Vec<u8>, timeout: Duration) -> std::io::Result<Vec<u8>>;
}
