//! Payloads as they were before they were packed or made deltas.

use super::chain::SegmentFile;
use super::read_window::ReadWindow;
use crate::base::{Error, Lsn, Result};
use crate::log::buffer::delta::StoredDelta;
use crate::log::buffer::pack::{UnpackError, unpack};
use crate::log::format::{FRAGMENT_HEADER_BYTES, Form, FragmentKind, after, sector_up};

/// Restores payloads.
#[derive(Default)]
pub(super) struct Restorer {
    restored: Vec<u8>,
    /// A window of its own for bases: they follow each other as the deltas do, and lie behind.
    window: ReadWindow,
    /// The segment and the position of the base that is kept, the last one: what is applied together was mostly written
    /// together.
    kept: Option<(u64, Lsn)>,
    base: Vec<u8>,
    fragments: Vec<u8>,
}

impl Restorer {
    /// The payload of which `stored` is stored in a form, and whose first fragment is at `start` in the segment
    /// `found`.
    ///
    /// # Errors
    /// `Corruption` when it cannot be restored; `Unsupported` for a compression that is not built in; `Io`.
    pub(super) fn restore<'a>(
        &'a mut self,
        form: Form,
        stored: &'a [u8],
        found: &SegmentFile,
        start: Lsn,
    ) -> Result<&'a [u8]> {
        let corrupt = |what| Error::corruption(&found.path, found.header.offset_of(start), what);
        match form {
            Form::Plain => return Ok(stored),
            Form::Packed => {
                let is_restored = unpacked(stored, &mut self.restored)?;
                is_restored.then_some(()).ok_or_else(|| corrupt("a payload that cannot be unpacked"))?;
            }
            Form::Delta => {
                let delta = StoredDelta::decode(stored).map_err(|_| corrupt("a delta that makes no sense"))?;
                let missing = || corrupt("the payload that it repeats parts of cannot be read");
                if !self.read_base(found, delta.base, start)? {
                    return Err(missing());
                }
                delta.apply(&self.base, &mut self.restored).map_err(|_| missing())?;
            }
        }
        Ok(&self.restored)
    }

    /// Reads the base that begins behind `position`, where the log ended before it, in a segment; whether a whole one
    /// that is no delta ends before the position `end`.
    fn read_base(&mut self, found: &SegmentFile, position: Lsn, end: Lsn) -> Result<bool> {
        let wanted = Some((found.header.number, position));
        if self.kept == wanted {
            return Ok(true);
        }
        self.kept = None;
        let Some(form) = self.collect(found, position, end)? else { return Ok(false) };
        let is_read = match form {
            Form::Plain => {
                std::mem::swap(&mut self.base, &mut self.fragments);
                true
            }
            Form::Packed => unpacked(&self.fragments, &mut self.base)?,
            Form::Delta => false,
        };
        self.kept = wanted.filter(|_| is_read);
        Ok(is_read)
    }

    /// Collects the fragments of the payload behind `position`, all of which end before `end`; tells its form.
    fn collect(&mut self, found: &SegmentFile, position: Lsn, end: Lsn) -> Result<Option<Form>> {
        let (mut at, mut begun) = (position, None);
        self.fragments.clear();
        while found.header.first <= at && at < end {
            let Some((kind, length)) = self.window.fragment(found, at)? else {
                // The next group, if there is one.
                let sector = sector_up(at);
                if sector == at || sector >= end || self.window.marker(found, sector)?.is_none() {
                    return Ok(None);
                }
                at = sector;
                continue;
            };
            let payload = after(at, FRAGMENT_HEADER_BYTES);
            at = after(payload, length);
            if kind == FragmentKind::Group {
                continue;
            }
            begun = if begun.is_none() { kind.begins() } else { begun };
            if begun.is_none() {
                return Ok(None);
            }
            self.fragments.extend_from_slice(self.window.get(found, payload, length)?.unwrap_or_default());
            if kind.is_last() {
                return Ok(begun);
            }
        }
        Ok(None)
    }
}

/// Makes `out` the payload that was packed; whether it was packed so.
fn unpacked(packed: &[u8], out: &mut Vec<u8>) -> Result<bool> {
    match unpack(packed, out) {
        Ok(()) => Ok(true),
        Err(UnpackError::Malformed) => Ok(false),
        Err(UnpackError::NotBuilt(compression)) => Err(compression.not_built("a commit in the redo log")),
    }
}
