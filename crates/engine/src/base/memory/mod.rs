//! Memory that is not the allocator's: pages from the system, and images of blocks in pieces of them.

pub mod image;
pub mod pages;
mod slabs;
mod swip;

pub use image::{Draining, Image};
pub use swip::ImageSwip;
