//! A server: sockets that are listened on, a thread for each connection, its beginning and its end.

pub mod accept;
pub mod address;
pub mod metrics;
pub mod running;
pub mod tls;

pub use address::Listening;
pub use running::{Running, start};
pub use tls::Tls;
