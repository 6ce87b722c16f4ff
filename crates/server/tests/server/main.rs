//! A server on loopback, driven by a small client.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod auth;
mod auth_schema;
mod client;
mod clock;
mod commands;
mod disk;
mod ends;
mod hostile;
mod metrics;
mod old;
mod replica;
mod snapshots;
mod tls;
mod waits;
