//! Files of blocks: reading one block, writing many; and the space of files whose blocks are replaced.

mod behind;
pub mod extent;
pub mod file;
mod reads;
pub mod space;
mod stats;
pub mod writer;

pub use extent::{Claim, ExtentWriter};
pub use file::BlockFile;
pub use reads::BlocksRead;
pub use space::{Extent, SpaceMap};
pub use stats::StoreStats;
pub use writer::BlockWriter;

#[cfg(test)]
mod tests;
