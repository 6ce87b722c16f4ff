//! Keys, and the entries that trees store under them.
//!
//! Stored order, in every tree: user key ascending bytewise, then seqnum descending (the newest version first).

use super::error::{Error, Result};
use super::ids::SeqNum;

/// The longest key in bytes (64 KiB).
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// The longest value in bytes (512 MiB).
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// What a stored entry does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// The key has this value. Stored; never reuse the number.
    Put = 1,
    /// The key has no value (a tombstone). Stored; never reuse the number.
    Delete = 2,
    /// The value is an operand of the table's merge operator: it changes what older versions make of the key. Stored;
    /// never reuse the number.
    Merge = 3,
    /// All keys of a range have no value. It is in the redo log only, no tree has such entries. Stored; never reuse the
    /// number.
    RangeDelete = 4,
    /// The key has no value, and it was put at most once since the single-delete before: the two can annihilate each
    /// other wherever they meet (a tombstone too). Stored; never reuse the number.
    SingleDelete = 5,
    /// The key has a value in a value file: the entry holds a pointer to it. Only entries of runs are of this kind.
    /// Stored; never reuse the number.
    PutPointer = 6,
}

impl Kind {
    /// The kind of an entry of a tree that a stored byte names, if any.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Put),
            2 => Some(Self::Delete),
            3 => Some(Self::Merge),
            5 => Some(Self::SingleDelete),
            6 => Some(Self::PutPointer),
            _ => None,
        }
    }

    /// The kind of a change that a byte of the redo log names, if any.
    #[must_use]
    pub const fn of_change(byte: u8) -> Option<Self> {
        match byte {
            4 => Some(Self::RangeDelete),
            // Only flushes and compactions make such entries.
            6 => None,
            _ => Self::from_byte(byte),
        }
    }

    /// Whether an entry of the kind has a value.
    #[inline]
    #[must_use]
    pub const fn has_value(self) -> bool {
        matches!(self, Self::Put | Self::Merge | Self::PutPointer)
    }

    /// Whether a change of the kind has something in addition to its key: a value, or the end of a range.
    #[inline]
    #[must_use]
    pub const fn has_operand(self) -> bool {
        self.has_value() || matches!(self, Self::RangeDelete)
    }

    /// Whether an entry of the kind says that the key has no value.
    #[inline]
    #[must_use]
    pub const fn is_tombstone(self) -> bool {
        !self.has_value()
    }

    /// The name in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Merge => "merge",
            Self::RangeDelete => "range delete",
            Self::SingleDelete => "single-delete",
            Self::PutPointer => "put pointer",
        }
    }
}

/// One version of one key, as trees store it and cursors show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// When the version became visible.
    pub seqnum: SeqNum,
    /// What the version does.
    pub kind: Kind,
    /// The value, the pointer to a separated value, or a merge operand; empty for tombstones.
    pub value: &'a [u8],
}

/// Whether a version may directly follow another version of its key. It must have a smaller seqnum, but for a
/// single-delete of seqnum zero: that may wait for its put behind another version of seqnum zero, which hides it.
#[inline]
#[must_use]
pub fn descends(newer: SeqNum, (older, kind): (SeqNum, Kind)) -> bool {
    older < newer || (kind == Kind::SingleDelete && newer == SeqNum::ZERO && older == SeqNum::ZERO)
}

/// How many bytes two keys share at their front.
#[inline]
#[must_use]
pub fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let at = 8 * words.take_while(|(a, b)| a == b).count();
    at + a[at..].iter().zip(&b[at..]).take_while(|(a, b)| a == b).count()
}

/// The first eight bytes of a key as a big-endian number, padded with zeros: heads order as their keys do, up to ties.
#[inline]
#[must_use]
pub fn head(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => short_head(key),
    }
}

/// The head of a key of up to seven bytes, from loads that may overlap: filling an array first would make the processor
/// wait for the narrow stores before the wide load.
#[inline]
fn short_head(key: &[u8]) -> u64 {
    let unused_bits = 64 - 8 * key.len();
    match (key, key.first_chunk::<4>(), key.last_chunk::<4>()) {
        (_, Some(front), Some(back)) => {
            u64::from(u32::from_be_bytes(*front)) << 32 | u64::from(u32::from_be_bytes(*back)) << unused_bits
        }
        ([first, .., last], ..) => u64::from(*first) << 56 | u64::from(key[1]) << 48 | u64::from(*last) << unused_bits,
        ([only], ..) => u64::from(*only) << 56,
        _ => 0,
    }
}

/// Checks that a user's key has an allowed length.
///
/// # Errors
/// `Invalid` when the key is empty or longer than [`KEY_BYTES_MAX`].
#[inline]
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid("an empty key cannot be stored: a key has 1 to 65536 bytes"));
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a key of {} bytes cannot be stored: a key has 1 to 65536 bytes",
            key.len()
        )));
    }
    Ok(())
}

/// Checks that a user's value has an allowed length.
///
/// # Errors
/// `Invalid` when the value is longer than [`VALUE_BYTES_MAX`].
#[inline]
pub fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::invalid(format!("a value of {} bytes cannot be stored: the limit is 512 MiB", value.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_order_as_keys_do() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"abcdefgh", b"abcdefgi"];
        for pair in keys.windows(2) {
            assert!(head(pair[0]) <= head(pair[1]));
        }
    }

    #[test]
    fn a_head_is_the_key_padded_with_zeros() {
        let key = [0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8, 0x09];
        for len in 0..=key.len() {
            let mut padded = [0; 8];
            padded[..len.min(8)].copy_from_slice(&key[..len.min(8)]);
            assert_eq!(head(&key[..len]), u64::from_be_bytes(padded), "{len} bytes");
        }
    }

    #[test]
    fn keys_outside_their_limits_are_refused() {
        assert!(check_key(b"").is_err());
        assert!(check_key(&vec![0; KEY_BYTES_MAX + 1]).is_err());
        assert!(check_key(&vec![0; KEY_BYTES_MAX]).is_ok());
    }
}
