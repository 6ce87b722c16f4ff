//! Slices of a compaction: ranges of keys that are merged one after the other, so that the space of what lies in one is
//! given back before the next is written.
//!
//! The deepest inputs are the most, as a rule, and lie side by side: where some of them end, a slice ends. The other
//! inputs may reach over several slices. They stay until the last one that they reach is done, and all that is newer
//! stays over them; until then they show versions that the slices before show too. That changes nothing, but for
//! operands, which would count twice. Values apart are complete only at the end.

use super::tuning::SLACK;
use std::sync::Arc;

use super::compaction::Compaction;
use super::dead::dead_bytes_of;
use super::dead::part_of;
use super::runs::{bytes, key_range};
use crate::base::SeqNum;
use crate::table::level::{LevelId, RunHandle};
use crate::table::options::TableOptions;
use crate::tree::Limits;

/// A range of keys of a compaction.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The inputs with keys in it, by source of the compaction, newest first: a run of L0, or runs of a level in key
    /// order. Maybe none.
    pub sources: Vec<Vec<RunHandle>>,
    /// Which keys.
    pub limits: Arc<Limits>,
    /// The inputs that are not needed any more once the result of the slice is in place.
    pub done: Vec<RunHandle>,
    /// How many bytes a run of the result may have.
    pub run_bytes_max: u64,
}

impl Slice {
    /// The inputs.
    pub fn runs(&self) -> impl Iterator<Item = &RunHandle> {
        self.sources.iter().flatten()
    }

    /// Whether no key of an input lies behind the slice.
    #[must_use]
    pub fn ends(&self, handle: &RunHandle) -> bool {
        ends(&self.limits, handle)
    }
}

fn ends(limits: &Limits, handle: &RunHandle) -> bool {
    !limits.end_before(&handle.run.meta().largest)
}

/// Takes the inputs out of those that are `left`, by source, that are not needed any more after a slice with these
/// limits: those that end there, but for what lies over an older one that stays, which would show its versions.
fn take_done(left: &mut [Vec<RunHandle>], limits: &Limits) -> Vec<RunHandle> {
    let (mut done, mut staying): (Vec<_>, Vec<RunHandle>) = (Vec::new(), Vec::new());
    for runs in left.iter_mut().rev() {
        let hides = |handle: &RunHandle| {
            let (low, high) = key_range(handle);
            staying.iter().any(|older| older.run.meta().overlaps(low, high))
        };
        done.extend(runs.extract_if(.., |handle| ends(limits, handle) && !hides(handle)));
        staying.extend(runs.iter().cloned());
    }
    done
}

impl Compaction {
    /// Bytes of space that must be free for it: inputs go only when what takes their place is durable. What tombstones
    /// hide is not written.
    #[must_use]
    pub fn needs(&self, options: &TableOptions) -> u64 {
        if self.is_trivial_move(options) {
            return 0;
        }
        let groups = self.groups(options);
        let largest = groups.iter().map(|group| bytes(group)).max().unwrap_or(0);
        let deepest = groups.iter().map(|group| bytes(group)).sum();
        let left = self.bytes() - dead_bytes_of(self, SeqNum::MAX);
        left.saturating_sub(deepest) + part_of(largest, (left, deepest))
    }

    /// Its slices in key order, at least one.
    #[must_use]
    pub fn slices(&self, options: &TableOptions) -> Vec<Slice> {
        let groups = self.groups(options);
        let starts = groups.iter().skip(1).map(|group| group[0].run.meta().smallest.clone());
        let lows = std::iter::once(Vec::new()).chain(starts.clone());
        let limits = lows.zip(starts.map(Some).chain([None])).map(|(low, high)| Arc::new(Limits::new(low, high, None)));
        let deepest: u64 = groups.iter().map(|group| bytes(group)).sum();
        let mut left = self.sources_within(&Limits::default());
        let slice = |(limits, group): (Arc<Limits>, &[RunHandle])| {
            // The other inputs have their keys where the deepest have theirs.
            let expected = u128::from(self.bytes()) * u128::from(bytes(group)) / u128::from(deepest.max(1));
            let run_bytes_max = self.run_bytes_max(expected.try_into().unwrap_or(u64::MAX), groups.len(), options);
            let (sources, done) = (self.sources_within(&limits), take_done(&mut left, &limits));
            Slice { sources, limits, done, run_bytes_max }
        };
        limits.zip(groups.iter().copied()).map(slice).collect()
    }

    /// The deepest inputs, parted where slices end: all of them in one, maybe empty, where the result must take their
    /// place at once.
    fn groups(&self, options: &TableOptions) -> Vec<&[RunHandle]> {
        let deepest = self.levels.last().map_or(&[][..], |(_, runs)| runs);
        let is_apart = || self.inputs().any(|handle| !handle.run.meta().references.is_empty());
        if self.target == LevelId::L0 || options.merge.is_some() || options.large_value_bytes > 0 || is_apart() {
            return vec![deepest];
        }
        let (mut groups, mut rest) = (Vec::new(), deepest);
        while bytes(rest) >= 2 * options.run_bytes_max {
            let mut sum = 0;
            let enough = |handle: &RunHandle| {
                sum += handle.run.meta().bytes;
                sum >= options.run_bytes_max
            };
            let (group, behind) = rest.split_at(1 + rest.iter().position(enough).unwrap_or(0));
            groups.push(group);
            rest = behind;
        }
        if !rest.is_empty() || groups.is_empty() {
            groups.push(rest);
        }
        groups
    }

    /// How many bytes a run may have where `expected` bytes are expected of one of `slices` slices: in as many as there
    /// must be all have the same.
    fn run_bytes_max(&self, expected: u64, slices: usize, options: &TableOptions) -> u64 {
        match self.target {
            LevelId::L0 => u64::MAX,
            LevelId::Level(_) if slices == 1 => options.run_bytes_max,
            LevelId::Level(_) => {
                let even = expected / expected.div_ceil(options.run_bytes_max).max(1);
                even + even / SLACK
            }
        }
    }

    /// The inputs with keys within limits, by source.
    fn sources_within(&self, limits: &Limits) -> Vec<Vec<RunHandle>> {
        let touches = |handle: &&RunHandle| {
            let meta = handle.run.meta();
            meta.largest >= limits.low && !limits.end_before(&meta.smallest)
        };
        let l0 = self.l0.iter().map(std::slice::from_ref);
        let levels = self.levels.iter().map(|(_, runs)| &**runs);
        l0.chain(levels).map(|runs| runs.iter().filter(touches).cloned().collect()).collect()
    }
}
