//! The built command, run as users run it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad_input;
mod commands;
mod crash;
mod crowd;
mod damage;
mod disk;
mod doc;
mod dump;
mod kills;
mod leftovers;
mod limits;
mod load;
mod readers;
mod readme;
mod refusals;
mod rows;
mod serve;
mod shell;
mod shells;
mod soak;
mod support;
mod values;
