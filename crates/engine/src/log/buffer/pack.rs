//! Payloads compressed before they are appended.
//!
//! # Format
//! A packed payload, in fragments of the kinds `PackedFull` or `PackedFirst`:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | length of the head |
//! | 4 | length | the head as it is: what is known only when the payload has its place in the log |
//! | | | blocks, up to the end of the payload |
//!
//! A block:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | raw length: 1 to 256 KiB |
//! | 4 | 4 | bits 0..28 stored length, bits 28..32 [`Compression`] |
//! | 8 | stored length | the bytes, compressed by themselves |
//!
//! The payload is the head and then the raw bytes of all blocks.

use crate::base::codec::{Decoder, Malformed};
use crate::base::compress::Compression;
use crate::base::num::{u32_of, u64_of, usize_of32};
use crate::log::format::{FRAGMENT_HEADER_BYTES, MARKER_BYTES, SECTOR};
use std::borrow::Cow;

/// How much is compressed at a time, in bytes, and the most that a reader unpacks at a time.
const BLOCK_BYTES: usize = 256 << 10;
const LENGTH_BITS: u32 = 28;
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;
const _: () = assert!(BLOCK_BYTES < 1 << LENGTH_BITS);

/// The body of a payload, compressed if that saves space in the log; its head is given to
/// [`append_packed`](super::LogWriter::append_packed).
#[derive(Debug)]
pub(in crate::log) struct Packed<'a> {
    form: Form<'a>,
    pub(in crate::log) raw_bytes: usize,
    stamp: Option<FilledIn>,
}

/// Bytes of a body that are known only when the payload has its place in the log.
#[derive(Clone, Copy, Debug)]
struct FilledIn {
    /// Where they begin in the body; of a body in blocks, the number of the part that they are.
    at: usize,
    bytes: [u8; STAMP_BYTES],
}

/// How many bytes of a body may be filled in later.
pub(in crate::log) const STAMP_BYTES: usize = 8;

#[derive(Debug)]
enum Form<'a> {
    Plain(&'a [u8]),
    /// Blocks with their headers.
    Blocks(Vec<Cow<'a, [u8]>>),
}

impl<'a> Packed<'a> {
    /// A body as it is, but for the [`STAMP_BYTES`] from `stamp_at` on, which [`Self::fill`] replaces.
    pub(in crate::log) fn plain(body: &'a [u8], stamp_at: Option<usize>) -> Self {
        let stamp = stamp_at.map(|at| FilledIn { at, bytes: [0; STAMP_BYTES] });
        Self { form: Form::Plain(body), raw_bytes: body.len(), stamp }
    }

    /// Whether a body of `bytes` bytes may gain by compression: one that fits a sector cannot.
    pub(in crate::log) fn is_tried(bytes: usize, compression: Compression) -> bool {
        compression != Compression::None && sectors(bytes) > 1
    }

    /// Packs a body. One that would not take fewer sectors stays as it is. Of one that does not shrink, fewer and fewer
    /// blocks are tried. The [`STAMP_BYTES`] from `stamp_at` on are a block by themselves; [`Self::fill`] sets them.
    pub(in crate::log) fn new(body: &'a [u8], compression: Compression, stamp_at: Option<usize>) -> Self {
        if !Self::is_tried(body.len(), compression) {
            return Self::plain(body, stamp_at);
        }
        let mut blocks =
            Blocks { compression, parts: Vec::new(), stored_bytes: HEAD_LENGTH_BYTES, in_vain: 0, skip: 0 };
        let stamp = stamp_at.map(|at| {
            let (before, rest) = body.split_at(at);
            before.chunks(BLOCK_BYTES).for_each(|raw| blocks.add(raw));
            let (stamp, after) = rest.split_at(STAMP_BYTES);
            blocks.add_as_it_is(stamp);
            let part = blocks.parts.len() - 1;
            after.chunks(BLOCK_BYTES).for_each(|raw| blocks.add(raw));
            FilledIn { at: part, bytes: [0; STAMP_BYTES] }
        });
        if stamp.is_none() {
            body.chunks(BLOCK_BYTES).for_each(|raw| blocks.add(raw));
        }
        if sectors(blocks.stored_bytes) < sectors(body.len()) {
            return Self { form: Form::Blocks(blocks.parts), raw_bytes: body.len(), stamp };
        }
        Self::plain(body, stamp_at)
    }

    /// Sets the bytes that are known only when the payload has its place in the log.
    pub(in crate::log) const fn fill(&mut self, bytes: [u8; STAMP_BYTES]) {
        if let Some(stamp) = &mut self.stamp {
            stamp.bytes = bytes;
        }
    }

    /// Bytes of the body as it is stored.
    pub(in crate::log) fn stored_bytes(&self) -> usize {
        match &self.form {
            Form::Plain(body) => body.len(),
            Form::Blocks(parts) => parts.iter().map(|part| part.len()).sum(),
        }
    }

    /// Whether the body was compressed.
    pub(in crate::log) const fn is_packed(&self) -> bool {
        matches!(self.form, Form::Blocks(_))
    }

    /// Calls `append` with the parts of the payload that this body makes with `head`.
    pub(in crate::log) fn with_parts<R>(&self, head: &[u8], append: impl FnOnce(&[&[u8]]) -> R) -> R {
        match (&self.form, &self.stamp) {
            (Form::Plain(body), None) => append(&[head, body]),
            (Form::Plain(body), Some(FilledIn { at, bytes })) => {
                append(&[head, &body[..*at], bytes, &body[*at + STAMP_BYTES..]])
            }
            (Form::Blocks(blocks), stamp) => {
                let length = u32_of(head.len()).to_le_bytes();
                let mut parts: Vec<&[u8]> = Vec::with_capacity(2 + blocks.len());
                parts.extend([&length[..], head]);
                parts.extend(blocks.iter().map(|part| &**part));
                if let Some(FilledIn { at, bytes }) = stamp {
                    parts[2 + at] = bytes;
                }
                append(&parts)
            }
        }
    }
}

/// Blocks that are packed.
struct Blocks<'a> {
    compression: Compression,
    parts: Vec<Cow<'a, [u8]>>,
    stored_bytes: usize,
    in_vain: u32,
    skip: u32,
}

