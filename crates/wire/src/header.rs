//! The header of a message.
//!
//! # Format
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | length of the whole message, header included |
//! | 4 | 4 | request id, which the reply names |
//! | 8 | 4 | the request that a reply answers, else 0 |
//! | 12 | 4 | opcode |

use spinney_document::{Error, ErrorCode, Result};

/// The size of a header.
pub const HEADER_BYTES: usize = 16;

/// The longest message, header included.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// What the body of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpCode {
    /// `OP_REPLY`: the answer to [`Self::Query`] and [`Self::GetMore`].
    Reply,
    /// `OP_UPDATE`, without a reply.
    Update,
    /// `OP_INSERT`, without a reply.
    Insert,
    /// `OP_QUERY`: a find, or a command on the collection `$cmd`.
    Query,
    /// `OP_GET_MORE`: the next documents of a cursor.
    GetMore,
    /// `OP_DELETE`, without a reply.
    Delete,
    /// `OP_KILL_CURSORS`, without a reply.
    KillCursors,
    /// `OP_COMPRESSED`: another message, compressed.
    Compressed,
    /// `OP_MSG`: a command, or a reply.
    Message,
}

/// The opcodes with their numbers.
const OPCODES: [(OpCode, i32); 9] = [
    (OpCode::Reply, 1),
    (OpCode::Update, 2001),
    (OpCode::Insert, 2002),
    (OpCode::Query, 2004),
    (OpCode::GetMore, 2005),
    (OpCode::Delete, 2006),
    (OpCode::KillCursors, 2007),
    (OpCode::Compressed, 2012),
    (OpCode::Message, 2013),
];

impl OpCode {
    /// The number in a header.
    #[must_use]
    pub fn number(self) -> i32 {
        OPCODES.iter().find(|(code, _)| *code == self).map_or(0, |(_, number)| *number)
    }

    /// The opcode with a number.
    ///
    /// # Errors
    /// `ProtocolError` (17) when there is none.
    pub fn from_number(number: i32) -> Result<Self> {
        let known = OPCODES.iter().find(|(_, known)| *known == number).map(|(code, _)| *code);
        known.ok_or_else(|| Error::new(ErrorCode::PROTOCOL_ERROR, format!("no such opcode: {number}")))
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The length of the whole message.
    pub len: usize,
    /// The number that the reply names.
    pub request_id: i32,
    /// The request that a reply answers.
    pub response_to: i32,
    /// What the body is.
    pub opcode: OpCode,
}

impl Header {
    /// The header at the beginning of a message.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the length is less than a header's or more than [`MESSAGE_BYTES_MAX`], or the opcode
    /// is not known: what follows cannot be read either.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self> {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
        let len = i32::from_le_bytes([a, b, c, d]);
        let len = usize::try_from(len).ok().filter(|len| (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(len));
        let len = len.ok_or_else(|| {
            let what = format!("a message has {HEADER_BYTES} to {MESSAGE_BYTES_MAX} bytes");
            Error::new(ErrorCode::PROTOCOL_ERROR, what)
        })?;
        Ok(Self {
            len,
            request_id: i32::from_le_bytes([e, f, g, h]),
            response_to: i32::from_le_bytes([i, j, k, l]),
            opcode: OpCode::from_number(i32::from_le_bytes([m, n, o, p]))?,
        })
    }

    /// The bytes of the header.
    ///
    /// # Panics
    /// When the length is over 4 GiB, which no writer of this crate makes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let len = u32::try_from(self.len).expect("the writers bound their messages");
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.request_id.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.response_to.to_le_bytes());
        bytes[12..].copy_from_slice(&self.opcode.number().to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_its_bytes() {
        for (opcode, number) in OPCODES {
            let header = Header { len: 300, request_id: -7, response_to: 9, opcode };
            let bytes = header.to_bytes();
            assert_eq!(Header::parse(&bytes).unwrap(), header);
            assert_eq!(bytes[12..], number.to_le_bytes());
        }
    }

    #[test]
    fn lengths_out_of_bounds_and_unknown_opcodes_are_refused() {
        let header = Header { len: 16, request_id: 1, response_to: 0, opcode: OpCode::Message };
        for len in [0, 15, -1, 48_000_001, i32::MAX] {
            let mut bytes = header.to_bytes();
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            assert_eq!(Header::parse(&bytes).unwrap_err().code(), ErrorCode::PROTOCOL_ERROR);
        }
        let mut bytes = header.to_bytes();
        bytes[12..].copy_from_slice(&2011_i32.to_le_bytes());
        assert_eq!(Header::parse(&bytes).unwrap_err().code(), ErrorCode::PROTOCOL_ERROR);
    }
}
