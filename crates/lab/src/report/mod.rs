//! What a benchmark found: the figures, and their forms for people.

mod machine;
mod model;
mod table;

pub use machine::Machine;
pub use model::{
    Column, Cost, EngineInfo, FORMAT, Figure, Missing, Operation, Report, Run, Second, Size, State, Step, Wanted,
};
pub use table::print;
