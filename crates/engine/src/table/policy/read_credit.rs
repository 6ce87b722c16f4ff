//! Read credit: what extra trees and dead entries have cost the reads of a table, until a job is due that removes them.
//!
//! Reads add what they cost beyond one tree; writes take from it, so that a table that is written much is left to its
//! layout; a job takes its cost when it is done. The same credit is kept by key, from samples, so that reads of a part
//! of the keys make the merge of that part due, and by key range for scans over dead entries. See
//! [`super::read_triggered`] for the jobs and [`super::tuning`] for the costs.

use super::tuning::{
    DEAD_RANGES_MAX, FILTER_NS, KEY_BYTES_KEPT, KEYS_MAX, READ_NS, SEARCH_NS, SMALL_NS, VIEW_SEARCH_NS, WRITE_NS,
};
use crate::tree::Costs;
use std::cmp::Reverse;

/// Nanoseconds that lookups of `keys` keys, or a walk (one key), spent on more than one tree each and on views. The
/// most expensive tree is not counted: a merge would leave one.
#[inline]
#[must_use]
pub fn extra_ns(keys: u64, costs: &Costs) -> u64 {
    let mut free = keys;
    let mut extra = |searched: u64| {
        let extra = searched.saturating_sub(free);
        free -= searched - extra;
        extra
    };
    let trees = extra(costs.trees.saturating_sub(costs.small));
    let (small, stops) = (extra(costs.small), extra(costs.filter_stops));
    let read = trees.min(costs.blocks_read.saturating_sub(keys));
    trees * SEARCH_NS + read * READ_NS + costs.views * VIEW_SEARCH_NS + small * SMALL_NS + stops * FILTER_NS
}

/// The prefix of a key under which the credit of reads near it is kept.
#[must_use]
pub fn credit_key(key: &[u8]) -> &[u8] {
    &key[..key.len().min(KEY_BYTES_KEPT)]
}

/// The credit of a table's reads, in nanoseconds of one core.
#[derive(Clone, Debug, Default)]
pub struct ReadCredit {
    /// Credit for extra trees, of all reads.
    pub(super) balance_ns: u64,
    /// The part of it that was added since the last write.
    pub(super) since_write_ns: u64,
    /// The same by key, from samples; keys ascend and are unique. Only writes near a key take from its credit.
    pub(super) near: Vec<KeyCredit>,
    /// Disjoint key ranges in which scans passed long rows of dead entries, with a credit of their own.
    pub(super) dead_ranges: Vec<DeadRange>,
}

/// The credit of the reads near a key.
#[derive(Clone, Debug)]
pub(super) struct KeyCredit {
    pub(super) key: Vec<u8>,
    pub(super) credit_ns: u64,
}

/// A key range with a long row of dead entries, and the credit of the scans that passed them.
#[derive(Clone, Debug)]
pub(super) struct DeadRange {
    pub(super) low: Vec<u8>,
    pub(super) high: Vec<u8>,
    pub(super) credit_ns: u64,
    /// A memtable of the table has keys in the range.
    pub(super) in_memory: bool,
}

