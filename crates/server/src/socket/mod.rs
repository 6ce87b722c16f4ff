//! Sockets and what encrypts their bytes, of connections that came and of those that this server opens.

pub mod channel;
pub mod transport;

pub use channel::Channel;
