//! The commands that are about the server and its clients, in a table, and the way of a command through the server.

pub mod authorize;
pub mod diagnostics;
pub mod dispatch;
pub mod fail_point;
mod grants;
pub mod handshake;
pub mod legacy;
pub mod merge;
pub mod open_transaction;
pub mod replica_change;
pub mod replica_config;
pub mod replica_documents;
pub mod replica_request;
pub mod replica_set;
pub mod role;
pub mod roles;
pub mod sasl;
pub mod session;
pub mod spec;
pub mod table;
pub mod users;

pub use dispatch::{Outcome, run};
pub use session::Session;
