//! A member of a replica set.

mod candidates;
mod committer;
mod copy_grant;
mod copying;
pub(crate) mod core;
mod driver;
mod duties;
pub(crate) mod handle;
pub(crate) mod members;
mod membership;
mod messages;
pub(crate) mod pending;
pub(crate) mod proposals;
mod receiving;
mod resync;
#[cfg(test)]
mod simulation;
mod start;
mod target;