impl ReadCredit {
    /// Whether there is no credit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.balance_ns == 0 && self.near.is_empty() && self.dead_ranges.is_empty()
    }

    /// Adds the cost of extra trees that reads searched.
    pub fn add(&mut self, ns: u64) {
        self.balance_ns = self.balance_ns.saturating_add(ns);
        self.since_write_ns = self.since_write_ns.saturating_add(ns);
    }

    /// Attributes `ns` of what [`Self::add`] added to the reads near a key.
    pub fn add_near(&mut self, key: &[u8], ns: u64) {
        let key = credit_key(key);
        match self.near.binary_search_by(|near| near.key.as_slice().cmp(key)) {
            Ok(at) => self.near[at].credit_ns = self.near[at].credit_ns.saturating_add(ns),
            Err(at) => self.near.insert(at, KeyCredit { key: key.to_vec(), credit_ns: ns }),
        }
        if self.near.len() > KEYS_MAX {
            let pairs = self.near.chunks(2).map(|pair| {
                let dearer = pair.iter().max_by_key(|near| near.credit_ns).unwrap_or(&pair[0]);
                KeyCredit { key: dearer.key.clone(), credit_ns: pair.iter().map(|near| near.credit_ns).sum() }
            });
            self.near = pairs.collect();
        }
    }

    /// The credit of the reads between two keys.
    pub(super) fn between(&self, low: &[u8], high: &[u8]) -> u64 {
        let from = self.near.partition_point(|near| near.key.as_slice() < low);
        self.near[from..].iter().take_while(|near| near.key.as_slice() <= high).map(|near| near.credit_ns).sum()
    }

    /// Adds the cost of a scan that passed a row of `entries` dead entries from `low` to `high`.
    pub fn add_dead_range(&mut self, mut low: Vec<u8>, mut high: Vec<u8>, entries: u64) {
        let mut credit_ns = entries.saturating_mul(SEARCH_NS);
        self.dead_ranges.retain(|range| {
            let is_disjoint = range.high < low || high < range.low;
            if !is_disjoint {
                low = low.clone().min(range.low.clone());
                high = high.clone().max(range.high.clone());
                credit_ns = credit_ns.saturating_add(range.credit_ns);
            }
            is_disjoint
        });
        self.dead_ranges.push(DeadRange { low, high, credit_ns, in_memory: false });
        if self.dead_ranges.len() > DEAD_RANGES_MAX {
            self.dead_ranges.sort_unstable_by_key(|range| Reverse(range.credit_ns));
            self.dead_ranges.truncate(DEAD_RANGES_MAX);
        }
    }

    /// Notes which of the key ranges have keys in memory, as `holds` tells.
    pub fn look_in_memory(&mut self, holds: impl Fn(&[u8], &[u8]) -> bool) {
        self.dead_ranges.iter_mut().for_each(|range| range.in_memory = holds(&range.low, &range.high));
    }

    /// Takes the cost of `entries` written entries. `is_written` tells whether a key range (both ends included, the
    /// last range without an end) was written to.
    pub fn decay(&mut self, entries: u64, is_written: impl Fn(&[u8], Option<&[u8]>) -> bool) {
        if entries == 0 {
            return;
        }
        let cost = entries.saturating_mul(WRITE_NS);
        self.since_write_ns = 0;
        self.balance_ns = self.balance_ns.saturating_sub(cost);
        self.dead_ranges.iter_mut().for_each(|range| range.credit_ns = range.credit_ns.saturating_sub(cost));
        self.dead_ranges.retain(|range| range.credit_ns > 0);
        self.take_near(cost, is_written);
    }

    /// Takes `ns` from the credit of those keys whose surroundings, up to the neighbouring keys, `which` selects; in
    /// proportion to the credit of each.
    fn take_near(&mut self, ns: u64, which: impl Fn(&[u8], Option<&[u8]>) -> bool) {
        let of = |at: usize| {
            let low = at.checked_sub(1).map_or(&[][..], |before| &self.near[before].key);
            which(low, self.near.get(at + 1).map(|near| near.key.as_slice()))
        };
        let of: Vec<bool> = (0..self.near.len()).map(of).collect();
        let there = || self.near.iter().zip(&of).filter(|(_, of)| **of);
        let saved: u128 = there().map(|(near, _)| u128::from(near.credit_ns)).sum();
        let left = saved.saturating_sub(ns.into());
        for (near, _) in self.near.iter_mut().zip(&of).filter(|(_, of)| **of) {
            near.credit_ns = u64::try_from(u128::from(near.credit_ns) * left / saved.max(1)).unwrap_or(u64::MAX);
        }
        self.near.retain(|near| near.credit_ns > 0);
    }

    /// Takes the cost of a job that is done.
    pub fn spend(&mut self, price: &JobCost) {
        match &price.source {
            CreditSource::Row { low, high } => self.dead_ranges.retain(|range| range.low < *low || *high < range.high),
            CreditSource::All => {
                self.take(price.cost_ns);
                self.take_near(price.cost_ns, |_, _| true);
            }
            CreditSource::Between { low, high } => {
                self.take(price.cost_ns);
                self.near.retain(|near| near.key < *low || *high < near.key);
            }
        }
    }

    fn take(&mut self, ns: u64) {
        self.balance_ns = self.balance_ns.saturating_sub(ns);
        self.since_write_ns = self.since_write_ns.min(self.balance_ns);
    }
}

/// What a job takes from the credit.
#[derive(Clone, Debug)]
pub struct JobCost {
    pub(super) cost_ns: u64,
    pub(super) source: CreditSource,
}

