//! The bytes of a tree file that are not blocks' own: its header, what a root is, and what a branch says of a child.
//!
//! # Format
//!
//! The header is the first unit of the file, and never changes:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic, `SPNYTREE` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | bytes of a unit, 4096 |
//! | 16 | 8 | identity of the file |
//! | 24 | 8 | checksum of the 24 bytes before |
//! | 32 | 4064 | zero |
//!
//! Magic, version and checksum are in the same places in every version of this format.
//!
//! Everything else is in the frames of blocks, each at the start of a unit. An entry of a branch has the separator as
//! its key, the child's [`BlockPointer`] as its value, and seqnum 0, or [`CONTINUES`].
//!
//! A root is stored in the manifest ([`TreeMeta::encode`]): format of the rest (varint, 0), the flags' byte (bit 0:
//! there is a root, bit 1: there is a free list), the pointers that the flags announce, then as varints height, leaves,
//! branches, entries, file bytes, free bytes, generation, largest seqnum, seqnum up to which it is clean.

use std::path::Path;

use crate::base::checksum::checksum;
use crate::base::codec::{Decoder, Malformed, put_varint};
use crate::base::{Error, ErrorKind, Result, SeqNum};
use crate::block::{Block, BlockPointer};
use crate::store::space::UNIT_BYTES;

const MAGIC: &[u8; 8] = b"SPNYTREE";
const VERSION: u32 = 1;
const UNIT: u32 = 4096;
const CHECKED_BYTES: usize = 24;
/// Length of the header's fields in bytes.
pub(super) const HEADER_BYTES: usize = 32;
const _: () = assert!(8 + 4 + 4 + 8 == CHECKED_BYTES && CHECKED_BYTES + 8 == HEADER_BYTES && UNIT as u64 == UNIT_BYTES);

/// The seqnum of a separator that is also the key of the last entry before it: versions of one key lie on both sides.
/// Stored; never reuse the number.
pub(super) const CONTINUES: SeqNum = SeqNum(1);

/// More levels than any tree can have: branches have two children at least.
const HEIGHT_MAX: u32 = 64;

/// The format of a stored root.
const META_FORMAT: u64 = 0;
const HAS_ROOT: u8 = 1;
const HAS_FREE_LIST: u8 = 2;

