//! The request of a member whose data disagrees with the log, for a copy of the primary's database.
//!
//! # Format
//! The identity of the member, 8 bytes. Then nothing when it asks whether it may have one, or the place of the last
//! entry of its log.

use spinney::base::codec::{Decoder, Malformed};

use super::log_entry::LogId;

/// A request for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResyncRequest {
    /// Who asks.
    pub(crate) identity: u64,
    /// The last entry of its log, which has ended: the copy must have as much. Nothing when it asks whether it may have
    /// one.
    pub(crate) end: Option<LogId>,
}

impl ResyncRequest {
    /// The bytes.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = self.identity.to_le_bytes().to_vec();
        if let Some(end) = self.end {
            end.encode(&mut out);
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        let identity = input.u64()?;
        let end = if input.rest().is_empty() { None } else { Some(LogId::decode(&mut Decoder::new(&bytes[8..]))?) };
        Ok(Self { identity, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back() {
        for end in [None, Some(LogId { term: 3, index: 900 })] {
            let request = ResyncRequest { identity: 7, end };
            assert_eq!(ResyncRequest::decode(&request.encode()), Ok(request));
        }
        let bytes = ResyncRequest { identity: 7, end: Some(LogId { term: 3, index: 900 }) }.encode();
        for len in (0..bytes.len()).filter(|len| *len != 8) {
            assert_eq!(ResyncRequest::decode(&bytes[..len]), Err(Malformed));
        }
    }
}
