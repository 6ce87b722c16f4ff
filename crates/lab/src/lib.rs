//! The laboratory: workloads that people know, and what each operation of them costs.
//!
//! A benchmark here says more than operations per second: reads and bytes per operation, CPU, context switches, memory, and
//! the size and shape of what is left on disk. A workload is a folder: its data, its loop, its report. What it talks to is in
//! one file of that folder (`target.rs`), so that other engines can stand in its place.

mod clock;
pub mod insert;
pub mod kv;
pub mod measure;
mod names;
pub mod progress;
mod random;
pub mod scratch;
mod stop;
pub mod text;

pub use clock::Stopwatch;
pub use names::{durability_name, shape_line};
pub use random::Random;
pub use stop::{Interrupted, Stop};
