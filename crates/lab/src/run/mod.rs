//! Running the steps of an experiment on one engine, and measuring them.

mod bench;
mod clients;
mod earlier;
mod figures;
mod plan;
mod settle;
mod timeline;

pub use bench::{Bench, Db, Watch};
pub use plan::{Did, End, Plan, Role, Then, Work};
