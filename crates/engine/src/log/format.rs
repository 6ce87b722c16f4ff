//! The bytes of the redo log.
//!
//! # Format
//! The log is a chain of segment files. An [`Lsn`] is a position in the endless string of their contents; headers are
//! not counted, and between two segments positions may be left out. All numbers are little-endian.
//!
//! A segment file is as long as its header says, and is named `{number:016}.log`:
//! ```text
//! 0          4096                                                                  bytes
//! | header   | content: positions first .. first + bytes - 4096 ................... |
//! ```
//! The header sector:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `SPNY LOG` |
//! | 8 | 4 | format version, 2; of version 1, which has no deltas, segments are read |
//! | 12 | 4 | how the segment begins: 1 continues the one before it, 2 seals it |
//! | 16 | 8 | identity of the database |
//! | 24 | 8 | number of the segment |
//! | 32 | 8 | bytes of the file |
//! | 40 | 8 | first: the position of the first byte of content, a multiple of 4096 |
//! | 48 | 8 | number of the segment before it, 0 when there is none |
//! | 56 | 8 | previous end: where the content before this segment ends |
//! | 64 | 4024 | zeros |
//! | 4088 | 8 | checksum of bytes 0..4088, seeded with 0 |
//!
//! Magic, version and checksum are in the same places in every version of this format: a version counts only with a
//! checksum that is right, so that damage does not pass for a newer format.
//!
//! A segment that *continues* was begun because the one before it was full: `previous end` = `first` = the end of that
//! one, and nothing is said about how much of it is durable. A segment that *seals* was begun by an open of the
//! database: everything up to `previous end`, which lies in the segment of the number before it, was then found and
//! durable, and nothing after it counts.
//!
//! Content is a sequence of groups. Each begins at a multiple of 4096, the first behind the last fragment of the group
//! before it, with a marker, and holds fragments without gaps. What lies between groups, and behind the last one, means
//! nothing (zeros, or what an earlier life of the file left).
//!
//! | offset | size | field of a fragment |
//! |---|---|---|
//! | 0 | 8 | checksum of the rest, seeded with database, segment number and position |
//! | 8 | 4 | bits 0..28 length of the payload, bits 28..32 kind |
//! | 12 | length | payload |
//!
//! A payload in one fragment is a `Full` one; else it is `First`, any number of `Middle`, `Last`, with nothing but
//! group markers between them. `PackedFull` and `PackedFirst` take the place of `Full` and `First` where the payload is
//! compressed: `pack.rs` tells how. `DeltaFull` and `DeltaFirst` do where it repeats parts of an earlier one of the
//! same segment: `delta.rs` tells how. The payload of a group marker:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | durable: everything before this position was durable when the group was written |
//! | 8 | 8 | previous end: where the last fragment before this group ends |

use crate::base::Lsn;
use crate::base::checksum::checksum;
use crate::base::codec::{Decoder, Malformed};
use crate::base::num::{u32_of, u64_of, usize_of32};
use crate::env::SECTOR_BYTES;

/// The size in bytes of a segment's header, and what groups are aligned to.
pub(super) const SECTOR: u64 = 4096;
/// The smallest segment file in bytes.
pub(super) const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// The largest segment file in bytes.
pub(super) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The size in bytes of a fragment's header.
pub(super) const FRAGMENT_HEADER_BYTES: usize = 12;
/// The longest payload of one fragment in bytes, so that a reader's window is bounded.
pub(super) const FRAGMENT_BYTES_MAX: usize = 256 << 10;
/// The size in bytes of a group's marker with its fragment header.
pub(super) const MARKER_BYTES: usize = FRAGMENT_HEADER_BYTES + 16;

const MAGIC: [u8; 8] = *b"SPNY LOG";
const VERSION: u32 = 2;
/// The oldest version that is read.
const VERSION_MIN: u32 = 1;
const HEADER_CHECKSUM_AT: usize = SECTOR_BYTES - 8;
const LENGTH_BITS: u32 = 28;
/// What a group's marker says of its kind and length.
pub(super) const MARKER_CLAIM: [u8; 4] = (16 | (FragmentKind::Group as u32) << LENGTH_BITS).to_le_bytes();

const _: () = assert!(SECTOR == SECTOR_BYTES as u64);
const _: () = assert!(MARKER_BYTES - FRAGMENT_HEADER_BYTES == 16);
const _: () = assert!(FRAGMENT_BYTES_MAX < 1 << LENGTH_BITS);
const _: () = assert!(SEGMENT_BYTES_MIN.is_multiple_of(SECTOR) && SEGMENT_BYTES_MAX.is_multiple_of(SECTOR));

