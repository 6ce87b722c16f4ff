//! The bytes of a run file.
//!
//! # Format
//!
//! All but the footer are frames ([`crate::block::frame`]), packed back to back:
//!
//! | part | kind of block | holds |
//! |---|---|---|
//! | leaves | leaf | the entries, in stored order |
//! | filter parts | raw | the filter's lines, [`FILTER_PART_LINES`] in each part but the last ([`super::filter`]) |
//! | index parts | branch | per leaf: a separator, and the leaf's pointer |
//! | top | branch | per index part: its last separator, and its pointer |
//! | filter table | raw | the pointers of the filter parts, in order; left out with the filter |
//! | footer | | [`FOOTER_BYTES`] bytes, not framed |
//!
//! A separator is a key that is not below the last key of its leaf and, unless the two keys are one, below the first
//! key of the next; the last one is the last key of the run. Versions of one key may span leaves: then separators
//! repeat.
//!
//! The footer:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | version of this format |
//! | 12 | 4 | bits that a key has in the filter; zero without a filter |
//! | 16 | 16 | pointer to top |
//! | 32 | 16 | pointer to the filter table; zeros without a filter |
//! | 48 | 8 | lines of the filter |
//! | 56 | 8 | where the leaves end |
//! | 64 | 8 | leaves |
//! | 72 | 8 | entries |
//! | 80 | 8 | tombstones |
//! | 88 | 8 | bytes of keys and values |
//! | 96 | 8 | the largest seqnum |
//! | 104 | 4 | the rule of the prefixes that the filter holds in addition to the keys ([`Prefix`]); zero without |
//! | 108 | 12 | zero |
//! | 120 | 8 | XXH3-64 of the bytes before it, seeded with the file's identity and the footer's offset |
//!
//! The footer's length and the places of magic, version and checksum are those of every version of this format.

use crate::base::checksum::checksum;
use crate::base::codec::{Decoder, Malformed};
use crate::base::{Error, ErrorKind, Result, SeqNum};
use crate::block::BlockPointer;
use crate::store::BlockFile;
use crate::tree::prefix::Prefix;

/// Length of the footer in bytes.
pub const FOOTER_BYTES: usize = 128;
const CHECKSUM_AT: usize = 120;
const ZEROS: usize = 12;
const _: () =
    assert!(8 + 4 + 4 + 2 * BlockPointer::BYTES + 7 * 8 + 4 + ZEROS == CHECKSUM_AT && CHECKSUM_AT + 8 == FOOTER_BYTES);

const MAGIC: [u8; 8] = *b"spnyrun\0";
const VERSION: u32 = 2;

/// Lines of 64 bytes in one part of a filter: 64 KiB, about 50,000 keys.
pub(super) const FILTER_PART_LINES: u64 = 1024;

/// Bytes at which a part of the index is closed.
pub(super) const INDEX_PART_BYTES: usize = 32 << 10;

/// What a run's last bytes say about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) top: BlockPointer,
    pub(super) filter_table: BlockPointer,
    pub(super) filter_probes: u32,
    pub(super) filter_lines: u64,
    pub(super) leaves_end: u64,
    pub(super) leaves: u64,
    pub(super) entries: u64,
    pub(super) tombstones: u64,
    pub(super) raw_bytes: u64,
    pub(super) seqnum_max: SeqNum,
    pub(super) filter_prefix: Option<Prefix>,
}

impl Footer {
    /// The footer of the file with this identity, to be written at `offset`.
    pub(super) fn encode(&self, identity: u64, offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.filter_probes.to_le_bytes());
        out.extend_from_slice(&self.top.encode());
        out.extend_from_slice(&self.filter_table.encode());
        let counts = [self.filter_lines, self.leaves_end, self.leaves, self.entries, self.tombstones, self.raw_bytes];
        for count in counts.into_iter().chain([self.seqnum_max.0]) {
            out.extend_from_slice(&count.to_le_bytes());
        }
        out.extend_from_slice(&self.filter_prefix.map_or(0, Prefix::to_code).to_le_bytes());
        out.resize(CHECKSUM_AT, 0);
        out.extend_from_slice(&checksum(identity, offset, &out).to_le_bytes());
        out
    }

    /// Reads the footer of `file`, whose `bytes` are at `offset`.
    ///
    /// # Errors
    /// `Corruption` when this is not the footer that was written there, `Unsupported` when another version wrote it.
    pub(super) fn read(bytes: &[u8], file: &BlockFile, offset: u64) -> Result<Self> {
        let corrupt = |what: &str| file.corruption(offset, what);
        let mut decoder = Decoder::new(bytes);
        let mut field = || decoder.u64().map_err(|_| corrupt("the run's footer is cut short"));
        let magic = field()?.to_le_bytes();
        if magic != MAGIC || bytes.len() != FOOTER_BYTES {
            return Err(corrupt("this is not the footer of a run"));
        }
        let stored = Decoder::new(&bytes[CHECKSUM_AT..]).u64();
        if stored != Ok(checksum(file.identity(), offset, &bytes[..CHECKSUM_AT])) {
            return Err(corrupt("the checksum of the run's footer does not match"));
        }
        Self::decode(&bytes[MAGIC.len()..CHECKSUM_AT])
            .map_err(|_| corrupt("the run's footer has a valid checksum and is malformed"))?
            .map_err(|version| {
                let path = file.path().display();
                let other = if version > VERSION { "a newer" } else { "an older" };
                let message =
                    format!("{path}: the run has format {version}, this program reads {VERSION}: use {other} spinney");
                Error::new(ErrorKind::Unsupported, message)
            })
    }

    /// The fields behind the magic number, or the version when it is another one.
    fn decode(bytes: &[u8]) -> Result<Result<Self, u32>, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let version = decoder.u32()?;
        if version != VERSION {
            return Ok(Err(version));
        }
        let footer = Self {
            filter_probes: decoder.u32()?,
            top: BlockPointer::decode(&mut decoder)?,
            filter_table: BlockPointer::decode(&mut decoder)?,
            filter_lines: decoder.u64()?,
            leaves_end: decoder.u64()?,
            leaves: decoder.u64()?,
            entries: decoder.u64()?,
            tombstones: decoder.u64()?,
            raw_bytes: decoder.u64()?,
            seqnum_max: SeqNum(decoder.u64()?),
            filter_prefix: match decoder.u32()? {
                0 => None,
                code => Some(Prefix::from_code(code)?),
            },
        };
        if decoder.rest() == [0; ZEROS] { Ok(Ok(footer)) } else { Err(Malformed) }
    }
}
