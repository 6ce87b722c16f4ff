//! Files of blocks: reading one block, writing many.

pub mod file;
mod stats;
pub mod writer;

pub use file::BlockFile;
pub use stats::StoreStats;
pub use writer::BlockWriter;

#[cfg(test)]
mod tests;