/// How a segment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// It continues a full segment. Stored; never reuse the number.
    Continues = 1,
    /// It seals what was found at an open. Stored; never reuse the number.
    Seals = 2,
}

/// What a segment's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) begins: Begins,
    pub(super) database: u64,
    pub(super) number: u64,
    /// Bytes of the file, header included.
    pub(super) bytes: u64,
    pub(super) first: Lsn,
    pub(super) previous: u64,
    pub(super) previous_end: Lsn,
}

/// Why a header sector cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// Written by a later version of the format.
    Newer(u32),
    /// Not what was written.
    Damaged,
}

impl SegmentHeader {
    /// The position after the last byte of content that fits.
    pub(super) const fn end(&self) -> Lsn {
        self.first.plus(self.bytes - SECTOR)
    }

    /// Where in the file the byte of position `lsn` is.
    pub(super) fn offset_of(&self, lsn: Lsn) -> u64 {
        assert!(self.first <= lsn && lsn <= self.end(), "a position of another segment");
        SECTOR + (lsn.0 - self.first.0)
    }

    /// What the checksums of this segment's fragments are seeded with.
    pub(super) fn identity(&self) -> u64 {
        checksum(self.database, self.number, b"segment")
    }

    /// The header of a segment of `bytes` bytes that continues this one.
    pub(super) const fn continued(&self, bytes: u64) -> Self {
        Self {
            begins: Begins::Continues,
            database: self.database,
            number: self.number + 1,
            bytes,
            first: self.end(),
            previous: self.number,
            previous_end: self.end(),
        }
    }

    /// Fills a header sector.
    pub(super) fn encode(&self, sector: &mut [u8]) {
        assert!(self.is_sound(), "a segment's header must pass its reader's checks");
        sector.fill(0);
        sector[..8].copy_from_slice(&MAGIC);
        sector[8..12].copy_from_slice(&VERSION.to_le_bytes());
        sector[12..16].copy_from_slice(&(self.begins as u32).to_le_bytes());
        let numbers = [self.database, self.number, self.bytes, self.first.0, self.previous, self.previous_end.0]
            .map(u64::to_le_bytes);
        sector[16..64].copy_from_slice(numbers.as_flattened());
        let sum = checksum(0, 0, &sector[..HEADER_CHECKSUM_AT]);
        sector[HEADER_CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads a header sector.
    pub(super) fn decode(sector: &[u8]) -> Result<Self, HeaderError> {
        let decoded = Self::decode_fields(sector).map_err(|Malformed| HeaderError::Damaged)?;
        decoded.and_then(|header| if header.is_sound() { Ok(header) } else { Err(HeaderError::Damaged) })
    }

    fn decode_fields(sector: &[u8]) -> Result<Result<Self, HeaderError>, Malformed> {
        let (fields, sum) = sector.split_at_checked(HEADER_CHECKSUM_AT).ok_or(Malformed)?;
        let mut decoder = Decoder::new(fields);
        if decoder.array()? != MAGIC {
            return Err(Malformed);
        }
        if Decoder::new(sum).u64()? != checksum(0, 0, fields) {
            return Err(Malformed);
        }
        let version = decoder.u32()?;
        if version > VERSION {
            return Ok(Err(HeaderError::Newer(version)));
        }
        if version < VERSION_MIN {
            return Err(Malformed);
        }
        let begins = match decoder.u32()? {
            1 => Begins::Continues,
            2 => Begins::Seals,
            _ => return Err(Malformed),
        };
        Ok(Ok(Self {
            begins,
            database: decoder.u64()?,
            number: decoder.u64()?,
            bytes: decoder.u64()?,
            first: Lsn(decoder.u64()?),
            previous: decoder.u64()?,
            previous_end: Lsn(decoder.u64()?),
        }))
    }

    /// Whether the fields agree with each other.
    pub(super) fn is_sound(&self) -> bool {
        (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.bytes)
            && self.bytes.is_multiple_of(SECTOR)
            && self.first.0.is_multiple_of(SECTOR)
            && self.first.0.checked_add(self.bytes).is_some_and(|end| end <= Lsn::MAX.0)
            && self.previous < self.number
            && match self.begins {
                Begins::Continues => self.previous_end == self.first && self.previous == self.number - 1,
                Begins::Seals => self.previous_end <= self.first,
            }
    }
}

/// What a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FragmentKind {
    /// A payload in one fragment. Stored; never reuse the number.
    Full = 1,
    /// The first fragment of a payload. Stored; never reuse the number.
    First = 2,
    /// A fragment that is neither the first nor the last. Stored; never reuse the number.
    Middle = 3,
    /// The last fragment of a payload. Stored; never reuse the number.
    Last = 4,
    /// The marker that begins a group. Stored; never reuse the number.
    Group = 5,
    /// The log was closed: nothing follows. Stored; never reuse the number.
    End = 6,
    /// A packed payload in one fragment. Stored; never reuse the number.
    PackedFull = 7,
    /// The first fragment of a packed payload. Stored; never reuse the number.
    PackedFirst = 8,
    /// A delta in one fragment. Stored; never reuse the number.
    DeltaFull = 9,
    /// The first fragment of a delta. Stored; never reuse the number.
    DeltaFirst = 10,
}

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is.
    Plain,
    /// Compressed.
    Packed,
    /// As the differences to an earlier payload.
    Delta,
}

