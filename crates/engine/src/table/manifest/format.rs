//! The bytes of a manifest, and of the file that names the one in force.
//!
//! # Format
//! A file `NNN.manifest`: a header, then frames. The first frame is a [`Catalog`](crate::table::catalog::Catalog),
//! each later one an [`Edit`](crate::table::edit::Edit).
//!
//! | offset | size | header |
//! |---|---|---|
//! | 0 | 8 | magic `SPNMANIF` |
//! | 8 | 4 | format version, [`FORMAT_VERSION`] |
//! | 12 | 4 | zero |
//! | 16 | 8 | database id |
//! | 24 | 8 | checksum of bytes 0 to 23 |
//!
//! | offset | size | frame |
//! |---|---|---|
//! | 0 | 8 | checksum of the rest, seeded with the database id, the manifest's file id and the frame's offset |
//! | 8 | 4 | length of the payload |
//! | 12 | 4 | the low half of the length's own checksum, with the same seed |
//! | 16 | n | payload |
//!
//! Zeros may follow the last frame: room for frames to come that a full disk cannot take away.
//!
//! The length, magic, version and checksum of the header are in the same places in every version of this format: a
//! version counts only with a checksum that is right, so that damage does not pass for a newer format.
//!
//! A file `NNN.manifest-copy` holds the same bytes a second time.
//!
//! `CURRENT` is text of three lines: `spinney 2` (the format version), the name of the manifest in force, and the
//! checksum of the two lines before it as 16 hexadecimal digits. Every version has these lines.

use std::path::Path;

use crate::base::checksum::checksum;
use crate::base::codec::{Decoder, Malformed};
use crate::base::num::{u32_of, u64_of, usize_of32};
use crate::base::{Error, ErrorKind, FileId, Result};

/// The version of the database's format that this code writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"SPNMANIF";
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const FRAME_HEADER_BYTES: usize = 16;
/// Where the length of a frame's payload is in its header, and what its own checksum follows.
const LENGTH_AT: usize = 8;
const LENGTH_SUM_AT: usize = 12;
const _: () = assert!(LENGTH_SUM_AT == LENGTH_AT + 4 && FRAME_HEADER_BYTES == LENGTH_SUM_AT + 4);

pub(super) fn identity(database_id: u64, id: FileId) -> u64 {
    database_id ^ id.0.rotate_left(32)
}

pub(super) fn header(database_id: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&database_id.to_le_bytes());
    let sum = checksum(0, 0, &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    assert_eq!(bytes.len(), HEADER_BYTES);
    bytes
}

pub(super) fn check_header(path: &Path, bytes: &[u8]) -> Result<u64> {
    let mut decoder = Decoder::new(bytes);
    let mut read = || {
        let magic = decoder.array::<8>()?;
        let version = decoder.u32()?;
        let _zero = decoder.u32()?;
        Ok((magic, version, decoder.u64()?, decoder.u64()?))
    };
    let (magic, version, database_id, sum) =
        read().map_err(|_: Malformed| Error::corruption(path, 0, "the manifest is shorter than its header"))?;
    let damaged = || Error::corruption(path, 0, "the manifest's header is damaged");
    if magic != MAGIC {
        return Err(damaged());
    }
    if checksum(0, 0, &bytes[..24]) != sum {
        return Err(damaged());
    }
    check_version(version, path)?;
    Ok(database_id)
}

pub(super) fn check_version(version: u32, path: &Path) -> Result<()> {
    if version != FORMAT_VERSION {
        let other = if version > FORMAT_VERSION { "a newer" } else { "an older" };
        let message = format!(
            "{}: the database has format version {version}, this program reads {FORMAT_VERSION}: use {other} spinney",
            path.display()
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

pub(super) fn put_frame(out: &mut Vec<u8>, identity: u64, offset: u64, payload: &[u8]) {
    let start = out.len();
    let len = u32_of(payload.len());
    out.extend_from_slice(&[0; LENGTH_AT]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&length_sum(identity, offset, len).to_le_bytes());
    out.extend_from_slice(payload);
    let sum = checksum(identity, offset, &out[start + LENGTH_AT..]);
    out[start..start + LENGTH_AT].copy_from_slice(&sum.to_le_bytes());
}

/// What the header of a frame at `offset` says of its length besides the length.
pub(super) fn length_sum(identity: u64, offset: u64, len: u32) -> u32 {
    let [a, b, c, d, ..] = checksum(identity, offset, &len.to_le_bytes()).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The payload of the frame at `at`.
pub(super) fn frame_at(bytes: &[u8], identity: u64, at: usize) -> Result<&[u8], Malformed> {
    let frame = bytes.get(at..).ok_or(Malformed)?;
    let mut decoder = Decoder::new(frame);
    let (sum, len, length) = (decoder.u64()?, decoder.u32()?, decoder.u32()?);
    if length_sum(identity, u64_of(at), len) != length {
        return Err(Malformed);
    }
    let payload = decoder.bytes(usize_of32(len))?;
    let covered = &frame[LENGTH_AT..FRAME_HEADER_BYTES + payload.len()];
    if checksum(identity, u64_of(at), covered) == sum { Ok(payload) } else { Err(Malformed) }
}

/// Whether some good frame starts after the bad one at `at`: then the bad one is no torn tail.
pub(super) fn has_frame_after(bytes: &[u8], identity: u64, at: usize) -> bool {
    (at + 1..bytes.len()).any(|at| frame_at(bytes, identity, at).is_ok())
}

/// The version and the name of the manifest in the text of `CURRENT`, if its checksum is right.
pub(super) fn current_lines(text: &str) -> Option<(u32, &str)> {
    let (lines, sum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    if sum != current_sum(lines) {
        return None;
    }
    let (version, name) = lines.split_once('\n')?;
    Some((version.strip_prefix("spinney ")?.parse().ok()?, name))
}

pub(super) fn current_sum(lines: &str) -> String {
    format!("{:016x}", checksum(0, 0, lines.as_bytes()))
}
