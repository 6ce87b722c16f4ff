//! The end of a run file, from which the run is opened: footer, top of the index, table of the filter.

use super::filter::Layout;
use super::format::{FOOTER_BYTES, Footer};
use super::meta::RunMeta;
use super::open_filter::OpenFilter;
use crate::base::Result;
use crate::base::codec::Decoder;
use crate::base::num::{u64_of, usize_of, usize_of32};
use crate::block::{Block, BlockPointer};
use crate::env::buffer::AlignedBuffer;
use crate::store::BlockFile;

/// Bytes at the end of the file that opening reads at once: as a rule they hold all that it needs.
const TAIL_BYTES: u64 = 16 << 10;

/// The last bytes of a run file.
pub(super) struct Tail<'a> {
    file: &'a BlockFile,
    start: u64,
    end: u64,
    buffer: AlignedBuffer,
    at: usize,
}

impl<'a> Tail<'a> {
    pub(super) fn read(file: &'a BlockFile, meta: &RunMeta) -> Result<Self> {
        let end = file.len()?;
        if end != meta.bytes || end < u64_of(FOOTER_BYTES) {
            let what = format_args!("the run should have {} bytes and has {end}", meta.bytes);
            return Err(file.corruption(end.min(meta.bytes), what));
        }
        let start = end.saturating_sub(TAIL_BYTES);
        let mut buffer = AlignedBuffer::default();
        let at = file.read_span(start, usize_of(end - start), &mut buffer)?.start;
        Ok(Self { file, start, end, buffer, at })
    }

    fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        &self.buffer[self.at + usize_of(offset - self.start)..][..len]
    }

    pub(super) fn footer(&self, meta: &RunMeta) -> Result<Footer> {
        let offset = self.end - u64_of(FOOTER_BYTES);
        let footer = Footer::read(self.bytes(offset, FOOTER_BYTES), self.file, offset)?;
        let here = (footer.entries, footer.tombstones, footer.raw_bytes, footer.seqnum_max);
        if here != (meta.entries, meta.tombstones, meta.raw_bytes, meta.seqnum_max) {
            return Err(self.file.corruption(offset, "this is not the run that the manifest describes"));
        }
        Ok(footer)
    }

    pub(super) fn block(&self, pointer: BlockPointer) -> Result<Block> {
        if pointer.offset < self.start || pointer.end() > self.end {
            return self.file.read(pointer);
        }
        self.file.parse(self.bytes(pointer.offset, usize_of32(pointer.bytes)), pointer)
    }

    pub(super) fn filter(&self, footer: &Footer) -> Result<Option<OpenFilter>> {
        if footer.filter_probes == 0 {
            return Ok(None);
        }
        let layout = Layout { lines: footer.filter_lines, probes: footer.filter_probes };
        let table = self.block(footer.filter_table)?;
        let corrupt = || self.file.corruption(footer.filter_table.offset, "the table of the run's filter is malformed");
        if !layout.is_sound() || table.bytes().len() != layout.parts() * BlockPointer::BYTES {
            return Err(corrupt());
        }
        let mut decoder = Decoder::new(table.bytes());
        let parts = (0..layout.parts()).map(|_| BlockPointer::decode(&mut decoder).map_err(|_| corrupt()));
        let parts = parts.collect::<Result<_>>()?;
        Ok(Some(OpenFilter::new(layout, parts)))
    }
}
