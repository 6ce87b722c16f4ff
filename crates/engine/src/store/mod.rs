//! Files of blocks: reading one block, writing many; and the space of files whose blocks are replaced.

pub mod extent;
pub mod file;
mod reads;
pub mod space;
mod stats;
mod write_behind;
pub mod writer;

pub use extent::{Allocation, ExtentWriter};
pub use file::BlockFile;
pub use reads::BlocksRead;
pub use space::{Extent, SpaceMap};
pub use stats::StoreStats;
pub use writer::BlockWriter;

#[cfg(test)]
mod tests;
