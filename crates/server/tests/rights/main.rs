//! Rights: roles × commands × stages × ways to reach a namespace, compared with a model of the roles' privileges, and
//! what each client sees and changes. The rows come from the tables of commands and stages.
//!
//! `SPINNEY_RIGHTS=N` draws N pipelines in place of 400, `SPINNEY_SEED=S` draws those of another seed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../server/client.rs"]
#[expect(dead_code, reason = "the tests of the server use more of it")]
mod client;
mod collections;
mod commands;
mod cursors;
mod model;
mod pipelines;
mod reads;
mod refusals;
mod roles;
mod server;
mod stages;
mod twice;
mod world;
