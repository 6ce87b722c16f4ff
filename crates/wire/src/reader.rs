//! Reads the fields of a message's body. It never reads beyond the body and never panics.

use spinney_document::bson::{Checks, DOCUMENT_BYTES_MAX, Document, MESSAGE_DEPTH_MAX};
use spinney_document::{Error, ErrorCode, Result};

/// The largest document of a message: a stored document, and what a command or reply puts around it.
pub const MESSAGE_DOCUMENT_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + (16 << 10);

/// A position in the body of a message.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// The message makes no sense, so that nothing behind it would either.
#[must_use]
pub fn malformed(what: &str) -> Error {
    Error::new(ErrorCode::PROTOCOL_ERROR, format!("malformed message: {what}"))
}

impl<'a> Reader<'a> {
    /// A reader of all of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether everything was read.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the body ends before.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| malformed("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        taken.first_chunk().copied().ok_or_else(|| malformed("it ends too early"))
    }

    /// A byte.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the body ends before.
    pub fn u8(&mut self) -> Result<u8> {
        self.chunk::<1>().map(|[byte]| byte)
    }

    /// A number of four bytes.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the body ends before.
    pub fn i32(&mut self) -> Result<i32> {
        self.chunk().map(i32::from_le_bytes)
    }

    /// A number of four bytes, as bits.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the body ends before.
    pub fn u32(&mut self) -> Result<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the body ends before.
    pub fn i64(&mut self) -> Result<i64> {
        self.chunk().map(i64::from_le_bytes)
    }

    /// Text up to a zero.
    ///
    /// # Errors
    /// `ProtocolError` (17) when there is no zero, or the text is not UTF-8.
    pub fn text(&mut self) -> Result<&'a str> {
        let len = self.rest.iter().position(|byte| *byte == 0).ok_or_else(|| malformed("a name has no end"))?;
        let text = self.take(len)?;
        self.take(1)?;
        std::str::from_utf8(text).map_err(|_| malformed("a name is not UTF-8"))
    }

    /// A document, after all checks. Strings need not be UTF-8, as MongoDB stores such.
    ///
    /// # Errors
    /// `ProtocolError` (17) when its length is wrong, `InvalidBSON` (22), `BSONObjectTooLarge` (10334), `Overflow` (15)
    /// when it is nested too deeply.
    pub fn document(&mut self) -> Result<Document<'a>> {
        let len = self.rest.first_chunk().map(|len| i32::from_le_bytes(*len));
        let len = len.and_then(|len| usize::try_from(len).ok()).ok_or_else(|| malformed("a document has no length"))?;
        let bytes = self.take(len)?;
        let checks = Checks { utf8: false, bytes_max: MESSAGE_DOCUMENT_BYTES_MAX, depth_max: MESSAGE_DEPTH_MAX };
        Document::parse_with(bytes, checks)
    }

    /// All documents up to the end of the body.
    ///
    /// # Errors
    /// As [`Self::document`], and `InvalidLength` (16) when there are more than `count_max`.
    pub fn documents(&mut self, count_max: usize) -> Result<Vec<Document<'a>>> {
        let mut documents = Vec::new();
        while !self.is_done() {
            if documents.len() == count_max {
                let what = format!("a message has at most {count_max} documents in a sequence");
                return Err(Error::new(ErrorCode::INVALID_LENGTH, what));
            }
            documents.push(self.document()?);
        }
        Ok(documents)
    }
}
