//! A client of a server that speaks MongoDB's wire protocol, whichever it is: one blocking connection for each client,
//! without authentication, TLS and compression.

mod client;
mod connection;
mod store;

pub(super) use store::Wire;
