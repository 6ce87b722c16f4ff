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
    let leaves = run.footer().leaves as f64;
    let high = high.filter(|high| **high <= *meta.largest);
    let low = (*low > *meta.smallest).then_some(low);
    let between = match (low, high) {
        (None, None) => leaves,
        (None, Some(high)) => place_of(run, high)?.below(run),
        (Some(low), None) => leaves - place_of(run, low)?.below(run),
        (Some(low), Some(high)) => place_of(run, low)?.to(&place_of(run, high)?, run),
    };
    // Ends in one leaf: half of it, as good as any.
    Ok((between.max(0.5) / leaves).min(1.0))
}

/// Where a key is in the index of a run.
struct Place {
    /// Which part of the index.
    part: usize,
    /// How many leaves the part has.
    leaves: f64,
    /// How many of them have only keys below the key, and of the leaf with the key a half.
    below: f64,
}

fn place_of(run: &Run, key: &[u8]) -> Result<Place> {
    let part = run.top().lower_bound(key).min(run.top().count() - 1);
    let index = run.index_part(part, Fill::Keep)?;
    let below = index.lower_bound(key).min(index.count()) as f64 + 0.5;
    Ok(Place { part, leaves: index.count() as f64, below })
}

impl Place {
    /// How many leaves of the whole run have only keys below the key. Parts are of one size in bytes, but for the last:
    /// of about as many leaves each.
    fn below(&self, run: &Run) -> f64 {
        let parts = run.top().count();
        let each = if self.part + 1 < parts {
            self.leaves
        } else {
            (run.footer().leaves as f64 - self.leaves) / (parts - 1).max(1) as f64
        };
        each * self.part as f64 + self.below
    }

    /// How many leaves lie between the key and a greater one. Where both ends are near, so must be the answer, also at
    /// the border of two parts with different numbers of leaves: callers halve ranges until few entries are left.
    fn to(&self, end: &Self, run: &Run) -> f64 {
        let Some(parts) = end.part.checked_sub(self.part).filter(|parts| *parts > 0) else {
            return end.below - self.below;
        };
        let each = run.footer().leaves as f64 / run.top().count() as f64;
        self.leaves - self.below + (parts - 1) as f64 * each + end.below
    }
}