impl FragmentKind {
    /// How the payload is stored that begins with such a fragment; none when no payload begins with it.
    pub(super) const fn begins(self) -> Option<Form> {
        match self {
            Self::Full | Self::First => Some(Form::Plain),
            Self::PackedFull | Self::PackedFirst => Some(Form::Packed),
            Self::DeltaFull | Self::DeltaFirst => Some(Form::Delta),
            Self::Middle | Self::Last | Self::Group | Self::End => None,
        }
    }

    /// Whether a payload ends with such a fragment.
    pub(super) const fn is_last(self) -> bool {
        matches!(self, Self::Full | Self::PackedFull | Self::DeltaFull | Self::Last)
    }

    const fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            1 => Self::Full,
            2 => Self::First,
            3 => Self::Middle,
            4 => Self::Last,
            5 => Self::Group,
            6 => Self::End,
            7 => Self::PackedFull,
            8 => Self::PackedFirst,
            9 => Self::DeltaFull,
            10 => Self::DeltaFirst,
            _ => return None,
        })
    }
}

/// Fills the header of `fragment`, whose payload is in place after the first [`FRAGMENT_HEADER_BYTES`] bytes.
#[inline]
pub(super) fn seal(identity: u64, at: Lsn, kind: FragmentKind, fragment: &mut [u8]) {
    let length = u32_of(fragment.len() - FRAGMENT_HEADER_BYTES);
    assert!(length < 1 << LENGTH_BITS, "a fragment is no longer than its length field can say");
    fragment[8..12].copy_from_slice(&(length | (kind as u32) << LENGTH_BITS).to_le_bytes());
    let sum = checksum(identity, at.0, &fragment[8..]);
    fragment[..8].copy_from_slice(&sum.to_le_bytes());
}

/// The kind and the payload length that the first [`FRAGMENT_HEADER_BYTES`] bytes of a fragment claim; `None` when they
/// cannot be a fragment.
#[inline]
pub(super) fn claim(header: &[u8]) -> Option<(FragmentKind, usize)> {
    let word = Decoder::new(header.get(8..)?).u32().ok()?;
    let length = usize_of32(word & ((1 << LENGTH_BITS) - 1));
    let kind = FragmentKind::from_bits(word >> LENGTH_BITS)?;
    (length <= FRAGMENT_BYTES_MAX).then_some((kind, length))
}

/// Whether `fragment`, a header and as much payload as it claims, is what was written at `at`.
#[inline]
pub(super) fn is_valid(identity: u64, at: Lsn, fragment: &[u8]) -> bool {
    let (sum, rest) = fragment.split_at(8);
    sum == checksum(identity, at.0, rest).to_le_bytes()
}

/// What a group's marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// Everything before this position was durable when the group was written.
    pub(super) durable: Lsn,
    /// Where the last fragment before the group ends.
    pub(super) previous_end: Lsn,
}

impl Marker {
    /// Fills `fragment`, of [`MARKER_BYTES`] bytes, as the marker at position `at`.
    pub(super) fn encode(&self, identity: u64, at: Lsn, fragment: &mut [u8]) {
        assert!(self.looks_back(at), "a marker looks back");
        fragment[12..20].copy_from_slice(&self.durable.0.to_le_bytes());
        fragment[20..28].copy_from_slice(&self.previous_end.0.to_le_bytes());
        seal(identity, at, FragmentKind::Group, fragment);
    }

    /// Whether it describes nothing behind `at`, its own position.
    fn looks_back(&self, at: Lsn) -> bool {
        self.durable <= self.previous_end && self.previous_end <= at
    }

