//! Checked decoding: a reader that never goes past its bytes and never trusts a length.
//!
//! Numbers are little-endian; varints are LEB128, at most ten bytes.

/// The bytes ended early, or a number was malformed. The caller knows the file and offset and makes an error of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads fields from the front of a byte slice.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not yet read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all bytes were read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when fewer remain.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (front, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(front)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// [`Malformed`] when fewer remain.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*front)
    }

    /// A `u8`.
    ///
    /// # Errors
    /// [`Malformed`] when no byte remains.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// A little-endian `u16`.
    ///
    /// # Errors
    /// [`Malformed`] when fewer bytes remain.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// A little-endian `u32`.
    ///
    /// # Errors
    /// [`Malformed`] when fewer bytes remain.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// A little-endian `u64`.
    ///
    /// # Errors
    /// [`Malformed`] when fewer bytes remain.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A varint.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes end inside it or it does not fit 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// A varint used as a length: never more than the bytes that remain.
    ///
    /// # Errors
    /// [`Malformed`] as for [`Self::varint`], or when the length is beyond the bytes that remain.
    #[inline]
    pub fn len_prefixed(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()?;
        let len = usize::try_from(len).map_err(|_| Malformed)?;
        self.bytes(len)
    }
}

/// Appends a varint.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes with their length in front, as [`Decoder::len_prefixed`] reads them.
#[inline]
pub fn put_len_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, super::num::u64_of(bytes.len()));
    out.extend_from_slice(bytes);
}

/// How many bytes [`put_varint`] appends for `value`.
#[inline]
#[must_use]
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value));
                let mut decoder = Decoder::new(&out);
                assert_eq!(decoder.varint(), Ok(value));
                assert!(decoder.is_empty());
            }
        }
    }

    #[test]
    fn a_length_beyond_the_bytes_is_malformed() {
        assert_eq!(Decoder::new(&[200, 1, 0]).len_prefixed(), Err(Malformed));
        assert_eq!(Decoder::new(&[0xff; 10]).varint(), Err(Malformed));
        assert_eq!(Decoder::new(&[1]).u16(), Err(Malformed));
    }
}
