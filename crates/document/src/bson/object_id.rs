//! Object ids: twelve bytes of time, process and count, and the source that makes new ones.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::base::{Error, Result};

/// Twelve bytes: seconds since 1970 (4, big-endian), a random number of the process (5), a count (3, big-endian).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 12]);

impl ObjectId {
    /// The id of twelve bytes.
    #[inline]
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 12]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> [u8; 12] {
        self.0
    }

    /// When the id was made, in seconds since 1970.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }

    /// The time that expressions take the id for, in milliseconds since 1970: its seconds are a signed number there.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.seconds().cast_signed() as i64 * 1000
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ObjectId {
    type Err = Error;

    /// An id of 24 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::bad_value(format!("an ObjectId has 24 hexadecimal digits, unlike '{text}'"));
        let mut id = [0; 12];
        let digits = text.as_bytes();
        if digits.len() != 24 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(wrong());
        }
        for (byte, pair) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(id))
    }
}

/// A source of new object ids. The caller supplies the time, so that a simulated clock replays a run.
#[derive(Debug)]
pub struct ObjectIds {
    process: [u8; 5],
    count: AtomicU32,
}

impl ObjectIds {
    /// A source whose process number and first count follow from 64 random bits.
    #[must_use]
    pub fn new(random: u64) -> Self {
        let [a, b, c, d, e, x, y, z] = random.to_be_bytes();
        Self { process: [a, b, c, d, e], count: AtomicU32::new(u32::from_be_bytes([0, x, y, z])) }
    }

    /// A source with random bits of the operating system.
    #[must_use]
    pub fn from_system() -> Self {
        // The standard library seeds its hash maps from the system's randomness.
        Self::new(RandomState::new().hash_one(0))
    }

    /// A new id, made at `seconds` since 1970. Ids of one source differ unless 2^24 are made within a second.
    pub fn next(&self, seconds: u32) -> ObjectId {
        // The count orders ids only; nothing is published by it.
        let [_, x, y, z] = self.count.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let ([s, t, u, v], [a, b, c, d, e]) = (seconds.to_be_bytes(), self.process);
        ObjectId([s, t, u, v, a, b, c, d, e, x, y, z])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_up_and_survive_text() {
        let ids = ObjectIds::new(0x0102_0304_05ff_ffff);
        let (first, second) = (ids.next(7), ids.next(7));
        assert_eq!(first.to_string(), "000000070102030405ffffff");
        assert_eq!(second.to_string(), "000000070102030405000000");
        assert_eq!(first.to_string().parse::<ObjectId>().unwrap(), first);
        assert_eq!((first.seconds(), first.millis()), (7, 7000));
        assert!("00000007010203040500000".parse::<ObjectId>().is_err());
        assert!("0000000701020304050000+0".parse::<ObjectId>().is_err());
    }
}
