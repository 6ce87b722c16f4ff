//! The prefixes of keys, which filters can hold in addition to the keys: a walk within one prefix then skips the runs
//! that do not have it.
//!
//! # Invariants
//! 1. A key that begins with the prefix of another key has the same prefix. So the keys of a prefix are neighbours.

use std::fmt;
use std::str::FromStr;

use crate::base::codec::Malformed;
use crate::base::{Error, OptionKind, Result};

/// Which part of a key is its prefix.
///
/// ```
/// use spinney::{Prefix, TableOptions};
/// // Keys such as "user:order": the orders of a user have one prefix.
/// let options = TableOptions::default().prefix_filter(Some(Prefix::UpTo(b':')));
/// assert!(options.check().is_ok());
/// assert_eq!(Prefix::UpTo(b':').of(b"ann:17"), Some(&b"ann:"[..]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Prefix {
    /// The first bytes, 1 to 255 of them. Keys that are shorter have no prefix.
    Bytes(u8),
    /// All up to the first such byte and with it. Keys without that byte have no prefix.
    UpTo(u8),
}

impl fmt::Display for Prefix {
    /// `bytes:N`, `upto:C`, or `upto:0xNN` for a byte that is no visible character of ASCII.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(count) => write!(f, "bytes:{count}"),
            Self::UpTo(end) if end.is_ascii_graphic() => write!(f, "upto:{}", char::from(*end)),
            Self::UpTo(end) => write!(f, "upto:0x{end:02x}"),
        }
    }
}

impl FromStr for Prefix {
    type Err = Error;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self> {
        let rule = match text.split_once(':') {
            Some(("bytes", count)) => count.parse().ok().filter(|count| *count > 0).map(Self::Bytes),
            Some(("upto", end)) => match end.as_bytes() {
                [end] => Some(Self::UpTo(*end)),
                _ => end.strip_prefix("0x").and_then(|hex| u8::from_str_radix(hex, 16).ok()).map(Self::UpTo),
            },
            _ => None,
        };
        rule.ok_or_else(|| {
            Error::invalid(format!("'{text}' is no rule of prefixes: it must be {}", OptionKind::Prefix))
        })
    }
}

impl Prefix {
    /// The prefix of a key, if it has one.
    #[inline]
    #[must_use]
    pub fn of(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Bytes(count) => key.get(..usize::from(count)),
            Self::UpTo(end) => key.iter().position(|byte| *byte == end).map(|at| &key[..=at]),
        }
    }

    /// The prefix that all keys have from `low` on and before `high`, if it is one.
    #[must_use]
    pub fn shared<'k>(self, low: &'k [u8], high: Option<&[u8]>) -> Option<&'k [u8]> {
        let prefix = self.of(low)?;
        high.is_some_and(|high| high.starts_with(prefix) || ends(prefix, high)).then_some(prefix)
    }

    /// Checks that it may be an option.
    ///
    /// # Errors
    /// `Invalid` for a prefix of no bytes.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Bytes(0) => Err(Error::invalid("option prefix_filter is a prefix of 0 bytes: it must be 1 to 255")),
            Self::Bytes(_) | Self::UpTo(_) => Ok(()),
        }
    }

    /// The stored number, which is not zero: the kind, and the count or byte times 256. Stored; never reuse a kind.
    pub(crate) fn to_code(self) -> u32 {
        let (kind, parameter) = match self {
            Self::Bytes(count) => (1, count),
            Self::UpTo(end) => (2, end),
        };
        kind | u32::from(parameter) << 8
    }

    /// Reads what [`Self::to_code`] gave.
    pub(crate) fn from_code(code: u32) -> Result<Self, Malformed> {
        let parameter = u8::try_from(code >> 8).map_err(|_| Malformed)?;
        match code & 0xff {
            1 if parameter > 0 => Ok(Self::Bytes(parameter)),
            2 => Ok(Self::UpTo(parameter)),
            _ => Err(Malformed),
        }
    }
}

/// Whether `key` is the first one behind all that begin with `prefix`.
fn ends(prefix: &[u8], key: &[u8]) -> bool {
    let full = prefix.iter().rev().take_while(|byte| **byte == u8::MAX).count();
    match prefix[..prefix.len() - full].split_last() {
        Some((last, rest)) => key.split_last() == Some((&(last + 1), rest)),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: [Prefix; 4] = [Prefix::Bytes(1), Prefix::Bytes(3), Prefix::UpTo(b'b'), Prefix::UpTo(0xff)];

    fn keys() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'c'), Just(0xff), Just(0)], 1..6)
    }

    proptest! {
        #[test]
        fn keys_between_bounds_that_share_a_prefix_have_it(low in keys(), high in keys(), key in keys()) {
            for rule in RULES {
                if let Some(prefix) = rule.shared(&low, Some(&high)) {
                    prop_assert_eq!(rule.of(&low), Some(prefix));
                    prop_assert!(key < low || key >= high || rule.of(&key) == Some(prefix), "{:?}", rule);
                }
            }
        }

        #[test]
        fn a_key_that_begins_with_a_prefix_has_it(key in keys(), more in keys()) {
            for rule in RULES {
                if let Some(prefix) = rule.of(&key) {
                    let longer = [prefix, &more].concat();
                    prop_assert_eq!(rule.of(&longer), Some(prefix));
                }
            }
        }
    }

    #[test]
    fn a_prefix_is_shared_up_to_the_first_key_behind_it() {
        let shared = |rule: Prefix, low: &str, high| rule.shared(low.as_bytes(), high).map(<[u8]>::to_vec);
        let rule = Prefix::Bytes(2);
        for high in [&b"ab"[..], b"abz", b"ab\xff\xff", b"ac"] {
            assert_eq!(shared(rule, "ab", Some(high)), Some(b"ab".to_vec()), "{high:?}");
        }
        for high in [&b"ac\0"[..], b"ad", b"b"] {
            assert_eq!(shared(rule, "ab", Some(high)), None, "{high:?}");
        }
        assert_eq!((shared(rule, "ab", None), shared(rule, "a", Some(b"a"))), (None, None));
        assert_eq!(rule.shared(b"a\xff", Some(b"b")), Some(&b"a\xff"[..]));
        assert_eq!(rule.shared(b"\xff\xff", Some(b"\xff\xff\x01")), Some(&b"\xff\xff"[..]));
        assert_eq!(shared(Prefix::UpTo(b'/'), "a/b", Some(b"a0")), Some(b"a/".to_vec()));
    }

    #[test]
    fn what_is_stored_is_read_again_and_nothing_else() {
        for rule in RULES {
            assert_eq!(Prefix::from_code(rule.to_code()), Ok(rule));
        }
        for code in [0, 1, 3, 1 << 16 | 1, u32::MAX] {
            assert_eq!(Prefix::from_code(code), Err(Malformed));
        }
        assert!(Prefix::Bytes(0).check().is_err() && Prefix::UpTo(0).check().is_ok());
    }
}
