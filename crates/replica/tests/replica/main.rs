//! Several members of a replica set in one process.

mod failover;
mod mesh;
mod set;
