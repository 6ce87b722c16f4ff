//! A member tells another one of its set that it takes it for one, and hears whether it is taken for one itself. So a
//! member finds out what happened while it could not be reached: that it was removed, that it lost a part of its log,
//! or that the set goes on without it.
//!
//! # Format
//! Numbers are varints, identities have 8 bytes, strings have their lengths before them, flags have a byte each.

use spinney::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};

use super::log_entry::LogId;

/// What a member tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// The identity of the caller's copy of the log.
    pub(crate) identity: u64,
    /// The identity that the caller's configuration has at the address that is called.
    pub(crate) expected: u64,
    /// The caller's address.
    pub(crate) host: String,
    /// The identity of the caller's set.
    pub(crate) set_id: [u8; 12],
    /// Whether the caller's set has a primary, as far as it knows.
    pub(crate) has_primary: bool,
    /// The index up to which the member that is called had acknowledged the log of the caller, which leads, where it
    /// has lost a part of that; 0 else.
    pub(crate) owed: u64,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduced {
    /// The identity of the set of the member that answers; zeros when it is of none.
    pub(crate) set_id: [u8; 12],
    /// Where the log has the members that a majority agreed on, as far as the member knows.
    pub(crate) members_at: LogId,
    /// Whether the caller is one of these.
    pub(crate) is_member: bool,
}

impl Introduction {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.identity.to_le_bytes().to_vec();
        out.extend_from_slice(&self.expected.to_le_bytes());
        put_len_prefixed(&mut out, self.host.as_bytes());
        out.extend_from_slice(&self.set_id);
        out.push(u8::from(self.has_primary));
        put_varint(&mut out, self.owed);
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        let (identity, expected) = (input.u64()?, input.u64()?);
        let host = String::from_utf8(input.len_prefixed()?.to_vec()).map_err(|_| Malformed)?;
        let (set_id, has_primary) = (input.array()?, input.u8()? != 0);
        Ok(Self { identity, expected, host, set_id, has_primary, owed: input.varint()? })
    }
}

impl Introduced {
    /// The bytes.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = self.set_id.to_vec();
        self.members_at.encode(&mut out);
        out.push(u8::from(self.is_member));
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        Ok(Self { set_id: input.array()?, members_at: LogId::decode(&mut input)?, is_member: input.u8()? != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_and_its_answer_come_back() {
        let (host, set_id) = ("a:1".to_owned(), [3; 12]);
        let introduction = Introduction { identity: 7, expected: 8, host, set_id, has_primary: true, owed: 900 };
        let bytes = introduction.encode();
        assert_eq!(Introduction::decode(&bytes), Ok(introduction));
        (0..bytes.len()).for_each(|len| assert!(Introduction::decode(&bytes[..len]).is_err()));
        let answer = Introduced { set_id: [3; 12], members_at: LogId { term: 2, index: 300 }, is_member: true };
        let bytes = answer.encode();
        assert_eq!(Introduced::decode(&bytes), Ok(answer));
        (0..bytes.len()).for_each(|len| assert!(Introduced::decode(&bytes[..len]).is_err()));
    }
}
