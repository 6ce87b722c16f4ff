//! A member of a replica set.

pub(crate) mod handle;
