//! Memory of the cache that is lent for a time, for what is under construction and may be large.

use std::sync::Arc;

use super::block_cache::Cache;
use crate::base::debug::debug_by;

/// Bytes by which the cache is smaller until this is dropped.
pub struct CacheLoan {
    cache: Arc<Cache>,
    bytes: u64,
}

impl CacheLoan {
    /// Nothing yet.
    #[must_use]
    pub const fn new(cache: Arc<Cache>) -> Self {
        Self { cache, bytes: 0 }
    }

    /// Borrows more bytes, which the cache evicts.
    pub fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.cache.lend(|lent| lent + bytes);
    }
}

impl Drop for CacheLoan {
    fn drop(&mut self) {
        self.cache.lend(|lent| lent - self.bytes);
    }
}

debug_by!(CacheLoan, self => bytes: self.bytes);
