//! Tests of the document database: values, keys, collections.

#![expect(clippy::unwrap_used, clippy::cast_precision_loss, reason = "a test that cannot go on has failed")]

mod capped;
mod collations;
mod collections;
mod concurrency;
mod corpus;
mod counts;
mod crash;
mod damaged;
mod decimals;
mod differential;
mod faults;
mod found_by_fuzzing;
mod groups;
mod index_keys;
mod keys;
mod long_filters;
mod pipelines;
mod replicated;
mod statements;
mod typed;
mod values;
mod windows;