/// The reads whose credit a job takes.
#[derive(Clone, Debug)]
pub(super) enum CreditSource {
    /// All reads of the table.
    All,
    /// The reads between two keys.
    Between { low: Vec<u8>, high: Vec<u8> },
    /// The scans that passed a row of dead entries.
    Row { low: Vec<u8>, high: Vec<u8> },
}

impl JobCost {
    /// The ends of the row of dead entries that the job removes, if it does.
    #[must_use]
    pub const fn row(&self) -> Option<(&Vec<u8>, &Vec<u8>)> {
        match &self.source {
            CreditSource::Row { low, high } => Some((low, high)),
            CreditSource::All | CreditSource::Between { .. } => None,
        }
    }

    /// Whether the job takes the credit of the reads of `key` and not that of all reads.
    #[must_use]
    pub fn is_of(&self, key: &[u8]) -> bool {
        matches!(&self.source, CreditSource::Between { low, high } if **low <= *key && *key <= **high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::u64_of;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Earn(u64),
        KeyCredit(u8, u64),
        Row(u8, u8, u64),
        Look(u8),
        Write(u64, u8, u8),
        Spend(u64),
        SpendBetween(u64, u8, u8),
        SpendRow(u8, u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = || 0..8u8;
        let pair = || (key(), key()).prop_map(|(a, b)| (a.min(b), a.max(b)));
        let step = prop_oneof![
            (0..9_000u64).prop_map(Step::Earn),
            (key(), 0..9_000u64).prop_map(|(key, ns)| Step::KeyCredit(key, ns)),
            (key(), 0..9_000u64).prop_map(|(key, ns)| Step::KeyCredit(key, ns)),
            (pair(), 1..6u64).prop_map(|((low, high), entries)| Step::Row(low, high, entries)),
            key().prop_map(Step::Look),
            (0..5u64, pair()).prop_map(|(entries, (low, high))| Step::Write(entries, low, high)),
            (0..9_000u64).prop_map(Step::Spend),
            (0..9_000u64, pair()).prop_map(|(ns, (low, high))| Step::SpendBetween(ns, low, high)),
            pair().prop_map(|(low, high)| Step::SpendRow(low, high)),
        ];
        prop::collection::vec(step, 1..40)
    }

    /// What an credit must have, told by the rules alone.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Book {
        balance: u64,
        rested: u64,
        near: BTreeMap<u8, u64>,
        /// Of each row its ends, what is saved, and whether it is in memory.
        rows: Vec<(u8, u8, u64, bool)>,
    }

    impl Book {
        fn of(credit: &ReadCredit) -> Self {
            let near = credit.near.iter().map(|near| (near.key[0], near.credit_ns));
            let rows =
                credit.dead_ranges.iter().map(|range| (range.low[0], range.high[0], range.credit_ns, range.in_memory));
            let mut rows: Vec<_> = rows.collect();
            rows.sort_unstable();
            Self { balance: credit.balance_ns, rested: credit.since_write_ns, near: near.collect(), rows }
        }

        fn take_near(&mut self, ns: u64, is_taken: impl Fn(Option<u8>, Option<u8>) -> bool) {
            let keys: Vec<u8> = self.near.keys().copied().collect();
            let before = |at: usize| at.checked_sub(1).map(|at| keys[at]);
            let taken = (0..keys.len()).filter(|at| is_taken(before(*at), keys.get(at + 1).copied()));
            let taken: Vec<u8> = taken.map(|at| keys[at]).collect();
            let saved: u64 = taken.iter().map(|key| self.near[key]).sum();
            for key in taken {
                let near = self.near.get_mut(&key).unwrap();
                *near = *near * saved.saturating_sub(ns) / saved.max(1);
            }
            self.near.retain(|_, ns| *ns > 0);
        }

        fn apply(&mut self, step: &Step) {
            match *step {
                Step::Earn(ns) => {
                    self.balance += ns;
                    self.rested += ns;
                }
                Step::KeyCredit(key, ns) => *self.near.entry(key).or_default() += ns,
                Step::Row(mut low, mut high, entries) => {
                    let mut saved = entries * SEARCH_NS;
                    while let Some(at) = self.rows.iter().position(|row| row.0 <= high && low <= row.1) {
                        let row = self.rows.remove(at);
                        (low, high, saved) = (low.min(row.0), high.max(row.1), saved + row.2);
                    }
                    self.rows.push((low, high, saved, false));
                    self.rows.sort_unstable();
                }
                Step::Look(key) => self.rows.iter_mut().for_each(|row| row.3 = row.0 <= key && key <= row.1),
                Step::Write(0, ..) => {}
                Step::Write(entries, low, high) => {
                    let cost = entries * WRITE_NS;
                    (self.balance, self.rested) = (self.balance.saturating_sub(cost), 0);
                    self.rows.iter_mut().for_each(|row| row.2 = row.2.saturating_sub(cost));
                    self.rows.retain(|row| row.2 > 0);
                    self.take_near(cost, |from, to| {
                        from.is_none_or(|from| from <= high) && to.is_none_or(|to| low <= to)
                    });
                }
                Step::Spend(ns) => {
                    self.take(ns);
                    self.take_near(ns, |_, _| true);
                }
                Step::SpendBetween(ns, low, high) => {
                    self.take(ns);
                    self.near.retain(|key, _| !(low..=high).contains(key));
                }
                Step::SpendRow(low, high) => self.rows.retain(|row| !(low <= row.0 && row.1 <= high)),
            }
        }

        fn take(&mut self, ns: u64) {
            self.balance = self.balance.saturating_sub(ns);
            self.rested = self.rested.min(self.balance);
        }
    }

    fn apply(credit: &mut ReadCredit, step: &Step) {
        match *step {
            Step::Earn(ns) => credit.add(ns),
            Step::KeyCredit(key, ns) => credit.add_near(&[key], ns),
            Step::Row(low, high, entries) => credit.add_dead_range(vec![low], vec![high], entries),
            Step::Look(key) => credit.look_in_memory(|low, high| *low <= [key][..] && [key][..] <= *high),
            Step::Write(entries, low, high) => {
                credit.decay(entries, |from, to| *from <= [high][..] && to.is_none_or(|to| [low][..] <= *to))
            }
            Step::Spend(cost_ns) => credit.spend(&JobCost { cost_ns, source: CreditSource::All }),
            Step::SpendBetween(cost_ns, low, high) => {
                credit.spend(&JobCost { cost_ns, source: CreditSource::Between { low: vec![low], high: vec![high] } });
            }
            Step::SpendRow(low, high) => {
                credit.spend(&JobCost { cost_ns: 1, source: CreditSource::Row { low: vec![low], high: vec![high] } });
            }
        }
    }

    proptest! {
        #[test]
        fn an_account_has_what_reads_paid_less_what_was_written_and_spent(steps in steps()) {
            let (mut credit, mut book) = (ReadCredit::default(), Book::default());
            for step in &steps {
                apply(&mut credit, step);
                book.apply(step);
                prop_assert_eq!(Book::of(&credit), Book { near: book.near.clone(), rows: book.rows.clone(), ..book });
                let is_empty = book.balance == 0 && book.near.is_empty() && book.rows.is_empty();
                prop_assert_eq!(credit.is_empty(), is_empty);
                for (low, high) in [(0, 7), (2, 5), (3, 3)] {
                    let between: u64 = book.near.range(low..=high).map(|(_, ns)| ns).sum();
                    prop_assert_eq!(credit.between(&[low], &[high]), between);
                }
            }
        }
    }

    #[test]
    fn of_too_many_keys_two_become_one_and_of_too_many_rows_the_least_goes() {
        let mut credit = ReadCredit::default();
        for number in 0..=u32::try_from(KEYS_MAX).unwrap() {
            assert_eq!(credit.near.len(), usize::try_from(number).unwrap());
            credit.add_near(&number.to_be_bytes(), 1 + u64::from(number % 2));
        }
        assert_eq!(credit.near.len(), KEYS_MAX / 2 + 1);
        assert_eq!((credit.near[0].key.clone(), credit.near[0].credit_ns), (1u32.to_be_bytes().to_vec(), 3));
        assert_eq!(credit.between(&[], &[0xff]), 3 * u64_of(KEYS_MAX) / 2 + 1);
        for number in 0..=u8::try_from(DEAD_RANGES_MAX).unwrap() {
            credit.add_dead_range(vec![2 * number], vec![2 * number], 10 - u64::from(number));
        }
        let rows = Book::of(&credit).rows;
        let kept = 0..u8::try_from(DEAD_RANGES_MAX).unwrap();
        assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), kept.map(|number| 2 * number).collect::<Vec<_>>());
    }
}
