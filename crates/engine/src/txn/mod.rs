//! Transactions: which changes a reader sees, in which order commits become visible, and which commits conflict.

pub mod visibility;
