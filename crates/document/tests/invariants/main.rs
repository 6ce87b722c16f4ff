//! What never changes an answer: where a cursor or a list of statements is cut, which indexes there are, and who writes
//! beside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod constraints;
mod cuts;
mod joined;
mod service;
