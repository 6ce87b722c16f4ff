//! The check that makes a block of an image.

use super::format::{
    BlockKind, COUNT_AT, IMAGE_BYTES_MAX, KIND_AT, Meta, PREFIX_AT, PREFIX_LEN_AT, RAW_PAYLOAD_AT, head,
};
use super::image::{Block, Slot};
use crate::base::codec::{Decoder, Malformed};
use crate::base::key::{KEY_BYTES_MAX, descends};
use crate::base::memory::Image;
use crate::base::num::{u32_of, u64_of, usize_of32};
use crate::base::{Kind, SeqNum};
use std::cmp::Ordering;
use std::ops::Range;

impl Block {
    /// Checks an image and makes a block of it.
    ///
    /// # Errors
    /// [`Malformed`] when the image breaks any rule of [`super::format`].
    pub fn parse(image: Image) -> Result<Self, Malformed> {
        let mut header = Decoder::new(&image);
        let kind = BlockKind::from_byte(header.u8()?).ok_or(Malformed)?;
        let flags = header.u8()?;
        let zero = header.u16()?;
        let (_, prefix_len) = (header.u32()?, header.u32()?);
        header.bytes(usize_of32(prefix_len))?;
        let known = Meta::of_flags(flags).is_some() && zero == 0 && image.len() <= IMAGE_BYTES_MAX;
        if !known || usize_of32(prefix_len) > KEY_BYTES_MAX {
            return Err(Malformed);
        }
        let block = Self { image };
        match kind {
            BlockKind::Raw => block.parse_raw(),
            BlockKind::Leaf | BlockKind::Branch => block.check_entries().map(|()| block),
        }
    }

    /// Checks a raw block, and moves its payload to where its cache lines begin at those of memory.
    fn parse_raw(mut self) -> Result<Self, Malformed> {
        if self.image.len() < RAW_PAYLOAD_AT || self.image[1..RAW_PAYLOAD_AT].iter().any(|byte| *byte != 0) {
            return Err(Malformed);
        }
        let image = self.image.make_mut();
        let aligned_at = image[PREFIX_AT..].as_ptr().align_offset(RAW_PAYLOAD_AT).saturating_add(PREFIX_AT);
        let payload_at = aligned_at.min(RAW_PAYLOAD_AT);
        image.copy_within(RAW_PAYLOAD_AT.., payload_at);
        image[COUNT_AT..PREFIX_LEN_AT].copy_from_slice(&u32_of(payload_at).to_le_bytes());
        Ok(self)
    }

    /// Checks offsets, lengths, kinds, heads and order of all entries.
    fn check_entries(&self) -> Result<(), Malformed> {
        let heap_at = u64_of(self.heads_at()) + 8 * u64_of(self.count()) + 4;
        let heap_at = u32::try_from(heap_at).map_err(|_| Malformed)?;
        if usize_of32(heap_at) > self.image.len() || (self.count() == 0 && self.prefix_len() > 0) {
            return Err(Malformed);
        }
        let (offsets, end) = (self.offsets(), self.offset(self.count()));
        if self.offset(0) != usize_of32(heap_at) || end != self.image.len() {
            return Err(Malformed);
        }
        let mut before: Option<(u32, Slot<'_>)> = None;
        for (i, head_stored) in self.heads().iter().enumerate() {
            let (start, end) = (u32::from_le_bytes(offsets[i]), u32::from_le_bytes(offsets[i + 1]));
            let slot = self.check_slot(usize_of32(start)..usize_of32(end))?;
            let head = head(slot.suffix);
            if head != u32::from_le_bytes(*head_stored)
                || before.is_some_and(|before| !self.ascends(before, (head, slot)))
            {
                return Err(Malformed);
            }
            before = Some((head, slot));
        }
        Ok(())
    }

    fn ascends(&self, (head_a, a): (u32, Slot<'_>), (head_b, b): (u32, Slot<'_>)) -> bool {
        match head_a.cmp(&head_b).then_with(|| a.suffix.cmp(b.suffix)) {
            Ordering::Less => true,
            Ordering::Equal => self.kind() == BlockKind::Branch || descends(a.seqnum, (b.seqnum, b.kind)),
            Ordering::Greater => false,
        }
    }

    fn check_slot(&self, entry: Range<usize>) -> Result<Slot<'_>, Malformed> {
        let mut decoder = Decoder::new(self.image.get(entry.clone()).ok_or(Malformed)?);
        let meta = match self.meta() {
            Meta::None => Kind::Put as u64,
            Meta::Kind => u64::from(decoder.u8()?),
            Meta::Version => decoder.u64()?,
        };
        let (seqnum, kind) = (SeqNum(meta >> 8), Kind::from_byte(meta.to_le_bytes()[0]).ok_or(Malformed)?);
        let suffix = decoder.len_prefixed()?;
        let value_len = decoder.rest().len();
        let key_len = self.prefix_len() + suffix.len();
        if key_len > KEY_BYTES_MAX || (kind.is_tombstone() && value_len > 0) {
            return Err(Malformed);
        }
        Ok(Slot { suffix, seqnum, kind, value_at: entry.end - value_len, value_len })
    }

    /// The block that a builder has just finished, whose image needs no check.
    ///
    /// # Panics
    /// Never: a builder finishes blocks only.
    #[must_use]
    pub fn built(image: &[u8]) -> Self {
        let image = Image::from(image);
        debug_assert!(Self::parse(image.clone()).is_ok(), "what a builder finished is a block");
        match BlockKind::from_byte(image[KIND_AT]) {
            Some(BlockKind::Leaf | BlockKind::Branch) => Self { image },
            // Its payload moves to where its cache lines begin at those of memory.
            _ => Self::parse(image).expect("what a builder finished is a block"),
        }
    }
}
