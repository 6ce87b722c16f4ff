//! Replica sets: several processes that hold the same document database, by consensus before each commit.
//!
//! A write runs on the primary in a transaction of the engine. Its record is agreed on by a majority of the members
//! first, and then every member, the primary too, applies the same bytes in the order of the replicated log. So nothing
//! that a reader has seen is ever rolled back. Consensus is Raft, by the library openraft; only the module `raft` of
//! this crate knows it.
//!
//! A program opens the engine's database, then a [`Node`] on it ([`Node::open`]), then the document database, and then
//! lets the node run ([`Node::run`]). Members talk to each other through a [`Transport`], which the program brings: it
//! carries bytes that [`Node::handle`] of the other member answers, and opens connections for entries, whose other side
//! [`Node::serve`] takes.

mod base;
mod entry;
mod node;
mod raft;
mod storage;

pub use base::config::{Config, Member, Times};
pub use base::error::{Error, Result};
pub use base::settings::Settings;
pub use base::status::{MemberStatus, Role, Stalled, Status};
pub use base::transport::{Stream, Transport};
pub use node::handle::{Acknowledgement, Node};
pub use storage::copies::install_copy;