    /// Reads a marker's payload.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(payload);
        let marker = Self { durable: Lsn(decoder.u64().ok()?), previous_end: Lsn(decoder.u64().ok()?) };
        decoder.is_empty().then_some(marker)
    }

    /// The marker that begins a group at position `at`, if `bytes` begins with one that was written there.
    pub(super) fn find(identity: u64, at: Lsn, bytes: &[u8]) -> Option<Self> {
        let fragment = bytes.get(..MARKER_BYTES)?;
        let (kind, length) = claim(fragment)?;
        let fits = kind == FragmentKind::Group && length == MARKER_BYTES - FRAGMENT_HEADER_BYTES;
        let marker =
            (fits && is_valid(identity, at, fragment)).then(|| Self::decode(&fragment[FRAGMENT_HEADER_BYTES..]))??;
        marker.looks_back(at).then_some(marker)
    }

    /// Whether a group begins in `bytes`, which begin at position `at`, a multiple of [`SECTOR`].
    pub(super) fn is_in(identity: u64, at: Lsn, bytes: &[u8]) -> bool {
        let mut sectors = bytes.chunks(SECTOR_BYTES).zip(0..);
        sectors.any(|(sector, number)| Self::find(identity, at.plus(number * SECTOR), sector).is_some())
    }
}

/// The first multiple of [`SECTOR`] that is not before `lsn`.
pub(super) const fn sector_up(lsn: Lsn) -> Lsn {
    Lsn(crate::base::num::round_up(lsn.0, SECTOR))
}

/// `end - start` as a count of bytes in memory.
pub(super) fn distance(start: Lsn, end: Lsn) -> usize {
    crate::base::num::usize_of(end.0 - start.0)
}

/// The position `bytes` after `lsn`.
pub(super) const fn after(lsn: Lsn, bytes: usize) -> Lsn {
    lsn.plus(u64_of(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            begins: Begins::Seals,
            database: 7,
            number: 3,
            bytes: 65536,
            first: Lsn(8192),
            previous: 1,
            previous_end: Lsn(5000),
        }
    }

    #[test]
    fn a_header_reads_back_and_every_flipped_bit_is_found() {
        let mut sector = [0; SECTOR_BYTES];
        header().encode(&mut sector);
        assert_eq!(SegmentHeader::decode(&sector), Ok(header()));
        for bit in 0..SECTOR_BYTES * 8 {
            sector[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&sector).is_err(), "bit {bit}");
            sector[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(SegmentHeader::decode(&sector[..100]), Err(HeaderError::Damaged));
    }

    #[test]
    fn a_newer_header_is_told_from_a_damaged_one() {
        let mut sector = [0; SECTOR_BYTES];
        header().encode(&mut sector);
        sector[8] = 3;
        assert_eq!(SegmentHeader::decode(&sector), Err(HeaderError::Damaged), "a flipped bit");
        let of_version = |version, sector: &mut [u8]| {
            sector[8] = version;
            let sum = checksum(0, 0, &sector[..HEADER_CHECKSUM_AT]);
            sector[HEADER_CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
            SegmentHeader::decode(sector)
        };
        assert_eq!(of_version(3, &mut sector), Err(HeaderError::Newer(3)));
        assert_eq!(of_version(1, &mut sector), Ok(header()));
        assert_eq!(of_version(0, &mut sector), Err(HeaderError::Damaged));
    }

    #[test]
    fn a_fragment_passes_only_at_its_own_place() {
        let mut fragment = vec![0; FRAGMENT_HEADER_BYTES];
        fragment.extend_from_slice(b"payload");
        seal(header().identity(), Lsn(9000), FragmentKind::Full, &mut fragment);
        assert_eq!(claim(&fragment), Some((FragmentKind::Full, 7)));
        assert!(is_valid(header().identity(), Lsn(9000), &fragment));
        assert!(!is_valid(header().identity(), Lsn(9001), &fragment));
        let other = SegmentHeader { number: 4, ..header() };
        assert!(!is_valid(other.identity(), Lsn(9000), &fragment));
    }

    #[test]
    fn zeros_are_no_fragment() {
        assert_eq!(claim(&[0; FRAGMENT_HEADER_BYTES]), None);
        assert_eq!(Marker::find(1, Lsn(0), &[0; SECTOR_BYTES]), None);
    }

    #[test]
    fn a_marker_is_found_at_any_sector_and_only_at_its_own() {
        let (identity, marker) = (header().identity(), Marker { durable: Lsn(8200), previous_end: Lsn(8300) });
        for sector in 0..3 {
            let mut bytes = vec![0x10; 3 * SECTOR_BYTES];
            let offset = sector * SECTOR_BYTES;
            marker.encode(identity, after(Lsn(12_288), offset), &mut bytes[offset..offset + MARKER_BYTES]);
            assert!(Marker::is_in(identity, Lsn(12_288), &bytes));
            assert!(!Marker::is_in(identity, Lsn(16_384), &bytes));
            assert!(!Marker::is_in(identity, Lsn(12_288), &bytes[..offset + MARKER_BYTES - 1]));
            bytes[offset] ^= 1;
            assert!(!Marker::is_in(identity, Lsn(12_288), &bytes));
        }
        assert!(!Marker::is_in(identity, Lsn(12_288), &[]));
    }
}
