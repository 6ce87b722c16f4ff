//! MongoDB's wire protocol over the document database of Spinney.
//!
//! The layers, bottom first:
//!
//! | module | what it is |
//! |---|---|
//! | [`base`] | time, the log, reading the fields of commands |
//! | [`auth`] | SCRAM, credentials, users, roles |
//! | [`socket`] | sockets, and what encrypts their bytes |
//! | [`peer`] | connections to other members of a replica set |
//! | [`state`] | what connections share: settings, topology, counters |
//! | [`command`] | the commands about the server and its clients; the way of every command |
//! | [`connection`] | one connection: requests read, replies written, older opcodes translated |
//! | [`listen`] | sockets, threads, the beginning and the end of a server |

pub mod auth;
pub mod base;
pub mod command;
pub mod connection;
pub mod listen;
pub mod peer;
pub mod socket;
pub mod state;

pub use listen::{Listening, Running, Tls, start};
pub use state::Settings;
