//! How much of a B-tree lies in a range, as far as its branches tell: no leaf is read.

use super::root::{TreeRoot, route};
use crate::base::Result;
use crate::block::BlockPointer;
use crate::cache::Fill;

/// The share of the tree's entries with keys from `low` on, up to `high`: from 0 to 1.
///
/// # Errors
/// When a branch cannot be read or is corrupt.
pub fn share_between(root: &TreeRoot, low: &[u8], high: Option<&[u8]>) -> Result<f64> {
    let Some(pointer) = root.meta.root else { return Ok(0.0) };
    let leaves = Leaves { root, each: leaves_under(root, pointer)? };
    Ok((leaves.between(root.meta.height, pointer, low, high)? / root.meta.leaves as f64).min(1.0))
}

/// How many leaves lie under a node of each height, on average: as the topmost branch tells, and below it as if all
/// nodes had the same number of children.
fn leaves_under(root: &TreeRoot, top: BlockPointer) -> Result<Vec<f64>> {
    let height = root.meta.height;
    if height == 0 {
        return Ok(vec![1.0]);
    }
    let children = root.branch(None, top, height, Fill::Keep)?.block().count();
    let below = root.meta.leaves as f64 / children.max(1) as f64;
    let each = |at: u32| if height == 1 { 1.0 } else { below.powf(f64::from(at) / f64::from(height - 1)) };
    Ok((0..height).map(each).collect())
}

/// Counts leaves.
struct Leaves<'r> {
    root: &'r TreeRoot,
    /// How many lie under a node, by its height.
    each: Vec<f64>,
}

impl Leaves<'_> {
    /// Those under a node `height` levels above the leaves that have keys from `low` on, up to `high`.
    fn between(&self, height: u32, at: BlockPointer, low: &[u8], high: Option<&[u8]>) -> Result<f64> {
        if height == 0 {
            return Ok(0.5);
        }
        let step = self.root.branch(None, at, height, Fill::Keep)?;
        let branch = step.block();
        let first = route(branch, low);
        let last = high.map_or(branch.count().saturating_sub(1), |high| route(branch, high));
        let child = |i| self.root.file.child(branch, i);
        if first >= last && high.is_some() {
            return self.between(height - 1, child(first)?, low, high);
        }
        let full = last.saturating_sub(first + 1) as f64 * self.each[height as usize - 1];
        let left = self.between(height - 1, child(first)?, low, None)?;
        let right = match high {
            Some(high) if last > first => self.between(height - 1, child(last)?, &[], Some(high))?,
            None if last > first => self.each[height as usize - 1],
            _ => 0.0,
        };
        Ok(left + full + right)
    }
}
