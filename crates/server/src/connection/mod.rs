//! One connection: requests are read, run one after the other, and answered.

pub mod channel;
pub mod conversation;
pub mod frames;
pub mod outgoing;
pub mod queries;
pub mod writes;

pub use channel::Channel;
pub use conversation::serve;
