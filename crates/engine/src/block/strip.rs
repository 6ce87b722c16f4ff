//! Leaves out of what is compressed what can be told from the rest of it: the heads, and half of what offsets say.
//!
//! A search wants heads and offsets as they are in an image: numbers of four bytes, hardly two of them alike, of which
//! no compressor makes anything. They are eight bytes of each entry.
//!
//! # Format
//! A stripped image has the length of the image, and differs from it in two places (see [`super::format`]):
//!
//! | in place of | are |
//! |---|---|
//! | the `n` heads | zeros |
//! | the `n + 1` offsets | as many numbers: the first offset, then the length of each entry; all lowest bytes first |

use super::format::{BlockKind, Meta, head, heads_at};
use crate::base::codec::{Decoder, Malformed};
use crate::base::num::{u64_of, usize_of32};
use std::array;

/// Where in an image lies what is stripped.
struct Table {
    heads_at: usize,
    offsets_at: usize,
    count: usize,
    meta: Meta,
}

impl Table {
    /// That of an image with entries, stripped or not.
    fn of(image: &[u8]) -> Result<Self, Malformed> {
        let mut header = Decoder::new(image);
        let kind = BlockKind::from_byte(header.u8()?).ok_or(Malformed)?;
        let meta = Meta::of_flags(header.u8()?).ok_or(Malformed)?;
        header.u16()?;
        let (count, prefix_len) = (header.u32()?, header.u32()?);
        header.bytes(usize_of32(prefix_len))?;
        let heads_at = heads_at(usize_of32(prefix_len));
        let entries_at = u64_of(heads_at) + 8 * u64::from(count) + 4;
        if kind == BlockKind::Raw || entries_at > u64_of(image.len()) {
            return Err(Malformed);
        }
        let count = usize_of32(count);
        Ok(Self { heads_at, offsets_at: heads_at + 4 * count, count, meta })
    }

    /// The head of the entry from `start` to `end`.
    #[inline]
    fn head(&self, image: &[u8], start: u32, end: u32) -> Result<u32, Malformed> {
        let mut entry = Decoder::new(image.get(usize_of32(start)..usize_of32(end)).ok_or(Malformed)?);
        entry.bytes(self.meta.bytes())?;
        entry.len_prefixed().map(head)
    }

    /// Where byte `plane` of stripped number `i` is.
    #[inline]
    const fn slimmed_at(&self, plane: usize, i: usize) -> usize {
        self.offsets_at + plane * (self.count + 1) + i
    }
}

/// The stripped form of an image; `None` when it is that of no leaf or branch, and [`rebuild`] would not give it back.
pub(super) fn strip(image: &[u8]) -> Option<Vec<u8>> {
    let table = Table::of(image).ok()?;
    let number = |at: usize| image[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let mut stripped = image.to_vec();
    stripped[table.heads_at..table.offsets_at].fill(0);
    let mut end = 0;
    for i in 0..=table.count {
        let start = end;
        end = number(table.offsets_at + 4 * i)?;
        if i > 0 && table.head(image, start, end).ok()? != number(table.heads_at + 4 * (i - 1))? {
            return None;
        }
        for (plane, byte) in end.checked_sub(start)?.to_le_bytes().into_iter().enumerate() {
            stripped[table.slimmed_at(plane, i)] = byte;
        }
    }
    Some(stripped)
}

/// Makes an image again of its stripped form.
///
/// # Errors
/// [`Malformed`] when it is not one that [`strip`] made.
pub(super) fn rebuild(image: &mut [u8]) -> Result<(), Malformed> {
    let table = Table::of(image)?;
    let stripped = image[table.offsets_at..table.slimmed_at(4, 0)].to_vec();
    let mut end = 0_u32;
    for i in 0..=table.count {
        let bytes = array::from_fn(|plane| stripped[table.slimmed_at(plane, i) - table.offsets_at]);
        let start = end;
        end = start.checked_add(u32::from_le_bytes(bytes)).ok_or(Malformed)?;
        image[table.offsets_at + 4 * i..][..4].copy_from_slice(&end.to_le_bytes());
        if i > 0 {
            let head = table.head(image, start, end)?;
            image[table.heads_at + 4 * (i - 1)..][..4].copy_from_slice(&head.to_le_bytes());
        }
    }
    Ok(())
}