impl<'a> Blocks<'a> {
    fn add(&mut self, raw: &'a [u8]) {
        let block = if self.skip == 0 { compressed(raw, self.compression) } else { None };
        if let Some(block) = block {
            self.stored_bytes += block.len();
            self.parts.push(Cow::Owned(block));
            self.in_vain = 0;
            return;
        }
        if self.skip > 0 {
            self.skip -= 1;
        } else if raw.len() == BLOCK_BYTES {
            self.in_vain = (self.in_vain + 1).min(IN_VAIN_MAX);
            self.skip = (1 << self.in_vain) - 1;
        }
        self.add_as_it_is(raw);
    }

    fn add_as_it_is(&mut self, raw: &'a [u8]) {
        let header = header(raw.len(), raw.len(), Compression::None);
        self.stored_bytes += header.len() + raw.len();
        self.parts.extend([Cow::Owned(header.to_vec()), Cow::Borrowed(raw)]);
    }
}

/// Bytes of a packed payload before its head.
const HEAD_LENGTH_BYTES: usize = 4;
/// After this number of blocks tried in vain, one of `1 << IN_VAIN_MAX` is tried: one in 16 MiB.
const IN_VAIN_MAX: u32 = 6;

/// How many sectors of the log a commit takes that is a group alone and has a payload of `bytes` bytes. The few
/// bytes of the head, and the headers of further fragments, are left out.
const fn sectors(bytes: usize) -> u64 {
    u64_of(MARKER_BYTES + FRAGMENT_HEADER_BYTES + bytes).div_ceil(SECTOR)
}

/// A block with its header, if it is worth it.
fn compressed(raw: &[u8], compression: Compression) -> Option<Vec<u8>> {
    compression.compress(raw, |stored| {
        stored.map(|stored| [&header(raw.len(), stored.len(), compression)[..], stored].concat())
    })
}

fn header(raw_bytes: usize, stored_bytes: usize, compression: Compression) -> [u8; 8] {
    let mut header = [0; 8];
    header[..4].copy_from_slice(&u32_of(raw_bytes).to_le_bytes());
    header[4..].copy_from_slice(&(u32_of(stored_bytes) | (compression as u32) << LENGTH_BITS).to_le_bytes());
    header
}

/// Why a payload cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum UnpackError {
    /// It was not packed so.
    Malformed,
    /// This build lacks the compression.
    NotBuilt(Compression),
}

