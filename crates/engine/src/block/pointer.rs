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

/// Where a block's frame lies, and what its checksum ends with. The checksum finds writes that never reached the
/// device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockPointer {
    /// Offset of the frame in its file.
    pub offset: u64,
    /// Length of the frame in bytes, as stored.
    pub bytes: u32,
    /// The low half of the frame's checksum.
    pub checksum: u32,
}

/// No offset is larger, so that a reader that reads ahead from there may add to it.
const OFFSET_MAX: u64 = 1 << 62;

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
    /// [`Malformed`] when fewer bytes remain, or the frame would lie beyond the end of any file.
    #[inline]
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let pointer = Self { offset: decoder.u64()?, bytes: decoder.u32()?, checksum: decoder.u32()? };
        if pointer.offset > OFFSET_MAX { Err(Malformed) } else { Ok(pointer) }
    }

    /// Where the frame ends in its file.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fuzzing found that a scan whose index, with a right checksum, pointed near the end of all numbers added its
    /// read-ahead beyond it.
    #[test]
    fn a_pointer_that_leaves_no_room_behind_it_is_malformed() {
        let decode = |offset| {
            let pointer = BlockPointer { offset, bytes: u32::MAX, checksum: 7 };
            BlockPointer::decode(&mut Decoder::new(&pointer.encode())).map(|decoded| decoded == pointer)
        };
        assert_eq!(decode(OFFSET_MAX), Ok(true));
        assert_eq!(decode(OFFSET_MAX + 1), Err(Malformed));
        assert_eq!(decode(u64::MAX), Err(Malformed));
    }
}
