//! Compression of bytes that are written: blocks of the trees and payloads of the redo log.

use crate::base::codec::Malformed;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::names;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use std::cell::RefCell;

/// Zstandard's level: on blocks of a few KiB the higher ones cost much more time than they save bytes.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 1;

/// Bytes of at most this many use buffers that each thread keeps.
const KEEP_BYTES: usize = 1 << 20;

/// How a block is compressed on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all. Stored; never reuse the number.
    None = 0,
    /// LZ4: fast to read, saves about half on text. Stored; never reuse the number.
    #[default]
    Lz4 = 1,
    /// Zstandard at a low level: smaller, and several times slower to read. Only with the Cargo feature `zstd`; without
    /// it, tables and logs that are compressed so are refused with `Unsupported`. Stored; never reuse the number.
    Zstd = 2,
}

names! { Compression, "compression", { None => "none", Lz4 => "lz4", Zstd => "zstd", } }

impl Compression {
    /// The compression that a stored byte names, if any.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::None),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Whether this build can compress and decompress so.
    #[must_use]
    pub const fn is_built(self) -> bool {
        cfg!(feature = "zstd") || !matches!(self, Self::Zstd)
    }

    /// Checks that this build can compress and decompress so.
    ///
    /// # Errors
    /// `Unsupported`: see [`Self::not_built`].
    pub fn check_built(self, what: &str) -> Result<()> {
        if self.is_built() { Ok(()) } else { Err(self.not_built(what)) }
    }

    /// The error of a build without this compression, which names what is compressed so and the feature that is
    /// missing.
    #[must_use]
    pub fn not_built(self, what: &str) -> Error {
        let message =
            format!("{what} is compressed with {self:?}, which this build lacks: enable the Cargo feature `zstd`");
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Hands `bytes` compressed to `put`, or `None` when that does not save an eighth of them: not enough to be worth
    /// the reader's time.
    pub fn compress<R>(self, bytes: &[u8], put: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match self {
            Self::None => put(None),
            _ if bytes.len() > KEEP_BYTES => put(Codec::default().compress(bytes, self)),
            _ => CODEC.with_borrow_mut(|codec| put(codec.compress(bytes, self))),
        }
    }

    /// Fills `out` with what `payload` is the compressed form of.
    ///
    /// # Errors
    /// [`Malformed`] when the payload is not what [`Self::compress`] made of as many bytes.
    pub fn decompress(self, payload: &[u8], out: &mut [u8]) -> Result<(), Malformed> {
        CODEC.with_borrow_mut(|codec| codec.decompress(payload, self, out))
    }
}

/// What a thread keeps to compress and decompress one block after the other.
#[derive(Default)]
struct Codec {
    lz4: CompressTable,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
    #[cfg(feature = "zstd")]
    unzstd: Option<zstd::bulk::Decompressor<'static>>,
    scratch: Vec<u8>,
}

thread_local! {
    static CODEC: RefCell<Codec> = RefCell::default();
}

impl Codec {
    fn compress(&mut self, image: &[u8], compression: Compression) -> Option<&[u8]> {
        let bytes_max = image.len() - image.len() / 8;
        let bound = match compression {
            Compression::None => return None,
            Compression::Lz4 => get_maximum_output_size(image.len()),
            Compression::Zstd => bytes_max,
        };
        if self.scratch.len() < bound {
            self.scratch.resize(bound, 0);
        }
        let bytes = match compression {
            Compression::None => return None,
            Compression::Lz4 => compress_into_with_table(image, &mut self.scratch, &mut self.lz4).ok()?,
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => return None,
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                if self.zstd.is_none() {
                    self.zstd = Some(zstd::bulk::Compressor::new(ZSTD_LEVEL).ok()?);
                }
                self.zstd.as_mut()?.compress_to_buffer(image, &mut self.scratch[..bound]).ok()?
            }
        };
        (bytes < bytes_max).then(|| &self.scratch[..bytes])
    }

    fn decompress(&mut self, payload: &[u8], compression: Compression, image: &mut [u8]) -> Result<(), Malformed> {
        let bytes = match compression {
            Compression::None => return Err(Malformed),
            Compression::Lz4 => decompress_into(payload, image).map_err(|_| Malformed)?,
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => return Err(Malformed),
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                if self.unzstd.is_none() {
                    self.unzstd = Some(zstd::bulk::Decompressor::new().map_err(|_| Malformed)?);
                }
                let decompressor = self.unzstd.as_mut().ok_or(Malformed)?;
                decompressor.decompress_to_buffer(payload, image).map_err(|_| Malformed)?
            }
        };
        if bytes == image.len() { Ok(()) } else { Err(Malformed) }
    }
}
