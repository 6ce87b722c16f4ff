//! Numbers that name things, each a type of its own so that they cannot be mixed up.
//!
//! # Invariants
//! 1. None of these numbers is ever given out twice in the life of a database, also not after a crash inside recovery.

use std::fmt;

/// Defines a `u64` (or narrower) newtype with the traits that every id has.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// Order of visibility: every change has one, a snapshot sees all changes up to one. Zero means "visible to all".
    SeqNum(u64)
}
id! {
    /// A byte position in the redo log, counted from the birth of the database.
    Lsn(u64)
}
id! {
    /// A table of the database.
    TableId(u32)
}
id! {
    /// A file of the database directory.
    FileId(u64)
}

impl SeqNum {
    /// The largest seqnum that fits a stored entry (56 bits).
    pub const MAX: Self = Self((1 << 56) - 1);
    /// Stored for entries that every snapshot may see.
    pub const ZERO: Self = Self(0);
}

impl Lsn {
    /// No position in a file is larger, so that there is always room behind it.
    pub const MAX: Self = Self(1 << 62);

    /// The position `bytes` later.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}
