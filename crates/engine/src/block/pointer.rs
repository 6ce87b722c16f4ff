//! Where a block lies in its file, and the half of its checksum that its parent keeps.
//!
//! # Format
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | offset of the frame in the file |
//! | 8 | 4 | length of the frame in bytes |
//! | 12 | 4 | low half of the frame's checksum |

use crate::base::codec::{Decoder, Malformed};

/// Where a block's frame lies, and what its checksum ends with. The checksum finds writes that never reached the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockPointer {
    /// Offset of the frame in its file.
    pub offset: u64,
    /// Length of the frame in bytes, as stored.
    pub bytes: u32,
    /// The low half of the frame's checksum.
    pub checksum: u32,
}

impl BlockPointer {
    /// Length of a stored pointer in bytes.
    pub const BYTES: usize = 16;

    /// The pointer as it is stored.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        out[12..].copy_from_slice(&self.checksum.to_le_bytes());
        out
    }

    /// Reads a pointer.
    ///
    /// # Errors
    /// [`Malformed`] when fewer bytes remain, or the frame would end beyond what a `u64` can count.
    #[inline]
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let pointer = Self { offset: decoder.u64()?, bytes: decoder.u32()?, checksum: decoder.u32()? };
        pointer.offset.checked_add(u64::from(pointer.bytes)).ok_or(Malformed)?;
        Ok(pointer)
    }

    /// Where the frame ends in its file.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes as u64)
    }
}
