//! What reads of a table save up for merges by paying for extra trees and dead entries.
//!
//! # Concurrency
//! A reader that searched one tree only, and stepped over nothing dead, touches nothing here. Others add to one of
//! several counters, each in a cache line of its own, so readers on several cores share none; only the background work
//! adds them up. A reader whose counter passes another `LOOK_NS`, or that meets a row of dead entries, takes the latch
//! of `book` for a moment; no thread holds it for long.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::sync::Mutex;
use crate::base::thread_counters::ThreadCounters;
use crate::table::policy::{FILTER_NS, JobCost, ReadCredit, credit_key, extra_ns};
use crate::tree::Costs;
use crate::txn::tombstone_stats::TombstoneStats;

use super::wakers::Wakers;

/// After so much more was paid in a counter the background looks whether a merge is paid for.
const LOOK_NS: u64 = 4_000_000;
/// So many places wait for the background to look; more are not remembered, while a table is held and nobody looks.
const PLACES_MAX: usize = 256;
/// So many rows of dead entries wait for the background to look; more are not remembered.
const ROWS_MAX: usize = 64;

/// What the reads of a table have paid.
#[derive(Debug)]
pub(crate) struct ReadCharges {
    /// Nanoseconds paid since the table was opened. They publish nothing but themselves.
    paid_ns: ThreadCounters<1>,
    /// Entries that were flushed.
    flushed: AtomicU64,
    /// Held before `book`, and for longer: readers wait for that one only.
    account: Mutex<ReadCredit>,
    book: Mutex<Book>,
    /// Wakes the background to look.
    wakers: Arc<Wakers>,
}

#[derive(Debug, Default)]
struct Book {
    /// Where reads paid, and how much.
    places: Vec<(Vec<u8>, u64)>,
    /// Rows of dead entries that scans told of: the range, and how many.
    rows: Vec<(Vec<u8>, Vec<u8>, u64)>,
    /// How much of `paid_ns`, of what was written, and of that what was flushed, is in the account.
    seen_ns: u64,
    seen_entries: u64,
    seen_flushed: u64,
}

impl ReadCharges {
    pub(crate) fn new(wakers: Arc<Wakers>) -> Self {
        let (paid_ns, flushed) = (ThreadCounters::default(), AtomicU64::new(0));
        Self { paid_ns, flushed, account: Mutex::default(), book: Mutex::default(), wakers }
    }

    /// A read at a key has paid. Says whether the background should look.
    #[inline]
    pub(crate) fn pay(&self, ns: u64, key: &[u8]) -> bool {
        if ns == 0 {
            return false;
        }
        let before = self.paid_ns.add_to(0, ns);
        let looks = (before + ns) / LOOK_NS - before / LOOK_NS;
        if looks > 0 {
            self.remember(key, looks * LOOK_NS);
        }
        looks > 0
    }

    /// Takes a read for all that paid since the last one of which this was done.
    #[cold]
    fn remember(&self, key: &[u8], ns: u64) {
        let mut book = self.book.lock();
        if book.places.len() < PLACES_MAX {
            book.places.push((credit_key(key).to_vec(), ns));
        }
    }

    /// A flush took so many entries from memory.
    pub(crate) fn flushed(&self, entries: u64) {
        self.flushed.fetch_add(entries, Ordering::Relaxed);
    }

    /// What is saved, with so many entries in memory now, of which `holds` says whether there are any from a key on to
    /// another, or to the end.
    pub(crate) fn settle(&self, in_memory: u64, holds: impl Fn(&[u8], Option<&[u8]>) -> bool) -> ReadCredit {
        let mut account = self.account.lock();
        let mut book = self.book.lock();
        let [paid] = self.paid_ns.sums();
        let flushed = self.flushed.load(Ordering::Relaxed);
        let written = flushed + in_memory;
        // Where that was written which was flushed since the last look is not known any more.
        let is_flushed = flushed != mem::replace(&mut book.seen_flushed, flushed);
        let (paid_now, written_now) = (paid.saturating_sub(book.seen_ns), written.saturating_sub(book.seen_entries));
        book.seen_ns = paid.max(book.seen_ns);
        book.seen_entries = written.max(book.seen_entries);
        let (places, rows) = (mem::take(&mut book.places), mem::take(&mut book.rows));
        drop(book);
        // What was written may have come before what was read since the last look, and took nothing from it then. The
        // other way round too much is saved, by one look's worth.
        account.decay(written_now, |low, high| is_flushed || holds(low, high));
        account.add(paid_now);
        for (key, ns) in places {
            account.add_near(&key, ns);
        }
        for (low, high, entries) in rows {
            account.add_dead_range(low, high, entries);
        }
        account.clone()
    }

    /// What was paid for is done.
    pub(crate) fn spend(&self, price: &JobCost) {
        let mut account = self.account.lock();
        account.spend(price);
        let mut book = self.book.lock();
        // Reads that came meanwhile met the same trees, and scans the same entries.
        book.places.retain(|(key, _)| !price.is_of(key));
        if let Some((low, high)) = price.row() {
            book.rows.retain(|(from, to, _)| from < low || high < to);
        }
    }

    /// A walk of a range with this key at its end has ended, and pays for the trees beside the first, and for dead
    /// entries.
    pub(crate) fn pay_walk(&self, costs: &Costs, key: &[u8], skips: TombstoneStats) {
        let mut look = self.pay(extra_ns(1, costs) + skips.scattered * FILTER_NS, key);
        if let Some((low, high)) = skips.rows.filter(|_| skips.in_rows > 0) {
            let mut book = self.book.lock();
            // While a table is held nobody looks.
            if book.rows.len() < ROWS_MAX {
                book.rows.push((low, high, skips.in_rows));
            }
            look = true;
        }
        if look {
            self.wakers.wake_compaction();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeqNum;
    use crate::table::policy::{MemtableLoad, pick_read_triggered};
    use crate::table::{TableOptions, Trees};

    /// Scans that meet a row while a job removes it have met what is gone.
    #[test]
    fn what_was_met_of_a_row_before_its_job_was_done_pays_for_no_other_job() {
        let charges = ReadCharges::new(Arc::default());
        let walk = |low: &[u8], high: &[u8]| {
            let mut skips = TombstoneStats::default();
            (skips.in_rows, skips.rows) = (100, Some((low.to_vec(), high.to_vec())));
            charges.pay_walk(&Costs::default(), high, skips);
        };
        let paid = |account: &ReadCredit| {
            let (trees, options, memory) = (Trees::default(), TableOptions::default(), MemtableLoad::default());
            pick_read_triggered(&trees, &options, (u64::MAX, SeqNum::ZERO), memory, account).map(|paid| paid.cost)
        };
        walk(b"d", b"g");
        let price = paid(&charges.settle(0, |_, _| false)).unwrap();
        walk(b"d", b"g");
        walk(b"e", b"f");
        charges.spend(&price);
        assert!(paid(&charges.settle(0, |_, _| false)).is_none());
        for (low, high) in [(b"c", b"g"), (b"d", b"h")] {
            walk(low, high);
            charges.spend(&price);
            let price = paid(&charges.settle(0, |_, _| false)).expect("a wider row is another one");
            charges.spend(&price);
        }
    }
}
