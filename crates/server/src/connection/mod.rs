//! One connection: requests are read, run one after the other, and answered.

pub mod conversation;
pub mod frames;
pub mod outgoing;
pub mod queries;
pub mod writes;

pub use conversation::serve;
