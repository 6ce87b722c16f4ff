//! Where a stream goes on: the `_id` of an event.

use spinney::Lsn;

use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, Timestamp, Value};

/// The bytes of a token: position, place, kind, time.
const BYTES: usize = 8 + 4 + 1 + 8;

/// The bytes of the token of a fragment: those, and the number of the fragment.
const FRAGMENT_BYTES: usize = BYTES + 4;

/// A place between events. Later places have greater texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResumeToken {
    /// The commit, or what is behind all that was seen.
    pub at: Place,
    /// How many events of the commit were seen.
    pub seen: u32,
    /// What the last of them was.
    pub kind: TokenKind,
    /// The time of the event; of a place without an event, that of the first commit that is wanted.
    pub time: Timestamp,
    /// How many fragments of the last event were seen, when it was shown in fragments; 0 when it was shown whole.
    pub fragment: u32,
}

/// The bit that tells positions from LSNs, which are smaller.
const POSITION: u64 = 1 << 63;

/// A commit, or a point between commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the log of this database alone.
    Lsn(Lsn),
    /// Among the commits of a replica set, the same on each member.
    Position(u64),
}

impl Place {
    const fn bits(self) -> u64 {
        match self {
            Self::Lsn(lsn) => lsn.0,
            Self::Position(position) => position | POSITION,
        }
    }

    const fn of_bits(bits: u64) -> Self {
        if bits & POSITION == 0 { Self::Lsn(Lsn(bits)) } else { Self::Position(bits & !POSITION) }
    }
}

/// What a token stands behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenKind {
    /// Nothing but the time.
    Place,
    /// An event.
    Event,
    /// The event that ended a stream.
    Invalidate,
}

impl ResumeToken {
    /// The token as events have it: `{_data: ".."}`.
    #[must_use]
    pub fn document(&self) -> DocumentBuf {
        let kind = match self.kind {
            TokenKind::Place => 0,
            TokenKind::Event => 1,
            TokenKind::Invalidate => 2,
        };
        let mut bytes = Vec::with_capacity(FRAGMENT_BYTES);
        bytes.extend_from_slice(&self.at.bits().to_be_bytes());
        bytes.extend_from_slice(&self.seen.to_be_bytes());
        bytes.push(kind);
        bytes.extend_from_slice(&self.time.bits().to_be_bytes());
        if self.fragment > 0 {
            bytes.extend_from_slice(&self.fragment.to_be_bytes());
        }
        let text: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        doc! {"_data": text.as_str()}
    }

    /// The token in a document.
    ///
    /// # Errors
    /// 40647 without a text, 40649 for an empty one, `FailedToParse` (9) for one that is not of hexadecimal digits,
    /// `InvalidResumeToken` (260) for one of another server.
    pub fn parse(token: Document<'_>) -> Result<Self> {
        let refused = |code, what: &str| Err(Error::new(code, format!("Bad resume token: {what}: {token}")));
        let text = match (token.get("_data"), token.elements().count()) {
            (Some(Value::String(text)), 1) => text.as_str().unwrap_or_default(),
            _ => return refused(ErrorCode::new(40647), "_data is missing or of a wrong type"),
        };
        if text.is_empty() {
            return refused(ErrorCode::new(40649), "_data is empty");
        }
        let digits = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
        if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return refused(ErrorCode::FAILED_TO_PARSE, "_data is not of hexadecimal digits");
        }
        let invalid = || Error::new(ErrorCode::INVALID_RESUME_TOKEN, format!("the resume token {token} is not valid"));
        if ![2 * BYTES, 2 * FRAGMENT_BYTES].contains(&text.len()) {
            return Err(invalid());
        }
        let bytes: Vec<u8> = (0..text.len() / 2).map(digits).collect::<Option<_>>().ok_or_else(invalid)?;
        let number =
            |at: usize, len: usize| bytes[at..at + len].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let kind = match bytes[12] {
            0 => TokenKind::Place,
            1 => TokenKind::Event,
            2 => TokenKind::Invalidate,
            _ => return Err(invalid()),
        };
        let fragment = if bytes.len() == BYTES { 0 } else { u32::try_from(number(BYTES, 4)).unwrap_or_default() };
        Ok(Self {
            at: Place::of_bits(number(0, 8)),
            seen: u32::try_from(number(8, 4)).unwrap_or_default(),
            kind,
            time: Timestamp::from_bits(number(13, 8)),
            fragment,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_their_texts_have_their_order() {
        let time = Timestamp { time: 1_700_000_000, increment: 7 };
        let token = |lsn, seen, kind| ResumeToken { at: lsn, seen, kind, time, fragment: 0 };
        let lsn = |at| Place::Lsn(Lsn(at));
        let tokens = [
            token(lsn(5), 0, TokenKind::Place),
            token(lsn(5), 1, TokenKind::Event),
            ResumeToken { fragment: 1, ..token(lsn(5), 1, TokenKind::Event) },
            ResumeToken { fragment: 2, ..token(lsn(5), 1, TokenKind::Event) },
            token(lsn(5), 2, TokenKind::Event),
            token(lsn(5), 2, TokenKind::Invalidate),
            token(lsn(300), 0, TokenKind::Place),
            token(Place::Position(1), 2, TokenKind::Event),
            token(Place::Position(2), 0, TokenKind::Place),
        ];
        let texts: Vec<String> = tokens.iter().map(|token| token.document().view().to_json()).collect();
        assert!(texts.is_sorted());
        for one in tokens {
            assert_eq!(ResumeToken::parse(one.document().view()).unwrap(), one);
        }
        for (wrong, code) in [
            (doc! {}, 40647),
            (doc! {"_data": 1}, 40647),
            (doc! {"_data": ""}, 40649),
            (doc! {"_data": "ZZ".repeat(21).as_str()}, 9),
            (doc! {"_data": "00"}, 260),
        ] {
            assert_eq!(ResumeToken::parse(wrong.view()).unwrap_err().code().number(), code, "{wrong:?}");
        }
    }
}
