//! A server on loopback, driven by a small client.

mod auth;
mod client;
mod commands;
mod hostile;
mod old;
