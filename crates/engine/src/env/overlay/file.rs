//! A file whose changes stay in memory.

use super::super::buffer::{AlignedBuffer, SECTOR_BYTES};
use super::super::file::File;
use crate::base::debug::debug_by;
use crate::base::num::{u64_of, usize_of};
use crate::base::sync::RwLock;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};

/// A file over one that is only read, or over nothing.
pub(super) struct OverlayFile {
    below: Option<Arc<dyn File>>,
    content: RwLock<Content>,
    /// Told of the file before each change.
    changes: Option<Box<Changes>>,
    this: Weak<Self>,
}

/// Is told of a file that is about to be changed.
type Changes = dyn Fn(Arc<OverlayFile>) + Send + Sync;

/// What became of the file.
#[derive(Debug, Default)]
struct Content {
    bytes: u64,
    /// As many bytes of the file below are still there where no page is.
    bytes_below: u64,
    /// What was written, by the number of the page. Where there is none behind `bytes_below`, there are zeros.
    pages: BTreeMap<u64, Box<[u8]>>,
}

/// A part of a read or write that lies in one page.
struct Piece {
    page: u64,
    /// Where in the page, and where in the buffer.
    at: usize,
    from: usize,
    bytes: usize,
}

/// The parts of `bytes` bytes at `offset`.
fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = Piece> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let position = offset + u64_of(from);
        let (page, at) = (position / u64_of(SECTOR_BYTES), usize_of(position % u64_of(SECTOR_BYTES)));
        let length = (bytes - from).min(SECTOR_BYTES - at);
        let piece = Piece { page, at, from, bytes: length };
        from += length;
        (length > 0).then_some(piece)
    })
}

impl OverlayFile {
    /// An empty file.
    pub(super) fn new() -> Self {
        Self { below: None, content: RwLock::default(), changes: None, this: Weak::new() }
    }

    /// A file that has the bytes of another; `changes` is told of it before each change.
    pub(super) fn over(
        below: Arc<dyn File>,
        changes: impl Fn(Arc<Self>) + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let bytes = below.len()?;
        let content = RwLock::new(Content { bytes, bytes_below: bytes, pages: BTreeMap::new() });
        let (below, changes) = (Some(below), Some(Box::new(changes) as Box<Changes>));
        Ok(Arc::new_cyclic(|this| Self { below, content, changes, this: Weak::clone(this) }))
    }

    fn tell(&self) {
        if let (Some(changes), Some(this)) = (&self.changes, self.this.upgrade()) {
            changes(this);
        }
    }

    /// The bytes of a page before anything is written to it.
    fn page_below(&self, page: u64, bytes_below: u64) -> io::Result<Box<[u8]>> {
        let mut buffer = AlignedBuffer::zeroed(SECTOR_BYTES);
        let start = page * u64_of(SECTOR_BYTES);
        if let Some(below) = self.below.as_ref().filter(|_| start < bytes_below) {
            let read = below.read_at(&mut buffer, start)?;
            buffer[read.min(usize_of((bytes_below - start).min(u64_of(SECTOR_BYTES))))..].fill(0);
        }
        Ok(buffer.to_vec().into_boxed_slice())
    }
}

debug_by!(OverlayFile, self => below: self.below);

impl File for OverlayFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.content.read();
        let length = usize_of(content.bytes.saturating_sub(offset).min(u64_of(buffer.len())));
        let mut read = 0;
        if let Some(below) = self.below.as_ref().filter(|_| offset < content.bytes_below) {
            // The whole buffer, as a direct file wants it.
            let most = usize_of((content.bytes_below - offset).min(u64_of(buffer.len())));
            read = below.read_at(buffer, offset)?.min(most);
        }
        buffer[read.min(length)..length].fill(0);
        if content.pages.is_empty() {
            return Ok(length);
        }
        for Piece { page, at, from, bytes } in pieces(offset, length) {
            if let Some(page) = content.pages.get(&page) {
                buffer[from..from + bytes].copy_from_slice(&page[at..at + bytes]);
            }
        }
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.tell();
        let mut content = self.content.write();
        let Content { bytes: length, bytes_below, pages } = &mut *content;
        for Piece { page, at, from, bytes: count } in pieces(offset, bytes.len()) {
            let piece = &bytes[from..from + count];
            let is_behind = page * u64_of(SECTOR_BYTES) >= *bytes_below;
            if is_behind && !pages.contains_key(&page) && piece.iter().all(|byte| *byte == 0) {
                continue;
            }
            let page = match pages.entry(page) {
                std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
                std::collections::btree_map::Entry::Vacant(new) => new.insert(self.page_below(page, *bytes_below)?),
            };
            page[at..at + count].copy_from_slice(piece);
        }
        *length = (*length).max(offset + u64_of(bytes.len()));
        Ok(())
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.read().bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.tell();
        let mut content = self.content.write();
        content.bytes = bytes;
        content.bytes_below = content.bytes_below.min(bytes);
        let whole = bytes.div_ceil(u64_of(SECTOR_BYTES));
        content.pages.split_off(&whole);
        let kept = usize_of(bytes % u64_of(SECTOR_BYTES));
        if let Some(page) = content.pages.get_mut(&(whole.saturating_sub(1))).filter(|_| kept > 0) {
            page[kept..].fill(0);
        }
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<bool> {
        self.tell();
        let mut content = self.content.write();
        content.bytes = content.bytes.max(bytes);
        Ok(true)
    }

    fn punch_hole(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn alignment(&self) -> usize {
        self.below.as_ref().map_or(1, |below| below.alignment())
    }

    fn read_alignment(&self) -> usize {
        self.below.as_ref().map_or(1, |below| below.read_alignment())
    }
}
