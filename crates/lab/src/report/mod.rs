//! What a benchmark found: the figures, and their forms for people.

mod build;
mod column;
#[cfg(test)]
pub(crate) mod fixture;
mod levels;
mod machine;
mod model;
mod remarks;
mod summary;
mod terminal;

pub use crate::measure::Size;
pub use build::{Build, LONG_VERSION, VERSION};
pub use column::{
    COSTS, FACTORS, LATENCIES, Measure, OVER_LIMIT, Percentile, RATIO_FLOOR, READS, SYSTEM, bucket_titles, buckets,
    calls, explanations, has_reads, kinds, latency, over_limit, own_columns, own_value,
};
pub use levels::{LEVEL_TITLES, level_cells};
pub use machine::Machine;
pub use model::{
    Column, Cost, EngineInfo, FORMAT, Figure, Missing, Operation, Report, Run, Second, State, Step, Wanted, units,
};
pub use remarks::{date, remarks, sources};
pub use summary::{Spread, StepName, Summary, engine_label, ratio};
pub use terminal::{View, print};