/// The fields of the header of the file that `identity` names.
pub(super) fn encode_header(identity: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&UNIT.to_le_bytes());
    header[16..24].copy_from_slice(&identity.to_le_bytes());
    let sum = checksum(identity, 0, &header[..CHECKED_BYTES]);
    header[24..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Checks that `header` begins the tree file that `identity` names.
///
/// # Errors
/// `Unsupported` when a newer version wrote the file, `Corruption` when it is no tree file, or another one.
pub(super) fn check_header(header: &[u8], identity: u64, path: &Path) -> Result<()> {
    let corrupt = |offset, what: &str| Err(Error::corruption(path, offset, what));
    let mut decoder = Decoder::new(header);
    let fields = (decoder.array::<8>(), decoder.u32(), decoder.u32(), decoder.u64(), decoder.u64());
    let (Ok(magic), Ok(version), Ok(unit), Ok(stored), Ok(sum)) = fields else {
        return corrupt(0, "the file ends inside its header");
    };
    if &magic != MAGIC {
        return corrupt(0, "this is not a tree file");
    }
    // A version counts only with a checksum that is right, so that damage does not pass for a newer format.
    if sum != checksum(stored, 0, &header[..CHECKED_BYTES]) {
        return corrupt(0, "the header's checksum is wrong");
    }
    if stored != identity {
        return corrupt(16, "this is another tree file than the manifest expects");
    }
    if version > VERSION {
        let path = path.display();
        let message =
            format!("{path}: the tree has format {version}, this program reads {VERSION}: use a newer spinney");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if version != VERSION || unit != UNIT {
        return corrupt(8, "the header is malformed");
    }
    Ok(())
}

/// What there is to know of one root of a tree: where it lies and what it reaches. The default is the empty tree in a
/// new file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMeta {
    /// The topmost block; `None` when the tree is empty.
    pub root: Option<BlockPointer>,
    /// Levels of branches above the leaves.
    pub height: u32,
    /// Leaves.
    pub leaves: u64,
    /// Branches.
    pub branches: u64,
    /// Entries in all leaves.
    pub entries: u64,
    /// Bytes of the file that this root accounts for, the header among them; the file may be longer.
    pub file_bytes: u64,
    /// Bytes of them that neither the header, the tree nor the free list takes.
    pub free_bytes: u64,
    /// Where the list of the free bytes lies; `None` when no merge has happened yet.
    pub free_list: Option<BlockPointer>,
    /// How many merges led to this root.
    pub generation: u64,
    /// No entry has a larger seqnum.
    pub seqnum_max: SeqNum,
    /// The tree is clean up to here: see [`crate::tree::range_tombstone`].
    pub clean_to: SeqNum,
}

impl TreeMeta {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, META_FORMAT);
        let flags = self.root.map_or(0, |_| HAS_ROOT) | self.free_list.map_or(0, |_| HAS_FREE_LIST);
        out.push(flags);
        for pointer in [self.root, self.free_list].iter().flatten() {
            out.extend_from_slice(&pointer.encode());
        }
        let counts = [u64::from(self.height), self.leaves, self.branches, self.entries];
        let seqnums = [self.seqnum_max.0, self.clean_to.0];
        for number in counts.into_iter().chain([self.file_bytes, self.free_bytes, self.generation]).chain(seqnums) {
            put_varint(out, number);
        }
    }

    /// Reads what [`TreeMeta::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not a root.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let format = decoder.varint()?;
        let flags = decoder.u8()?;
        if format != META_FORMAT || flags & !(HAS_ROOT | HAS_FREE_LIST) != 0 {
            return Err(Malformed);
        }
        let mut pointer = |flag| (flags & flag != 0).then(|| BlockPointer::decode(decoder)).transpose();
        let (root, free_list) = (pointer(HAS_ROOT)?, pointer(HAS_FREE_LIST)?);
        let height = u32::try_from(decoder.varint()?).map_err(|_| Malformed)?;
        let meta = Self {
            root,
            free_list,
            height,
            leaves: decoder.varint()?,
            branches: decoder.varint()?,
            entries: decoder.varint()?,
            file_bytes: decoder.varint()?,
            free_bytes: decoder.varint()?,
            generation: decoder.varint()?,
            seqnum_max: SeqNum(decoder.varint()?),
            clean_to: SeqNum(decoder.varint()?),
        };
        let empty = root.is_none() && (height, meta.leaves, meta.branches, meta.entries) == (0, 0, 0, 0);
        let full = root.is_some() && height <= HEIGHT_MAX && meta.leaves > 0 && meta.entries >= meta.leaves;
        let fits = meta.file_bytes.is_multiple_of(UNIT_BYTES)
            && meta.free_bytes <= meta.file_bytes
            && meta.seqnum_max.max(meta.clean_to) <= SeqNum::MAX;
        if (empty || full) && fits { Ok(meta) } else { Err(Malformed) }
    }

    /// Bytes of the file that the root reaches, its list of free space among them.
    #[must_use]
    pub const fn live_bytes(&self) -> u64 {
        self.file_bytes - self.free_bytes
    }

    /// Whether nothing was ever merged into the tree. It may have no file then; one that there is holds nothing.
    #[must_use]
    pub const fn is_unwritten(&self) -> bool {
        self.file_bytes == 0
    }

    /// Units of the file that this root accounts for.
    pub(super) fn file_units(&self) -> u64 {
        (self.file_bytes / UNIT_BYTES).max(1)
    }
}

/// Whether the key of separator `i` also ends the child before it.
#[inline]
pub(super) fn continues(branch: &Block, i: usize) -> bool {
    branch.seqnum(i) == CONTINUES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::usize_of;

    #[test]
    fn any_flipped_bit_of_a_header_is_told_at_its_place_or_before() {
        let (sound, path) = (encode_header(7), Path::new("/tree"));
        check_header(&sound, 7, path).unwrap();
        for bit in 0..8 * HEADER_BYTES {
            let mut header = sound;
            header[bit / 8] ^= 1 << (bit % 8);
            let error = check_header(&header, 7, path).unwrap_err();
            let (_, offset) = error.place().unwrap_or_else(|| panic!("bit {bit}: no damage: {error}"));
            assert!(usize_of(offset) <= bit / 8, "bit {bit}: {error}");
        }
    }
}