impl From<Malformed> for UnpackError {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// Makes `out` the payload that was packed. Memory grows with what the blocks really hold, never by a length alone.
///
/// # Errors
/// When the bytes were not packed so, or with a compression that is not built in.
pub(in crate::log) fn unpack(packed: &[u8], out: &mut Vec<u8>) -> Result<(), UnpackError> {
    let mut decoder = Decoder::new(packed);
    out.clear();
    let head = decoder.u32()?;
    out.extend_from_slice(decoder.bytes(usize_of32(head))?);
    while !decoder.is_empty() {
        let (raw_bytes, word) = (usize_of32(decoder.u32()?), decoder.u32()?);
        let stored = decoder.bytes(usize_of32(word & LENGTH_MASK))?;
        let compression = u8::try_from(word >> LENGTH_BITS).ok().and_then(Compression::from_byte).ok_or(Malformed)?;
        match compression {
            _ if !compression.is_built() => return Err(UnpackError::NotBuilt(compression)),
            _ if raw_bytes == 0 || raw_bytes > BLOCK_BYTES => return Err(UnpackError::Malformed),
            Compression::None if stored.len() != raw_bytes => return Err(UnpackError::Malformed),
            Compression::None => out.extend_from_slice(stored),
            Compression::Lz4 | Compression::Zstd => {
                let start = out.len();
                out.resize(start + raw_bytes, 0);
                compression.decompress(stored, &mut out[start..])?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that no compression shrinks.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word.to_le_bytes()[0]
        };
        (0..bytes).map(|_| next()).collect()
    }

    fn payload(packed: &Packed<'_>, head: &[u8]) -> Vec<u8> {
        packed.with_parts(head, |parts| parts.concat())
    }

    #[test]
    fn what_is_packed_comes_back() {
        let (noise, text) = (noise(700_000), b"some words of a row ".repeat(40_000));
        let mixed = [&text[..300_000], &noise, &text].concat();
        for compression in [Compression::Lz4, Compression::Zstd] {
            for body in [&text[..5000], &text[..BLOCK_BYTES], &text[..BLOCK_BYTES + 1], &text, &mixed] {
                let packed = Packed::new(body, compression, None);
                assert!(packed.is_packed() && packed.raw_bytes == body.len());
                let bytes = payload(&packed, b"head");
                assert!(bytes.len() < body.len());
                let mut out = vec![1; 10];
                unpack(&bytes, &mut out).unwrap();
                assert!(out == [b"head", body].concat(), "{} bytes", body.len());
            }
        }
    }

    #[test]
    fn bytes_that_are_filled_in_later_come_back_from_every_form() {
        let text = b"some words of a row ".repeat(30_000);
        for (body, compression) in
            [(&text[..100], Compression::None), (&text[..5000], Compression::Lz4), (&text, Compression::Zstd)]
        {
            for at in [0, 1, body.len() / 2, body.len() - STAMP_BYTES] {
                let mut packed = Packed::new(body, compression, Some(at));
                packed.fill(*b"the time");
                let (bytes, mut out) = (payload(&packed, b"head"), Vec::new());
                match packed.is_packed() {
                    true => unpack(&bytes, &mut out).unwrap(),
                    false => out = bytes,
                }
                let whole = [b"head", &body[..at], b"the time", &body[at + STAMP_BYTES..]].concat();
                assert!(out == whole, "{} bytes, at {at}", body.len());
                assert_eq!(packed.is_packed(), compression != Compression::None);
            }
        }
    }

    #[test]
    fn what_saves_no_sector_stays_as_it_is() {
        let text = b"some words of a row ".repeat(40_000);
        let noise = noise(4_000_000);
        for body in [&text[..0], &text[..4056], &noise[..5000], &noise] {
            for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
                let packed = Packed::new(body, compression, None);
                assert!(!packed.is_packed() && payload(&packed, b"head") == [b"head", body].concat());
            }
        }
        // An eighth less, and still as many sectors.
        let body = [&noise[..4300], &text[..1000]].concat();
        assert!(!Packed::new(&body, Compression::Lz4, None).is_packed());
        assert!(!Packed::new(&text, Compression::None, None).is_packed());
        assert!(Packed::new(&text[..4057], Compression::Lz4, None).is_packed());
    }

    #[test]
    fn bytes_that_were_not_packed_are_malformed_and_take_no_memory() {
        let body = b"some words of a row ".repeat(1000);
        let whole = payload(&Packed::new(&body, Compression::Lz4, None), b"head");
        let mut out = Vec::new();
        for cut in (0..whole.len()).filter(|cut| *cut != 8) {
            assert_eq!(unpack(&whole[..cut], &mut out), Err(UnpackError::Malformed), "cut at {cut}");
        }
        let block = |raw: u32, word: u32| [&0u32.to_le_bytes()[..], &raw.to_le_bytes(), &word.to_le_bytes()].concat();
        let lz4 = (Compression::Lz4 as u32) << LENGTH_BITS;
        for (raw, word) in [(0, 0), (u32::MAX, lz4), (1 << 20, lz4), (100, 0), (100, lz4), (5, 9 << LENGTH_BITS)] {
            let mut out = Vec::new();
            assert_eq!(unpack(&block(raw, word), &mut out), Err(UnpackError::Malformed), "{raw} {word:x}");
            assert!(out.capacity() <= BLOCK_BYTES);
        }
        assert_eq!(unpack(&[0xff; 20], &mut out), Err(UnpackError::Malformed));
    }
}
