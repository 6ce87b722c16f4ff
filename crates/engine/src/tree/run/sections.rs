//! How many bytes of a run its leaves, its filter and its index take.

use super::filter::LINE_BYTES;
use super::reader::Run;
use crate::base::Result;
use crate::base::num::u64_of;

/// What the file of a run is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// Leaves.
    pub leaves: u64,
    /// Bytes of them.
    pub leaf_bytes: u64,
    /// Bytes of the filter.
    pub filter_bytes: u64,
    /// Bytes of the index, and of all else.
    pub index_bytes: u64,
}

impl Run {
    /// What the file is made of. Where the run was not used yet, the end of its file is read.
    ///
    /// # Errors
    /// When it cannot be read or is corrupt.
    pub fn sections(&self) -> Result<Sections> {
        self.open_ends()?;
        let footer = self.footer();
        let filter_bytes = footer.filter_lines * u64_of(LINE_BYTES);
        let index_bytes = self.meta().bytes.saturating_sub(footer.leaves_end + filter_bytes);
        Ok(Sections { leaves: footer.leaves, leaf_bytes: footer.leaves_end, filter_bytes, index_bytes })
    }
}
