//! The position of a separated value in its value file.
//!
//! # Format
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | id of the value file |
//! | 8 | 16 | pointer to the block that is the value ([`BlockPointer`]) |

use crate::base::codec::Decoder;
use crate::base::{Error, ErrorKind, FileId, Result};
use crate::block::BlockPointer;

/// Where a value lies: in which value file, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuePointer {
    /// The value file.
    pub file: FileId,
    /// The block that is the value.
    pub block: BlockPointer,
}

impl ValuePointer {
    /// Length of a stored pointer in bytes.
    pub const BYTES: usize = 8 + BlockPointer::BYTES;

    /// The pointer as it is stored in place of a value.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.file.0.to_le_bytes());
        out[8..].copy_from_slice(&self.block.encode());
        out
    }

    /// Reads what is stored in place of a value.
    ///
    /// # Errors
    /// `Corruption` when it is no pointer.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::new(bytes);
        let read = |decoder: &mut Decoder<'_>| {
            Ok(Self { file: FileId(decoder.u64()?), block: BlockPointer::decode(decoder)? })
        };
        match read(&mut decoder) {
            Ok(pointer) if decoder.is_empty() => Ok(pointer),
            Ok(_) | Err(crate::base::codec::Malformed) => {
                Err(Error::new(ErrorKind::Corruption, "the entry of a separated value holds no pointer"))
            }
        }
    }
}
