//! Keys, and entries of tables.

/// A key.
pub type Key = Vec<u8>;

/// A key and its value.
pub type Pair = (Key, Vec<u8>);
