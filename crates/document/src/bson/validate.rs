//! The check of bytes from outside: after it, a document can be read in place without any more doubts.

use smallvec::SmallVec;

use super::kind::Kind;
use super::view::{Document, name_len, payload_len, zero_in};
use crate::base::num::usize_of32;
use crate::base::{Error, ErrorCode, Result};

/// The largest document in bytes that a collection takes.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// The deepest nesting of documents and arrays within a document.
pub const DEPTH_MAX: usize = 180;

/// The deepest nesting of a document of a message: a command puts a few levels around a stored document.
pub const MESSAGE_DEPTH_MAX: usize = DEPTH_MAX + 20;

/// What a check of bytes demands.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    /// Whether strings and names must be UTF-8. MongoDB stores strings that are not.
    pub utf8: bool,
    /// The largest size in bytes.
    pub bytes_max: usize,
    /// The deepest nesting of documents and arrays.
    pub depth_max: usize,
}

impl Checks {
    /// What is demanded of a document that this crate has stored around what a command had, such as options of a
    /// collection: those were checked when they came, names and strings need not be UTF-8, and a few levels and bytes
    /// are around them.
    pub const STORED: Self = Self { utf8: false, bytes_max: 64 << 20, depth_max: MESSAGE_DEPTH_MAX + 16 };
}

impl Default for Checks {
    /// UTF-8, [`DOCUMENT_BYTES_MAX`] and [`DEPTH_MAX`].
    fn default() -> Self {
        Self { utf8: true, bytes_max: DOCUMENT_BYTES_MAX, depth_max: DEPTH_MAX }
    }
}

impl<'a> Document<'a> {
    /// The document that `bytes` are, after a check of all of them: lengths, types, UTF-8, size and depth.
    ///
    /// # Errors
    /// `InvalidBSON` (22), `BSONObjectTooLarge` (10334), or `Overflow` (15) when nested too deeply.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        Self::parse_with(bytes, Checks::default())
    }

    /// The document that `bytes` are, after the checks that the caller chooses.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_with(bytes: &'a [u8], checks: Checks) -> Result<Self> {
        if bytes.len() > checks.bytes_max {
            let what =
                format!("object to insert too large. size in bytes: {}, max size: {}", bytes.len(), checks.bytes_max);
            return Err(Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, what));
        }
        let document =
            Self::from_checked_bytes(bytes).ok_or_else(|| invalid(0, "the length of the document is wrong"))?;
        Validator { bytes, at: 4, checks }.run()?;
        Ok(document)
    }
}

fn invalid(at: usize, what: &str) -> Error {
    Error::new(ErrorCode::INVALID_BSON, format!("invalid BSON at byte {at}: {what}"))
}

struct Validator<'a> {
    bytes: &'a [u8],
    at: usize,
    checks: Checks,
}

