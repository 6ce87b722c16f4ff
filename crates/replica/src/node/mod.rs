//! A member of a replica set.

pub(crate) mod core;
mod duties;
pub(crate) mod handle;
pub(crate) mod members;
mod messages;
pub(crate) mod pending;
