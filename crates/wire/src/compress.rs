//! `OP_COMPRESSED`: another message's body, compressed.
//!
//! # Format
//!
//! opcode of the message within (4), size of its body before compression (4), compressor (1), compressed body.
//!
//! # Invariants
//!
//! What a body grows to is bounded by the size that it names, that by [`MESSAGE_BYTES_MAX`], and memory is taken as the
//! bytes come out, not as the size promises.

use std::io::Read;

use snap::raw::{Decoder, Encoder, decompress_len};
use spinney_document::base::num::u64_of;
use spinney_document::{Error, ErrorCode, Result};

use super::header::{HEADER_BYTES, MESSAGE_BYTES_MAX, OpCode};
use super::reader::{Reader, malformed};

/// How many bytes of a body with Snappy a byte of its compressed form can make, rounded up: three bytes copy 64.
const SNAPPY_RATIO_MAX: usize = 22;

/// The largest window of a body with Zstandard, as a power of two.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How hard Zstandard and zlib try: what MongoDB's drivers use by default.
const ZSTD_LEVEL: i32 = 3;

/// A method of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// Not compressed.
    Noop,
    /// Snappy.
    Snappy,
    /// zlib.
    Zlib,
    /// Zstandard.
    Zstd,
}

/// The compressors that a server offers, with their names in a handshake and their numbers; the best first.
const COMPRESSORS: [(Compressor, &str, u8); 4] = [
    (Compressor::Zstd, "zstd", 3),
    (Compressor::Snappy, "snappy", 1),
    (Compressor::Zlib, "zlib", 2),
    (Compressor::Noop, "noop", 0),
];

impl Compressor {
    /// The compressor with a name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        COMPRESSORS.iter().find(|(_, known, _)| *known == name).map(|(compressor, ..)| *compressor)
    }

    /// The name in a handshake.
    #[must_use]
    pub fn name(self) -> &'static str {
        COMPRESSORS.iter().find(|(known, ..)| *known == self).map_or("noop", |(_, name, _)| name)
    }

    fn number(self) -> u8 {
        COMPRESSORS.iter().find(|(known, ..)| *known == self).map_or(0, |(.., number)| *number)
    }
}

/// How many bytes at the front of the body of an `OP_COMPRESSED` tell what it is.
pub const COMPRESSED_HEAD_BYTES: usize = 9;

/// The size of the body within an `OP_COMPRESSED` as its head promises it, up to the greatest that there may be.
#[must_use]
pub fn promised_bytes(head: &[u8]) -> usize {
    let size = head.get(4..8).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| i32::from_le_bytes(*bytes));
    usize::try_from(size).unwrap_or(0).min(MESSAGE_BYTES_MAX)
}

/// The opcode and body of the message within the body of an `OP_COMPRESSED`, and how it was compressed.
///
/// # Errors
/// `ProtocolError` (17) when the message within is a compressed one too, the sizes are wrong or the bytes make no
/// sense.
pub fn decompress(body: &[u8]) -> Result<(OpCode, Compressor, Vec<u8>)> {
    let mut reader = Reader::new(body);
    let opcode = OpCode::from_number(reader.i32()?)?;
    if opcode == OpCode::Compressed {
        return Err(malformed("it is compressed twice"));
    }
    let size = usize::try_from(reader.i32()?).ok().filter(|size| *size <= MESSAGE_BYTES_MAX - HEADER_BYTES);
    let size = size.ok_or_else(|| malformed("the size of a compressed body is out of bounds"))?;
    let number = reader.u8()?;
    let known = COMPRESSORS.iter().find(|(.., known)| *known == number).map(|(compressor, ..)| *compressor);
    let compressor = known.ok_or_else(|| malformed("no such compressor"))?;
    let bytes = reader.take(reader.remaining())?;
    let plain = match compressor {
        Compressor::Noop => bytes.to_vec(),
        Compressor::Snappy => from_snappy(bytes, size)?,
        Compressor::Zlib => read_bounded(flate2::read::ZlibDecoder::new(bytes), size)?,
        Compressor::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(|error| broken(&error))?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(|error| broken(&error))?;
            read_bounded(decoder, size)?
        }
    };
    if plain.len() != size {
        return Err(malformed("the size of a compressed body is wrong"));
    }
    Ok((opcode, compressor, plain))
}

