//! A block's image as it lies on disk: checksummed, and compressed where that pays.
//!
//! # Format
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | XXH3-64 of everything behind it, seeded with the file's identity and the frame's offset |
//! | 8 | 4 | length of the payload |
//! | 12 | 4 | length of the image |
//! | 16 | 1 | [`Compression`] |
//! | 17 | 1 | 1 if it was stripped before it was compressed (see `block/strip.rs`), else 0 |
//! | 18 | 2 | zero |
//! | 20 | | the payload: the image, compressed |
//!
//! The seed finds blocks that were written to the wrong place or file; the half of the checksum in the [`BlockPointer`]
//! finds blocks that were not written at all, where an older one lay.

use super::format::IMAGE_BYTES_MAX;
use super::pointer::BlockPointer;
use super::strip::{rebuild, strip};
use crate::base::checksum::checksum;
use crate::base::codec::{Decoder, Malformed};
use crate::base::memory::Image;
use crate::base::num::{u32_of, u64_of, usize_of32};
use std::fmt;

pub use crate::base::compress::Compression;

/// Length of a frame's header in bytes.
pub const FRAME_HEADER_BYTES: usize = 20;
const CHECKSUM_BYTES: usize = 8;

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The bytes at hand are not as many as the pointer says.
    Length {
        /// What the pointer says.
        expected: u32,
        /// What is there.
        actual: usize,
    },
    /// The bytes are not those that were written here.
    Checksum {
        /// The checksum stored in the frame.
        stored: u64,
        /// The checksum of the bytes.
        actual: u64,
    },
    /// The frame is intact, but the pointer was made for another: a write was lost, or the pointer is stale.
    Stale {
        /// The half checksum in the pointer.
        expected: u32,
        /// That of the frame.
        actual: u32,
    },
    /// The bytes are those that were written, and yet no frame: they were written by a newer version or by a bug.
    Malformed,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { expected, actual } => {
                write!(f, "a block of {expected} bytes was expected and {actual} bytes are there")
            }
            Self::Checksum { stored, actual } => {
                write!(f, "the block's checksum is {actual:016x} and should be {stored:016x}")
            }
            Self::Stale { expected, actual } => {
                write!(f, "another block is here (checksum ..{actual:08x}) than its parent expects (..{expected:08x})")
            }
            Self::Malformed => f.write_str("the block has a valid checksum and is malformed"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<Malformed> for FrameError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Appends to `out` the frame of `image` that belongs at `offset` of the file that `identity` names.
///
/// Compression that saves less than an eighth is left out.
///
/// # Panics
/// When the image is longer than [`IMAGE_BYTES_MAX`].
pub fn encode(image: &[u8], compression: Compression, identity: u64, offset: u64, out: &mut Vec<u8>) -> BlockPointer {
    assert!(image.len() <= IMAGE_BYTES_MAX, "a block of {} bytes", image.len());
    let start = out.len();
    let stripped = if compression == Compression::None { None } else { strip(image) };
    let mut put = |payload: &[u8], compression: Compression, is_slimmed: bool| {
        out.reserve(FRAME_HEADER_BYTES + payload.len());
        out.extend_from_slice(&[0; CHECKSUM_BYTES]);
        out.extend_from_slice(&u32_of(payload.len()).to_le_bytes());
        out.extend_from_slice(&u32_of(image.len()).to_le_bytes());
        out.extend_from_slice(&[compression as u8, is_slimmed.into(), 0, 0]);
        out.extend_from_slice(payload);
    };
    compression.compress(stripped.as_deref().unwrap_or(image), |compressed| match compressed {
        Some(payload) => put(payload, compression, stripped.is_some()),
        None => put(image, Compression::None, false),
    });
    seal(&mut out[start..], identity, offset)
}

/// How the image in a frame is compressed, if it is a frame.
#[must_use]
pub fn compression_of(frame: &[u8]) -> Option<Compression> {
    let mut header = Decoder::new(frame.get(CHECKSUM_BYTES + 8..)?);
    form(&mut header).ok().map(|(compression, _)| compression)
}

/// Makes a frame belong at `offset` of the file that `identity` names, wherever it belonged before.
///
/// # Panics
/// When the bytes are too few to be a frame.
pub fn seal(frame: &mut [u8], identity: u64, offset: u64) -> BlockPointer {
    let sum = checksum(identity, offset, &frame[CHECKSUM_BYTES..]);
    frame[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    BlockPointer { offset, bytes: u32_of(frame.len()), checksum: low_half(sum) }
}

/// The image in a frame that was read where `pointer` says, from the file that `identity` names.
///
/// # Errors
/// [`FrameError`] when the frame is not what was written there.
pub fn decode(frame: &[u8], identity: u64, pointer: BlockPointer) -> Result<Image, FrameError> {
    if frame.len() != usize_of32(pointer.bytes) || frame.len() < FRAME_HEADER_BYTES {
        return Err(FrameError::Length { expected: pointer.bytes, actual: frame.len() });
    }
    let mut decoder = Decoder::new(frame);
    let stored = decoder.u64()?;
    let actual = checksum(identity, pointer.offset, decoder.rest());
    if stored != actual {
        return Err(FrameError::Checksum { stored, actual });
    }
    if low_half(actual) != pointer.checksum {
        return Err(FrameError::Stale { expected: pointer.checksum, actual: low_half(actual) });
    }
    let (payload_bytes, image_bytes) = (decoder.u32()?, usize_of32(decoder.u32()?));
    let (compression, is_slimmed) = form(&mut decoder)?;
    let payload = decoder.rest();
    if payload.len() != usize_of32(payload_bytes) || !plausible(payload, image_bytes, compression) {
        return Err(FrameError::Malformed);
    }
    if compression == Compression::None {
        return Ok(payload.into());
    }
    let mut image = Image::of_len(image_bytes);
    compression.decompress(payload, image.make_mut())?;
    if is_slimmed {
        rebuild(image.make_mut())?;
    }
    Ok(image)
}

/// How a payload was made, and whether of a stripped image: what a header ends with.
fn form(header: &mut Decoder<'_>) -> Result<(Compression, bool), Malformed> {
    match (Compression::from_byte(header.u8()?).ok_or(Malformed)?, header.array()?) {
        (compression, [0, 0, 0]) => Ok((compression, false)),
        (compression @ (Compression::Lz4 | Compression::Zstd), [1, 0, 0]) => Ok((compression, true)),
        _ => Err(Malformed),
    }
}

/// How long the frame is whose header begins `bytes`, if that may be a header: only [`pointer_to`] says whether it is
/// one.
#[must_use]
pub fn announced_bytes(bytes: &[u8]) -> Option<usize> {
    let mut decoder = Decoder::new(bytes.get(CHECKSUM_BYTES..)?);
    let (payload_bytes, image_bytes) = (decoder.u32().ok()?, decoder.u32().ok()?);
    let (compression, _) = form(&mut decoder).ok()?;
    let is_stored = compression == Compression::None && payload_bytes == image_bytes;
    let fits = is_stored || (compression != Compression::None && payload_bytes < image_bytes);
    let may_be = fits && image_bytes > 0 && usize_of32(image_bytes) <= IMAGE_BYTES_MAX;
    may_be.then(|| FRAME_HEADER_BYTES + usize_of32(payload_bytes))
}

/// The pointer that a parent would have to the intact frame that was read at `offset` of the file that `identity`
/// names. For a salvage, which looks for blocks to which nothing points any more.
#[must_use]
pub fn pointer_to(frame: &[u8], identity: u64, offset: u64) -> Option<BlockPointer> {
    let stored = Decoder::new(frame).u64().ok()?;
    let actual = checksum(identity, offset, frame.get(CHECKSUM_BYTES..)?);
    (stored == actual).then(|| BlockPointer { offset, bytes: u32_of(frame.len()), checksum: low_half(actual) })
}

/// Whether a payload may hold an image of this many bytes: bytes from outside must not size an allocation.
fn plausible(payload: &[u8], image_bytes: usize, compression: Compression) -> bool {
    let payload_bytes = u64_of(payload.len());
    let most = match compression {
        Compression::None => return image_bytes == payload.len() && image_bytes <= IMAGE_BYTES_MAX,
        // One byte of LZ4 encodes at most 255; a Zstandard block of four bytes for at most 128 KiB.
        Compression::Lz4 => payload_bytes * 256,
        Compression::Zstd => (payload_bytes + 16) * (32 << 10),
    };
    image_bytes <= IMAGE_BYTES_MAX && u64_of(image_bytes) <= most
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
const fn low_half(checksum: u64) -> u32 {
    checksum as u32
}
