//! Several members of a replica set in one process.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that cannot go on has failed, and waits")]

mod directories;
mod failover;
mod members;
mod mesh;
mod order;
mod refusals;
mod resync;
mod set;
mod statements;
mod storm;
