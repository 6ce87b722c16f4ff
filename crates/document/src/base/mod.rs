//! What every module of the crate uses: errors with their codes, and conversions of numbers that lose nothing, time
//! and randomness, interrupts, the rights that clients need, the stack.

pub mod codes;
pub mod error;
pub mod interrupt;
pub mod num;
pub mod rights;
pub mod stack;
pub mod system;

pub use codes::ErrorCode;
pub use error::{Error, Result};
pub use interrupt::{Interrupt, Summary};
pub use rights::{Need, On};
pub use system::{Environment, System};