/// The body of an `OP_COMPRESSED` around a message's body.
///
/// # Errors
/// `InternalError` (1) when the compressor fails, which it has no reason to.
pub fn compress(compressor: Compressor, opcode: OpCode, body: &[u8]) -> Result<Vec<u8>> {
    let failed = |error: &dyn std::error::Error| Error::new(ErrorCode::INTERNAL_ERROR, error.to_string());
    let bytes = match compressor {
        Compressor::Noop => body.to_vec(),
        Compressor::Snappy => Encoder::new().compress_vec(body).map_err(|error| failed(&error))?,
        Compressor::Zlib => {
            let mut bytes = Vec::new();
            let mut encoder = flate2::read::ZlibEncoder::new(body, flate2::Compression::default());
            encoder.read_to_end(&mut bytes).map_err(|error| failed(&error))?;
            bytes
        }
        Compressor::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL).map_err(|error| failed(&error))?,
    };
    let mut message = Vec::with_capacity(COMPRESSED_HEAD_BYTES + bytes.len());
    message.extend_from_slice(&opcode.number().to_le_bytes());
    message.extend_from_slice(&i32::try_from(body.len()).unwrap_or(i32::MAX).to_le_bytes());
    message.push(compressor.number());
    message.extend_from_slice(&bytes);
    Ok(message)
}

fn broken(error: &dyn std::error::Error) -> Error {
    malformed(&format!("a compressed body makes no sense: {error}"))
}

fn from_snappy(bytes: &[u8], size: usize) -> Result<Vec<u8>> {
    let promised = decompress_len(bytes).map_err(|error| broken(&error))?;
    if promised != size || promised / SNAPPY_RATIO_MAX > bytes.len() {
        return Err(malformed("the size of a compressed body is wrong"));
    }
    Decoder::new().decompress_vec(bytes).map_err(|error| broken(&error))
}

/// All that comes out of a decoder, but at most a byte more than it should be.
fn read_bounded(decoder: impl Read, size: usize) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take(u64_of(size) + 1).read_to_end(&mut plain).map_err(|error| broken(&error))?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compressor_gives_back_what_it_took() {
        let body: Vec<u8> = (0..10_000_u32).flat_map(|number| (number % 77).to_le_bytes()).collect();
        for (compressor, name, _) in COMPRESSORS {
            let bytes = compress(compressor, OpCode::Message, &body).unwrap();
            assert_eq!(decompress(&bytes).unwrap(), (OpCode::Message, compressor, body.clone()), "{name}");
            assert_eq!(Compressor::from_name(name), Some(compressor));
            for at in 0..bytes.len() {
                assert!(decompress(&bytes[..at]).is_err(), "{name} cut at {at}");
            }
        }
    }

    #[test]
    fn a_size_that_lies_is_refused() {
        let body = vec![7; 100_000];
        for (compressor, ..) in COMPRESSORS {
            let bytes = compress(compressor, OpCode::Message, &body).unwrap();
            for size in [0, 1, 99_999, 100_001, 47_999_984, 47_999_985, i32::MAX, -1] {
                let mut lying = bytes.clone();
                lying[4..8].copy_from_slice(&size.to_le_bytes());
                assert_eq!(decompress(&lying).unwrap_err().code(), ErrorCode::PROTOCOL_ERROR);
            }
        }
    }

    #[test]
    fn a_bomb_ends_at_the_size_it_names() {
        let bomb = vec![0; 200 << 20];
        for compressor in [Compressor::Zlib, Compressor::Zstd] {
            let mut bytes = compress(compressor, OpCode::Message, &bomb).unwrap();
            bytes[4..8].copy_from_slice(&1000_i32.to_le_bytes());
            assert!(decompress(&bytes).is_err());
        }
    }

    #[test]
    fn changed_bytes_do_not_panic() {
        let body: Vec<u8> = (0..500_u32).flat_map(|number| (number % 77).to_le_bytes()).collect();
        for (compressor, ..) in COMPRESSORS {
            let bytes = compress(compressor, OpCode::Message, &body).unwrap();
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x55;
                if let Ok((.., plain)) = decompress(&changed) {
                    assert!(plain.len() <= MESSAGE_BYTES_MAX);
                }
            }
        }
    }
}
