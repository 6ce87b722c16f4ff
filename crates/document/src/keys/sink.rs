//! Where an encoding appends its bytes.

/// Where a key is appended, complemented or not.
pub(super) struct Sink<'k> {
    key: &'k mut Vec<u8>,
}

impl<'k> Sink<'k> {
    pub(super) fn new(key: &'k mut Vec<u8>) -> Self {
        Self { key }
    }

    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        self.key.push(byte);
    }

    #[inline]
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.key.extend_from_slice(bytes);
    }

    pub(super) fn extend_complemented(&mut self, bytes: &[u8]) {
        self.key.extend(bytes.iter().map(|byte| !byte));
    }
}
