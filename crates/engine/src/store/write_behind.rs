//! Writing behind: while one buffer is written the next is filled.

use std::path::Path;
use std::sync::Arc;

use super::stats::StoreStats;
use crate::base::{Error, Result};
use crate::env::{AlignedBuffer, File, InFlight, Transfer};

/// Writes the buffers of one writer, one after another. Dropped, it writes no more.
#[derive(Debug, Default)]
pub(super) struct WriteBehind {
    in_flight: Option<InFlight>,
    /// What the last write but one was made from, empty again.
    spare: AlignedBuffer,
}

impl WriteBehind {
    /// Begins to write `buffer` at `offset` of the file, once the write before is done. Returns the buffer to fill
    /// during the write: an empty one, which was in use before unless it is one of the first two.
    ///
    /// # Errors
    /// `Io` or `Full` when the write *before* failed; then nothing is begun.
    pub(super) fn write(
        &mut self,
        (file, path): (&Arc<dyn File>, &Path),
        stats: &StoreStats,
        (buffer, offset): (AlignedBuffer, u64),
    ) -> Result<AlignedBuffer> {
        self.wait(path)?;
        stats.count_write(buffer.len());
        self.in_flight = Some(file.begin(Transfer::write(file, offset, buffer)));
        Ok(std::mem::take(&mut self.spare))
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// `Io` or `Full` when the write failed that was begun last.
    pub(super) fn wait(&mut self, path: &Path) -> Result<()> {
        let Some(written) = self.in_flight.take().map(InFlight::wait) else { return Ok(()) };
        self.spare = written.buffer;
        self.spare.clear();
        written.result.map(drop).map_err(|error| Error::io("write", path, error))
    }
}
