//! Payloads that repeat parts of an earlier one, as differences to it: copies and literals (RFC 3284).
//!
//! A commit may have changes that the note of an earlier commit holds too: a member of a replica set stores what was
//! agreed on in a note, and applies it later. Such changes are in the log once.
//!
//! # Format
//! A delta, in fragments of the kinds `DeltaFull` or `DeltaFirst` (numbers are varints):
//!
//! | field | |
//! |---|---|
//! | base | where the log ended when the base was appended: the payload behind this position |
//! | checksum | 4 bytes: of what is copied, the lower half |
//! | literal | with its length: bytes of the payload |
//! | copy | how many bytes of the base are passed over behind the copy before, and how many follow that are copied |
//! | | a literal, a copy, and so on to the end; the last may be either |
//!
//! The payload is all literals and copies in their order.
//!
//! # Invariants
//! 1. The base begins in the same segment, before the delta, and is no delta.
//! 2. No byte of the base is copied twice: the payload is no longer than the base and the literals together.

use crate::base::Lsn;
use crate::base::checksum::checksum;
use crate::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use crate::base::num::u64_of;

/// A part of a body that an earlier payload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRange {
    /// Where it begins in the body.
    pub at: usize,
    /// Where it begins in the earlier payload.
    pub from: usize,
    /// Its length in bytes, not 0.
    pub len: usize,
}

/// The parts that a body has of an earlier payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Where the log ended when that was appended. It is no delta itself.
    pub position: Lsn,
    /// The parts, in the order of both payloads, without overlaps.
    pub copies: Vec<CopyRange>,
}

/// A body as a delta.
#[derive(Debug)]
pub(in crate::log) struct Delta {
    /// The base's position.
    pub(in crate::log) base: Lsn,
    checksum: u32,
    /// Bytes of the body before the first copy.
    front: usize,
    /// What is stored from there on: the literal, and what follows.
    stored: Vec<u8>,
}

impl Delta {
    /// The delta of a body.
    ///
    /// # Panics
    /// When the copies are not in order, or not within the body.
    pub(in crate::log) fn new(body: &[u8], base: &Base) -> Self {
        let Base { position, copies } = base;
        let front = copies.first().map_or(body.len(), |first| first.at);
        let mut stored = Vec::with_capacity(body.len() + 16 - copies.iter().map(|copy| copy.len).sum::<usize>());
        stored.extend_from_slice(&body[..front]);
        let (mut at, mut from, mut sum) = (front, 0, 0);
        for copy in copies {
            assert!(copy.len > 0 && at <= copy.at && from <= copy.from, "copies are in the order of both payloads");
            if copy.at > front {
                put_len_prefixed(&mut stored, &body[at..copy.at]);
            }
            put_varint(&mut stored, u64_of(copy.from - from));
            put_varint(&mut stored, u64_of(copy.len));
            (at, from) = (copy.at + copy.len, copy.from + copy.len);
            sum = checksum(sum, 0, &body[copy.at..at]);
        }
        if at < body.len() {
            put_len_prefixed(&mut stored, &body[at..]);
        }
        Self { base: *position, checksum: lower_half(sum), front, stored }
    }

    /// Calls `append` with the parts of the payload that this body makes with `head`.
    pub(in crate::log) fn with_parts<R>(&self, head: &[u8], append: impl FnOnce(&[&[u8]]) -> R) -> R {
        let mut front = Vec::with_capacity(32 + head.len());
        put_varint(&mut front, self.base.0);
        front.extend_from_slice(&self.checksum.to_le_bytes());
        put_varint(&mut front, u64_of(head.len() + self.front));
        front.extend_from_slice(head);
        append(&[&front, &self.stored])
    }
}

/// What is stored of a delta, decoded up to its literals and copies.
#[derive(Debug)]
pub(in crate::log) struct StoredDelta<'a> {
    /// The base's position.
    pub(in crate::log) base: Lsn,
    checksum: u32,
    rest: Decoder<'a>,
}

impl<'a> StoredDelta<'a> {
    /// Reads the front of a delta.
    ///
    /// # Errors
    /// When the bytes are none.
    pub(in crate::log) fn decode(stored: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Decoder::new(stored);
        Ok(Self { base: Lsn(rest.varint()?), checksum: rest.u32()?, rest })
    }

