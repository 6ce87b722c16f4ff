//! MariaDB with InnoDB and with MyRocks: a server of our own, which the lab speaks SQL with.
//!
//! Only rows as in iibench are understood: a table of rows becomes an SQL table with typed columns, and the tables of
//! its indexes become native secondary indexes.

mod client;
mod config;
mod engine;
mod forcer;
mod kind;
mod schema;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod verbs;

pub(crate) use engine::MariaDb;
pub(crate) use kind::Kind;
