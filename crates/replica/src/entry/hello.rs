//! What a member says of itself to another one that is about to make it a member of its set.
//!
//! # Format
//! The identity, 8 bytes; a byte of flags; the applied index and one, or 0; the name of the set with its length.

use spinney::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The identity of its copy of the log.
    pub(crate) identity: u64,
    /// Whether it knows a configuration, or has entries of one.
    pub(crate) initiated: bool,
    /// Whether its database has collections.
    pub(crate) has_data: bool,
    /// The index up to which it has applied entries.
    pub(crate) applied: Option<u64>,
    /// The name of its set.
    pub(crate) set_name: String,
}

impl Hello {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.identity.to_le_bytes().to_vec();
        out.push(u8::from(self.initiated) | u8::from(self.has_data) << 1);
        put_varint(&mut out, self.applied.map_or(0, |applied| applied + 1));
        put_len_prefixed(&mut out, self.set_name.as_bytes());
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        let (identity, flags) = (input.u64()?, input.u8()?);
        let applied = input.varint()?.checked_sub(1);
        let set_name = String::from_utf8(input.len_prefixed()?.to_vec()).map_err(|_| Malformed)?;
        Ok(Self { identity, initiated: flags & 1 != 0, has_data: flags & 2 != 0, applied, set_name })
    }
}
