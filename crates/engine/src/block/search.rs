//! Search over the heads of a block: few branches, and few cache misses that wait for each other.

use super::format::head;
use std::cmp::Ordering;

/// A stored head.
pub type Head = [u8; 4];

/// Heads in one cache line.
const LINE: usize = 16;
/// Heads up to which one of each line is read, all at once, rather than halved.
const WINDOW: usize = 32 * LINE;
/// Entries with tied heads that are passed one by one before the rest of them is halved.
const LINEAR: usize = 4;

/// What the heads tell of the first entry whose key is not below some key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The entry is this one or a later one.
    pub at: usize,
    /// The entry is this one.
    pub sure: bool,
}

/// What the heads alone say of where `key` belongs among keys that all begin with `prefix`: no key is looked at.
#[inline]
#[must_use]
pub fn bound(prefix: &[u8], heads: &[Head], key: &[u8]) -> Bound {
    let Some(suffix) = key.strip_prefix(prefix) else {
        return Bound { at: if key < prefix { 0 } else { heads.len() }, sure: true };
    };
    let target = head(suffix);
    let at = partition(heads, |head| head < target);
    Bound { at, sure: !is_tied(heads, at, target) }
}

/// Whether there is an entry `i`, and this is its head.
#[inline]
#[must_use]
pub fn is_tied(heads: &[Head], i: usize, target: u32) -> bool {
    heads.get(i).is_some_and(|head| u32::from_le_bytes(*head) == target)
}

/// Passes the entries from `low` on whose heads tie with that of `suffix` and for which `before`, told how an entry's
/// suffix compares with `suffix`, is true; returns the first entry behind them.
#[inline]
pub(super) fn pass_ties<'b>(
    heads: &[Head],
    mut low: usize,
    suffix: &[u8],
    suffix_of: impl Fn(usize) -> &'b [u8],
    mut before: impl FnMut(Ordering) -> bool,
) -> usize {
    let target = head(suffix);
    // A key shares its head with few others as a rule: most searches end after one comparison here.
    while is_tied(heads, low, target) && before(suffix_of(low).cmp(suffix)) {
        low += 1;
        if is_tied(heads, low + LINEAR, target) {
            return halve_ties(heads, low, suffix, suffix_of, before);
        }
    }
    low
}

/// As [`pass_ties`], by a binary search.
#[inline(never)]
fn halve_ties<'b>(
    heads: &[Head],
    low: usize,
    suffix: &[u8],
    suffix_of: impl Fn(usize) -> &'b [u8],
    mut before: impl FnMut(Ordering) -> bool,
) -> usize {
    let target = head(suffix);
    let ties = partition(&heads[low..], |head| head <= target);
    let (mut low, mut high) = (low, low + ties);
    while low < high {
        let middle = low.midpoint(high);
        if before(suffix_of(middle).cmp(suffix)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// How many of the ascending `heads` come before the point where `before` turns false.
///
/// A binary search of a cold block waits for memory at each step. This one halves only while the heads fill more than
/// [`WINDOW`]; then it reads one head of every line, which the processor overlaps, and at last counts within one line.
#[inline]
pub(super) fn partition(heads: &[Head], before: impl Fn(u32) -> bool) -> usize {
    let before = |head: &Head| before(u32::from_le_bytes(*head));
    let (mut base, mut len) = (0, heads.len());
    while len > WINDOW {
        let half = len / 2;
        base += if before(&heads[base + half - 1]) { half } else { 0 };
        len -= half;
    }
    let window = &heads[base..base + len];
    let (lines, tail) = window.as_chunks::<LINE>();
    let full = lines.iter().map(|line| usize::from(before(&line[LINE - 1]))).sum::<usize>();
    let within = match lines.get(full) {
        Some(line) => line.iter().map(|head| u32::from(before(head))).sum::<u32>(),
        None => tail.iter().map(|head| u32::from(before(head))).sum::<u32>(),
    };
    base + full * LINE + crate::base::num::usize_of32(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_standard_partition_point_at_every_length() {
        for len in (0..100).chain([511, 512, 513, 1024, 1500, 5000]) {
            let heads = (0..len).map(|i: u32| (i / 3 * 2).to_le_bytes()).collect::<Vec<_>>();
            let targets = (0..len + 3).step_by(if len > 100 { 17 } else { 1 });
            for target in targets {
                let expected = heads.partition_point(|head| u32::from_le_bytes(*head) < target);
                assert_eq!(partition(&heads, |head| head < target), expected, "{len} heads, target {target}");
                let expected = heads.partition_point(|head| u32::from_le_bytes(*head) <= target);
                assert_eq!(partition(&heads, |head| head <= target), expected, "{len} heads, target {target}");
            }
        }
    }
}
