//! Connections that this server opens to other members of its replica set.

pub mod address;
pub mod connection;
pub mod members;
pub mod tls;

pub use connection::{Connection, Link};
pub use members::{Members, PAYLOAD_BYTES_MAX};
pub use tls::PeerTls;
