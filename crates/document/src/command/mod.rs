//! Commands: what clients of MongoDB send, run on a [`Database`](crate::Database), and the replies.
//!
//! A command is declared once ([`Declaration`]), in the file of its family, and gathered in one table. A request is
//! checked by its declaration ([`parse`]), its generic fields are read ([`generic`]), and it runs as a [`Call`].

mod aggregate;
mod bulk_write;
pub mod call;
mod capped;
mod change_stream;
mod cluster_parameters;
mod coll_mod;
mod collections;
pub mod commands;
mod commits;
mod count;
mod current;
pub mod cursors;
mod explain;
mod explain_writes;
mod explained;
mod find;
mod find_and_modify;
mod general;
pub mod generic;
mod get_more;
mod host;
mod indexes;
mod info;
mod insert;
pub mod kept_parameters;
pub mod lines;
mod lists;
mod maintenance;
mod metadata;
pub mod operations;
mod parameters;
pub mod parse;
mod plan_cache;
mod profile;
pub mod profiler;
pub mod reply;
pub mod request;
pub mod scope;
mod scoped;
mod server_status;
pub mod service;
mod sessions;
mod sizes;
pub mod slow;
pub mod spec;
pub mod state;
mod statement_ids;
mod stats;
mod table;
mod tail;
pub mod timing;
pub mod usage;
pub mod verbosity;
mod writes;

pub use call::Call;
pub use commands::Command;
pub use host::process_bytes;
pub use request::{Client, Request, Visibility};
pub use service::Service;
pub use spec::{Declaration, Privilege, Resource};
pub use state::{ServiceOptions, State};
