//! What flushes and compactions did for each level, as tables show it.

use crate::driver::LevelWork;
use crate::text::{count, digits};

/// The titles of the columns behind the level's name, and what they mean.
pub const LEVEL_TITLES: [(&str, &str); 7] = [
    ("jobs", "flushes and compactions with their result in the level"),
    ("in.MB", "MB that came to the level, from memory or from the levels above"),
    ("old.MB", "MB that were in the level before and were merged with them"),
    ("written.MB", "MB written to the level"),
    ("level.w-amp", "bytes written to the level for each byte that came to it"),
    ("job.s", "seconds that these jobs took"),
    ("debt.MB", "MB that the level held above its target when the step ended"),
];

/// The cells of a level below [`LEVEL_TITLES`]; a dash is what the engine does not say.
#[must_use]
pub fn level_cells(work: &LevelWork) -> [String; 7] {
    let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), digits);
    let mb = |bytes: Option<u64>| or_dash(bytes.map(|bytes| bytes as f64 / 1e6));
    [
        count(work.jobs),
        mb(work.in_bytes),
        mb(work.rewritten_bytes),
        mb(Some(work.written_bytes)),
        or_dash(work.write_amplification()),
        or_dash(work.time_us.map(|us| us as f64 / 1e6)),
        mb(work.debt_bytes),
    ]
}
