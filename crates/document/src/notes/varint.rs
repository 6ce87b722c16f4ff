//! Numbers of few bytes, and bytes with their length.

use crate::base::num::{u64_of, usize_of};

pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            out.push(low & 0x7F);
            return;
        }
        out.push(low | 0x80);
    }
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, u64_of(bytes.len()));
    out.extend_from_slice(bytes);
}

/// Bytes that are read from their front; nothing where they end too soon.
#[derive(Debug)]
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        if len > u64_of(self.0.len()) {
            return None;
        }
        let (bytes, rest) = self.0.split_at(usize_of(len));
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut out = Vec::new();
        numbers.iter().for_each(|number| put(&mut out, *number));
        put_bytes(&mut out, b"abc");
        let mut input = Input(&out);
        assert!(numbers.iter().all(|number| input.number() == Some(*number)));
        assert_eq!(input.bytes(), Some(&b"abc"[..]));
        assert_eq!((input.byte(), input.number(), input.bytes()), (None, None, None));
        assert_eq!(Input(&[0xFF; 20]).number(), None);
        assert_eq!(Input(&[9, 1]).bytes(), None);
    }
}
