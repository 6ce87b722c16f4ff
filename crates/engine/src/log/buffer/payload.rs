//! A payload on its way into fragments: several byte slices read as one.

use crate::env::AlignedBuffer;
use crate::log::format::Form;

/// The part of a payload that no fragment holds yet.
#[derive(Debug)]
pub(in crate::log) struct Payload<'a> {
    /// The slices not yet taken in full.
    parts: &'a [&'a [u8]],
    /// How many bytes of the first of them are taken.
    taken: usize,
    left: usize,
    begun: bool,
    form: Form,
}

impl<'a> Payload<'a> {
    /// A payload whose parts are what is stored of it.
    pub(in crate::log) fn new(parts: &'a [&'a [u8]], form: Form) -> Self {
        Self { parts, taken: 0, left: parts.iter().map(|part| part.len()).sum(), begun: false, form }
    }

    /// Bytes not yet taken.
    pub(in crate::log) const fn left(&self) -> usize {
        self.left
    }

    /// How it is stored.
    pub(in crate::log) const fn form(&self) -> Form {
        self.form
    }

    /// Whether a fragment has taken some of it.
    pub(in crate::log) const fn is_begun(&self) -> bool {
        self.begun
    }

    /// Whether the last fragment has been taken.
    pub(in crate::log) const fn is_done(&self) -> bool {
        self.begun && self.left == 0
    }

    /// Appends the next `len` bytes to `out`.
    #[inline]
    pub(in crate::log) fn take(&mut self, len: usize, out: &mut AlignedBuffer) {
        self.begun = true;
        self.left = self.left.checked_sub(len).expect("no more is taken than is left");
        let mut wanted = len;
        while let Some((part, rest)) = self.parts.split_first() {
            let part = &part[self.taken..];
            if part.len() > wanted {
                out.extend_from_slice(&part[..wanted]);
                self.taken += wanted;
                return;
            }
            out.extend_from_slice(part);
            wanted -= part.len();
            (self.parts, self.taken) = (rest, 0);
        }
        assert_eq!(wanted, 0, "no more is taken than is left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_make_up_the_whole() {
        let parts: [&[u8]; 5] = [b"", b"ab", b"cdefg", b"", b"h"];
        for size in 1..10 {
            let (mut payload, mut out) = (Payload::new(&parts, Form::Plain), AlignedBuffer::default());
            while !payload.is_done() {
                payload.take(size.min(payload.left()), &mut out);
            }
            assert_eq!(*out, *b"abcdefgh");
        }
    }

    #[test]
    fn an_empty_payload_is_one_empty_piece() {
        let (mut payload, mut out) = (Payload::new(&[], Form::Plain), AlignedBuffer::default());
        assert!(!payload.is_done());
        payload.take(0, &mut out);
        assert!(payload.is_done() && out.is_empty());
    }
}
