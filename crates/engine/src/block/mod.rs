//! The one block format: leaves and branches of runs and B-trees, and raw bytes such as filters, in memory and on disk.
//!
//! A [`BlockBuilder`] makes an *image*; [`frame`] wraps an image for disk (checksum, compression, before which it is
//! stripped); a [`Block`] is an image that was checked once and is searched from then on without further checks.

pub mod builder;
pub mod format;
pub mod frame;
pub mod image;
mod parse;
pub mod pointer;
pub mod search;
mod strip;
mod swip;

pub use builder::BlockBuilder;
pub use format::{BlockKind, IMAGE_BYTES_MAX, head, raw_image};
pub use frame::{Compression, FrameError};
pub use image::{Block, Shape, Slot};
pub use pointer::BlockPointer;
pub use search::Bound;
pub use swip::Swip;

#[cfg(test)]
mod tests;
