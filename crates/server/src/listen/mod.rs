//! A server: sockets that are listened on, a thread for each connection, its beginning and its end.

pub mod accept;
pub mod address;
mod follow;
mod health;
pub mod http;
mod members;
mod metrics;
pub mod running;
mod status;
pub mod tls;
pub mod warnings;

pub use address::Listening;
pub use running::{Running, start};
pub use tls::Tls;
