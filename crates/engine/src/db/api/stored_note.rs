//! A note that is in the redo log, for commits that repeat parts of it.

use std::sync::Weak;

use crate::base::Lsn;
use crate::base::debug::debug_by;
use crate::db::open::core::Core;

/// The note of a commit and its position in the redo log: see [`Batch::repeat`](crate::Batch::repeat). It does not keep
/// the database open, nor the log.
pub struct StoredNote {
    /// Of which database.
    pub(super) database: Weak<Core>,
    /// Where the log ended before the commit.
    pub(super) position: Lsn,
    /// Where the note begins in the commit's payload.
    pub(super) offset: usize,
    pub(super) bytes: Vec<u8>,
}

impl StoredNote {
    /// The note.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the redo log ended before the commit.
    #[must_use]
    pub const fn position(&self) -> Lsn {
        self.position
    }
}

debug_by!(StoredNote, self => position: self.position);
