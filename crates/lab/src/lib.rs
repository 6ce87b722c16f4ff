//! The laboratory: experiments that people know, on our engine and on others, and what each operation of them costs.
//!
//! A benchmark here says more than operations per second: reads and bytes per operation, CPU, context switches, memory,
//! and the size and shape of what is left on disk. An experiment ([`experiments`]) is written once, against what every
//! engine has ([`driver`]); its steps are run and measured in one place ([`run`]), each engine in a process of its own
//! ([`command`]).

mod clock;
pub mod command;
pub mod driver;
pub mod experiments;
mod html;
pub mod measure;
pub mod progress;
pub mod random;
pub mod report;
pub mod run;
pub mod scratch;
pub mod signals;
mod stop;
pub mod text;

pub use clock::{Clock, Stopwatch};
pub use random::Random;
pub use stop::{Interrupted, Stop};
