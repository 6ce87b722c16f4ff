//! A server: sockets that are listened on, a thread for each connection, its beginning and its end.

pub mod accept;
pub mod address;
pub mod running;

pub use address::Listening;
pub use running::{Running, start};
