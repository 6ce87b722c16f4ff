//! Commands: what clients of MongoDB send, run on a [`Database`](crate::Database), and the replies.
//!
//! A command is declared once ([`Declaration`]), in the file of its family, and gathered in one table. A request is
//! checked by its declaration ([`parse`]), its generic fields are read ([`generic`]), and it runs as a [`Call`].

mod aggregate;
mod bulk_write;
pub mod call;
mod coll_mod;
mod collections;
pub mod commands;
mod count;
pub mod cursors;
mod find;
mod find_and_modify;
mod general;
pub mod generic;
mod get_more;
mod indexes;
mod insert;
mod lists;
pub mod operations;
pub mod parse;
pub mod reply;
pub mod request;
pub mod scope;
mod scoped;
pub mod service;
mod sessions;
mod sizes;
pub mod spec;
pub mod state;
mod statement_ids;
mod table;
mod writes;

pub use call::Call;
pub use commands::Command;
pub use request::{Client, Request};
pub use service::Service;
pub use spec::{Declaration, Privilege, Resource};
pub use state::{ServiceOptions, State};
