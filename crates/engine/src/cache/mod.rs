//! Blocks in memory: one cache for all files of a database, in shards, each with its own latch, evicted by S3-FIFO.
//!
//! Blocks on disk do not change while anyone can read them, so the cache holds only clean blocks and never writes.
//!
//! # Invariants
//! 1. The bytes kept, counted with `Block::memory_bytes` and what an entry costs, are never above the capacity; the
//!    blocks that trees pin ([`Cache::reserve`]) are counted separately. A block that a reader holds stays in memory
//!    until it lets go, also when the cache no longer counts it.
//! 2. A block is known by its file's instance, which is never given out twice, and its offset; a lookup also compares
//!    the checksum and the length that its pointer gives (or did so before the block came into the pointer's swip). So
//!    a block that was written where an older one was is never mistaken for it, as long as a tree file calls
//!    [`Cache::forget_block`] for each block before it reuses its place: 32 bits of checksum alone would let one in
//!    four billion through.
//!
//! # Concurrency
//! Each shard has a latch, held for a lookup or an insert and never over a read of a file or the freeing of a block.
//! Two threads that miss the same block both read it, and the first to insert it gives its copy to both. What is read
//! often is found without the latch, in the swips of the branch above it; they are filled and emptied under it.
//! [`Cache::defragment`] copies blocks without a latch, and puts each copy in the place of its block under the latch.

mod block_cache;
mod ghost;
mod loan;
mod request;
mod shard;
mod swips;
mod table;
#[cfg(test)]
mod tests;

pub use block_cache::{Cache, CacheStats};
pub use loan::CacheLoan;
pub use request::{Fill, Wanted};
pub use swips::{SwipOf, Swips};
