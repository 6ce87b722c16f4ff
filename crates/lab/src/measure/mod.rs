//! What a piece of work costs this process: time, CPU, context switches, storage, memory, space, and how long each call took.

mod directory;
mod latency;
mod memory;
mod proc;
mod usage;

pub use directory::DirectorySize;
pub use latency::{Latency, Percentiles};
pub use memory::MemoryPeak;
pub use usage::{Meter, Usage};
