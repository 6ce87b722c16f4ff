//! Checksums and hashes: XXH3-64 (Collet), seeded so that bytes in the wrong place do not pass.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The checksum of `bytes`, which belong at `offset` of the thing that `identity` names.
#[inline]
#[must_use]
pub fn checksum(identity: u64, offset: u64, bytes: &[u8]) -> u64 {
    // The multiplier (splitmix64's) spreads neighbouring offsets over the seed.
    xxh3_64_with_seed(bytes, identity ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The one hash of a key, used by every filter of a lookup and by lock tables.
#[inline]
#[must_use]
pub fn hash_key(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The hash of a key's prefix in filters: another one than that of the key which is all prefix.
#[inline]
#[must_use]
pub fn hash_prefix(prefix: &[u8]) -> u64 {
    xxh3_64_with_seed(prefix, 1)
}
