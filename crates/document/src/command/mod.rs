//! Commands: what clients of MongoDB send, run on a [`Database`](crate::Database), and the replies.

pub mod request;
pub mod service;

pub use request::{Client, Request};
pub use service::Service;