impl Validator<'_> {
    /// Walks over all elements without recursion; `open` holds the ends of the documents that enclose the position.
    fn run(mut self) -> Result<()> {
        let mut open: SmallVec<[usize; 16]> = SmallVec::new();
        open.push(self.bytes.len());
        while let Some(&end) = open.last() {
            let Some((&kind, rest)) = self.bytes[..end].get(self.at..).and_then(<[u8]>::split_first) else {
                return Err(invalid(self.at, "a document has no end"));
            };
            if kind == 0 {
                if self.at + 1 != end {
                    return Err(invalid(self.at, "a document ends before its length"));
                }
                self.at += 1;
                open.pop();
                continue;
            }
            let kind = Kind::from_byte(kind).ok_or_else(|| invalid(self.at, "no such type"))?;
            let name = name_len(rest).ok_or_else(|| invalid(self.at, "a name has no end"))?;
            self.utf8(&rest[..name])?;
            self.at += 1 + name + 1;
            if let Some(inner) = self.value(kind, end)? {
                if open.len() > self.checks.depth_max {
                    let what = format!("nested deeper than {} levels", self.checks.depth_max);
                    return Err(Error::new(ErrorCode::OVERFLOW, format!("invalid BSON at byte {}: {what}", self.at)));
                }
                open.push(inner);
                self.at += 4;
            }
        }
        Ok(())
    }

    /// Checks a value at the position and moves behind it; for one that holds a document, moves to that document and
    /// says where it ends.
    fn value(&mut self, kind: Kind, end: usize) -> Result<Option<usize>> {
        // The last byte before `end` is the zero of the document around the value.
        let bytes = &self.bytes[..end - 1];
        let payload = bytes.get(self.at..).unwrap_or_default();
        let len = payload_len(kind, payload).filter(|len| *len <= payload.len());
        let len = len.ok_or_else(|| invalid(self.at, "a value is longer than its document"))?;
        let payload = &payload[..len];
        match kind {
            Kind::String | Kind::Code | Kind::Symbol => self.string(payload)?,
            Kind::Document | Kind::Array => return self.nested(self.at, payload).map(Some),
            Kind::Binary => self.binary(payload)?,
            Kind::Bool if payload[0] > 1 => return Err(invalid(self.at, "a bool is neither 0 nor 1")),
            Kind::Regex => self.regex(payload)?,
            Kind::DbPointer => self.string(&payload[..len - 12])?,
            Kind::CodeWithScope => {
                let code = payload.get(4..).unwrap_or_default();
                let string = payload_len(Kind::String, code).filter(|len| *len <= code.len());
                let string = string.ok_or_else(|| invalid(self.at, "the code is longer than its value"))?;
                self.string(&code[..string])?;
                self.at += 4 + string;
                return self.nested(self.at, &code[string..]).map(Some);
            }
            _ => {}
        }
        self.at += len;
        Ok(None)
    }

    fn nested(&self, at: usize, bytes: &[u8]) -> Result<usize> {
        match Document::from_checked_bytes(bytes) {
            Some(_) => Ok(at + bytes.len()),
            None => Err(invalid(at, "the length of a document is wrong")),
        }
    }

    fn string(&self, payload: &[u8]) -> Result<()> {
        match payload {
            [_, _, _, _, text @ .., 0] => self.utf8(text),
            _ => Err(invalid(self.at, "a string does not end with a zero")),
        }
    }

    fn binary(&self, payload: &[u8]) -> Result<()> {
        if let [_, _, _, _, 2, old @ ..] = payload {
            // A value that is too short for the inner length would end the reading of the document.
            let inner = old.split_first_chunk().map(|(len, rest)| (usize_of32(u32::from_le_bytes(*len)), rest.len()));
            if inner.is_none_or(|(len, rest)| len != rest) {
                return Err(invalid(self.at, "the inner length of a binary value is wrong"));
            }
        }
        Ok(())
    }

    /// Options are UTF-8 in any case: keys have them right behind the pattern, where a byte FF means a zero in it.
    fn regex(&self, payload: &[u8]) -> Result<()> {
        let options = zero_in(payload).map_or(&[][..], |end| &payload[end..]);
        if std::str::from_utf8(options).is_err() {
            return Err(invalid(self.at, "the options of a regular expression are not UTF-8"));
        }
        self.utf8(payload)
    }

    fn utf8(&self, text: &[u8]) -> Result<()> {
        if self.checks.utf8 && !text.is_ascii() && std::str::from_utf8(text).is_err() {
            return Err(invalid(self.at, "text is not UTF-8"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document with `depth` documents within each other.
    fn nested(depth: usize) -> Vec<u8> {
        let mut bytes = vec![5, 0, 0, 0, 0];
        for _ in 0..depth {
            let mut outer = u32::try_from(bytes.len() + 8).unwrap().to_le_bytes().to_vec();
            outer.extend([3, b'a', 0]);
            outer.extend(&bytes);
            outer.push(0);
            bytes = outer;
        }
        bytes
    }

    #[test]
    fn depth_is_limited() {
        assert!(Document::parse(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(Document::parse(&nested(DEPTH_MAX + 1)).unwrap_err().code(), ErrorCode::OVERFLOW);
        assert!(Document::parse_with(&nested(5_000), Checks { depth_max: 5_000, ..Checks::default() }).is_ok());
    }

    #[test]
    fn size_is_limited() {
        let bytes = [12, 0, 0, 0, 16, 97, 0, 1, 0, 0, 0, 0];
        assert!(Document::parse(&bytes).is_ok());
        let small = Checks { bytes_max: 11, ..Checks::default() };
        assert_eq!(Document::parse_with(&bytes, small).unwrap_err().code(), ErrorCode::BSON_OBJECT_TOO_LARGE);
    }

    /// A binary value of subtype 2 whose bytes are fewer than those of its inner length passed the checks, and reading
    /// the document ended before it: the fields behind it were as if they were not there.
    #[test]
    fn an_old_binary_value_without_room_for_its_inner_length_is_refused() {
        for len in 0..6_u8 {
            let value = [len, 0, 0, 0, 2].into_iter().chain([0, 0, 0, 0, 7, 7].into_iter().take(usize::from(len)));
            let mut bytes = vec![0, 0, 0, 0, 5, b'a', 0];
            bytes.extend(value);
            bytes.extend([16, b'b', 0, 1, 0, 0, 0, 0]);
            bytes[0] = u8::try_from(bytes.len()).unwrap();
            // Of these only the inner length 0 is right, with nothing behind it.
            assert_eq!(Document::parse(&bytes).is_ok(), len == 4, "{len}");
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_taken_when_asked() {
        let bytes = [14, 0, 0, 0, 2, 97, 0, 2, 0, 0, 0, 255, 0, 0];
        assert_eq!(Document::parse(&bytes).unwrap_err().code(), ErrorCode::INVALID_BSON);
        let document = Document::parse_with(&bytes, Checks { utf8: false, ..Checks::default() }).unwrap();
        assert_eq!(document.get("a").unwrap().as_text().unwrap().as_bytes(), [255]);
    }

    /// The key of a regular expression whose options began with a byte FF could not be told from that of another one.
    #[test]
    fn options_of_regular_expressions_are_utf8() {
        let checks = Checks { utf8: false, ..Checks::default() };
        for (regex, is_ok) in [(&b"a\xFF\0i\0"[..], true), (b"a\0\xFF\0", false), (b"\0\0", true)] {
            let len = u8::try_from(regex.len() + 8).unwrap();
            let bytes = [&[len, 0, 0, 0, 11, b'a', 0], regex, &[0]].concat();
            assert_eq!(Document::parse_with(&bytes, checks).is_ok(), is_ok, "{regex:?}");
        }
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_refused_or_read_without_a_panic() {
        let bytes = nested(3);
        for at in 0..bytes.len() {
            assert!(Document::parse(&bytes[..at]).is_err());
            for byte in 0..=255 {
                let mut changed = bytes.clone();
                changed[at] = byte;
                if let Ok(document) = Document::parse(&changed) {
                    assert!(document.elements().count() <= 1);
                }
            }
        }
    }
}
