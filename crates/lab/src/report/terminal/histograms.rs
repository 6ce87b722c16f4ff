//! How many calls took how long.

use super::rows::{Rows, by_step, write_table};
use super::view::View;
use crate::report::column::{bucket_titles, buckets, kinds};
use crate::report::summary::Summary;
use crate::text::count;
use anyhow::Result;
use std::io::Write;

/// Prints a line for each kind of calls of each step and engine.
pub(super) fn print(summary: &Summary<'_>, view: View, out: &mut dyn Write) -> Result<()> {
    let titles: Vec<String> = ["call".to_owned()].into_iter().chain(bucket_titles()).collect();
    let cells = |step: usize, engine: usize| -> Vec<Vec<String>> {
        let row = |kind: &str| {
            let counts = buckets(summary, (step, engine), kind)?;
            Some([kind.to_owned()].into_iter().chain(counts.into_iter().map(count)).collect())
        };
        kinds(summary, step).into_iter().filter_map(row).collect()
    };
    let table = by_step(summary, Rows::Values, &titles, 2, &cells);
    write_table(
        "--- calls by response time: so many took at most as long, and more than the column before",
        table,
        view,
        out,
    )
}
