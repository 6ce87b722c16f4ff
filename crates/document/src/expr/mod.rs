//! Expressions, and the constants that a command gives them.

pub mod context;

pub use context::Context;
