//! Text as documents hold it: bytes that are UTF-8 unless a client stored other bytes.

use std::borrow::Cow;
use std::fmt;

/// The bytes of a string or of a field's name. Compared bytewise, as MongoDB does.
///
/// It may hold a NUL and, in documents that were not parsed strictly, bytes that are no UTF-8.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// Text of any bytes.
    #[inline]
    #[must_use]
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The length in bytes.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The text as a `str`, if it is UTF-8.
    #[inline]
    #[must_use]
    pub fn as_str(self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }

    /// The text with U+FFFD in place of bytes that are no UTF-8.
    #[must_use]
    pub fn to_str_lossy(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.0)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl<'a> From<&'a String> for Text<'a> {
    fn from(text: &'a String) -> Self {
        Self(text.as_bytes())
    }
}

impl AsRef<[u8]> for Text<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_str_lossy())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.to_str_lossy(), f)
    }
}
