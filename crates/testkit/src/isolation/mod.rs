//! A checker of histories: whether what concurrent transactions read can be under snapshot isolation, or when they
//! are serializable.
//!
//! Every write is unique, so what a read saw says whose write it was. A list grows by appends, and the longest that was
//! read tells the order of all its versions; of a register the transactions that read it before they wrote it tell
//! theirs. From these follow the dependencies between transactions: `ww` (wrote the next version), `wr` (read that
//! version), `rw` (read the version before), and `rt` (began after the other had ended). A history is right when no
//! read shows what cannot be read, and no cycle of dependencies is without two `rw` next to each other; one of
//! serializable transactions has no cycle at all.
//!
//! Adya, Weak Consistency (1999), names the anomalies; Kingsbury and Alvaro, Elle (VLDB 2020), infer dependencies from
//! unique appends; Cerone and Gotsman, Analysing Snapshot Isolation (PODC 2016), show that these cycles are all that
//! snapshot isolation excludes.

mod check;
mod graph;
mod history;
#[cfg(test)]
mod tests;
pub mod workload;

pub use check::{Anomaly, Seen, check};
pub use history::{End, Id, Key, Step, Txn};