    /// Makes `out` the payload. It grows by what is in the delta and in the base, never by a length alone.
    ///
    /// # Errors
    /// When the bytes are no delta of this base.
    pub(in crate::log) fn apply(mut self, base: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.clear();
        let (mut base, mut sum) = (Decoder::new(base), 0);
        loop {
            out.extend_from_slice(self.rest.len_prefixed()?);
            if self.rest.is_empty() {
                break;
            }
            base.bytes(length(&mut self.rest)?)?;
            let copied = base.bytes(length(&mut self.rest)?)?;
            if copied.is_empty() {
                return Err(Malformed);
            }
            out.extend_from_slice(copied);
            sum = checksum(sum, 0, copied);
            if self.rest.is_empty() {
                break;
            }
        }
        if lower_half(sum) == self.checksum { Ok(()) } else { Err(Malformed) }
    }
}

fn length(input: &mut Decoder<'_>) -> Result<usize, Malformed> {
    usize::try_from(input.varint()?).map_err(|_| Malformed)
}

#[expect(clippy::cast_possible_truncation, reason = "half of the checksum is stored")]
const fn lower_half(sum: u64) -> u32 {
    sum as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &[u8] = b"0123456789 the quick brown fox";
    const BODY: &[u8] = b"a quick fox, 0 the fox";

    fn copies() -> Base {
        let copy = |at, from, len| CopyRange { at, from, len };
        assert_eq!((&BODY[2..8], &BODY[19..22]), (&BASE[15..21], &BASE[27..30]));
        Base { position: Lsn(1 << 40), copies: vec![copy(2, 15, 6), copy(19, 27, 3)] }
    }

    fn stored(body: &[u8], base: &Base) -> Vec<u8> {
        Delta::new(body, base).with_parts(b"head ", |parts| parts.concat())
    }

    fn read(stored: &[u8], base: &[u8]) -> Result<(Lsn, Vec<u8>), Malformed> {
        let (delta, mut out) = (StoredDelta::decode(stored)?, b"of before".to_vec());
        let position = delta.base;
        delta.apply(base, &mut out).map(|()| (position, out))
    }

    #[test]
    fn a_delta_and_its_base_make_the_payload() {
        for (body, copies) in [
            (BODY, copies().copies),
            (BODY, Vec::new()),
            (BASE, vec![CopyRange { at: 0, from: 0, len: BASE.len() }]),
            (&BASE[10..], vec![CopyRange { at: 0, from: 10, len: 5 }, CopyRange { at: 5, from: 15, len: 10 }]),
            (b"", Vec::new()),
        ] {
            let base = Base { copies, ..self::copies() };
            let whole = [b"head ", body].concat();
            assert_eq!(read(&stored(body, &base), BASE), Ok((base.position, whole)), "{base:?}");
        }
    }

    #[test]
    fn another_base_or_a_cut_delta_is_malformed() {
        let stored = stored(BODY, &copies());
        for cut in 0..stored.len() {
            // Only a cut between a literal and the copy behind it leaves a delta, of other bytes.
            assert_eq!(read(&stored[..cut], BASE), Err(Malformed), "{cut}");
        }
        for cut in 0..BASE.len() {
            assert_eq!(read(&stored, &BASE[..cut]), Err(Malformed), "{cut}");
        }
        let mut other = BASE.to_vec();
        other[16] ^= 1;
        assert_eq!(read(&stored, &other), Err(Malformed));
        // Nothing is copied of it.
        (other[16], other[0]) = (BASE[16], 0);
        assert!(read(&stored, &other).is_ok());
    }

    #[test]
    fn lengths_beyond_the_bytes_take_no_memory() {
        let front = [&[1][..], &[0; 4]].concat();
        let mut far = Vec::new();
        put_varint(&mut far, u64::MAX);
        for rest in [far.clone(), [&[0][..], &far, &[1]].concat(), [&[0, 0][..], &far].concat(), vec![0, 0, 0]] {
            let mut out = Vec::new();
            let bytes = [&front[..], &rest].concat();
            assert_eq!(StoredDelta::decode(&bytes).unwrap().apply(BASE, &mut out), Err(Malformed));
            assert!(out.capacity() < 64);
        }
    }
}
