//! How much of a run lies in a range, as far as its index tells: no leaf is read.

use super::reader::Run;
use crate::base::Result;
use crate::cache::Fill;

/// The share of the run's entries with keys from `low` on, up to `high`: from 0 to 1.
///
/// # Errors
/// When a part of the index cannot be read or is corrupt.
pub fn share_between(run: &Run, low: &[u8], high: Option<&[u8]>) -> Result<f64> {
    let meta = run.meta();
    if *meta.largest < *low || high.is_some_and(|high| *high <= *meta.smallest) {
        return Ok(0.0);
    }
    run.open_ends()?;
    let end = match high.filter(|high| **high <= *meta.largest) {
        Some(high) => leaves_below(run, high)?,
        None => run.footer().leaves as f64,
    };
    let start = if *low <= *meta.smallest { 0.0 } else { leaves_below(run, low)? };
    // Ends in one leaf: half of it, as good as any.
    let least = if end > 0.0 || start < run.footer().leaves as f64 { 0.5 } else { 0.0 };
    Ok(((end - start).max(least) / run.footer().leaves as f64).min(1.0))
}

/// How many leaves have only keys below `key`, and of the leaf with the key a half.
fn leaves_below(run: &Run, key: &[u8]) -> Result<f64> {
    let parts = run.top().count();
    let part = run.top().lower_bound(key).min(parts - 1);
    let index = run.index_part(part, Fill::Keep)?;
    // Parts are of one size in bytes, but for the last: of about as many leaves each.
    let each = if part + 1 < parts {
        index.count() as f64
    } else {
        (run.footer().leaves as f64 - index.count() as f64) / (parts - 1).max(1) as f64
    };
    Ok(each * part as f64 + index.lower_bound(key).min(index.count()) as f64 + 0.5)
}
