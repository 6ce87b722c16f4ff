//! The spare files in memory: which are there, what is reserved of them, and whether the disk lacks space for more.

use super::directory::Spare;
use crate::base::{Error, ErrorKind};
use crate::log::format::SegmentHeader;

/// The spare files, and the newest segment.
#[derive(Debug)]
pub(super) struct Spares {
    /// The next one to be used is the last.
    pub(super) files: Vec<Spare>,
    /// The newest segment that fragments are laid out for. The next one continues it.
    newest: SegmentHeader,
    /// Size in bytes of a segment for which there is no spare.
    fresh_bytes: u64,
    /// Bytes of large payloads that are not appended yet and for which files are there.
    reserved_bytes: u64,
    /// Why no spare could be made or opened, while that is for lack of space or of descriptors.
    shortage: Option<String>,
}

impl Spares {
    pub(super) const fn new(newest: SegmentHeader, files: Vec<Spare>, fresh_bytes: u64) -> Self {
        Self { files, newest, fresh_bytes, reserved_bytes: 0, shortage: None }
    }

    /// The next segment, and the file that it is made of if there is one.
    pub(super) fn next_segment(&mut self) -> (SegmentHeader, Option<Spare>) {
        let spare = self.files.pop();
        self.newest = self.newest.continued(spare.as_ref().map_or(self.fresh_bytes, |spare| spare.bytes));
        (self.newest, spare)
    }

    /// How many there are, and their bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        (self.files.len(), self.files.iter().map(|spare| spare.bytes).sum())
    }

    /// Adds files that are used after those that are there: the next one may have its header.
    pub(super) fn add(&mut self, files: Vec<Spare>) {
        self.files.splice(..0, files);
    }

    /// Adds the next file.
    pub(super) fn add_next(&mut self, file: Spare) {
        self.files.push(file);
        self.shortage = None;
    }

    /// Reserves `bytes` of payload, with `left_bytes` in the current segment; for how many of them files are missing.
    pub(super) fn reserve(&mut self, bytes: u64, left_bytes: u64) -> u64 {
        let capacity: u64 = left_bytes + self.files.iter().map(Spare::capacity_bytes).sum::<u64>();
        self.reserved_bytes += bytes;
        self.reserved_bytes.saturating_sub(capacity)
    }

    /// Ends a reservation.
    pub(super) fn unreserve(&mut self, bytes: u64) {
        self.reserved_bytes -= bytes;
    }

    /// Payload bytes that fit the next segment, when its file is open already: descriptors may be what is lacking.
    pub(super) fn open_bytes(&self) -> u64 {
        self.files.last().filter(|spare| spare.ready.is_some()).map_or(0, Spare::capacity_bytes)
    }

    /// Why there is no further segment, if that is so.
    pub(super) fn shortage(&self) -> Option<&str> {
        self.shortage.as_deref()
    }

    /// Whether a spare is there. It then may be a segment that was released since the disk was full.
    pub(super) fn end_shortage(&mut self) -> bool {
        let is_there = !self.files.is_empty();
        if is_there {
            self.shortage = None;
        }
        is_there
    }

    /// Notes that a file could not be made or opened, if that is for lack of space or of descriptors.
    pub(super) fn note_shortage(&mut self, error: &Error) {
        if error.kind() == ErrorKind::Full || error.is_unchanged() {
            self.shortage = Some(error.to_string());
        }
    }

    /// The next spare, if it lacks the header of the segment that it is made for, and that header.
    pub(super) fn headless(&self) -> Option<(&Spare, SegmentHeader)> {
        let spare = self.files.last()?;
        let header = self.newest.continued(spare.bytes);
        let is_ready = spare.ready.as_ref().is_some_and(|ready| ready.header == header);
        (!is_ready).then_some((spare, header))
    }

    /// The next spare, if it is still `spare`. Else that is a segment by now, under another name.
    pub(super) fn next_if(&mut self, spare: &Spare) -> Option<&mut Spare> {
        self.files.last_mut().filter(|next| next.path == spare.path)
    }
}
