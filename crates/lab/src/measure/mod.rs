//! What a piece of work costs: time, CPU, context switches, storage, memory, space, and how long each call took.

mod cgroup;
mod device;
mod directory;
mod floor;
mod latency;
mod memory;
mod proc;
mod system;
mod touch;
mod usage;

pub use cgroup::MemoryLimit;
pub use device::{DeviceCounts, DeviceStats};
pub use directory::{Size, directory_size};
pub use floor::{Floor, WRITE_BYTES};
pub use latency::{BUCKETS_US, Bucket, Latency, Percentiles};
pub use memory::MemoryPeak;
pub use system::{SystemTimes, SystemUse};
pub use touch::touch_memory;
pub use usage::{Meter, Usage, thread_cpu};
