//! One thread's connection.

use super::native::{Error, Iterator, ReadOptions, Snapshot, Transaction, WriteBatch};
use super::store::{Lookups, RocksStore};
use anyhow::{Context as _, Result};
use rocksdb::perf::{PerfContext, PerfMetric};
use spinney_lab::driver::{Batch, Change, Client, Direction, Lacks, Outcome, Scan, TableId};
use std::sync::atomic::Ordering;

/// When this is set in the environment, the driver reads as `db_bench` does, to be compared with it.
const PLAIN: &str = "SPINNEY_ROCKSDB_PLAIN";

pub(super) struct RocksClient<'a> {
    store: &'a RocksStore,
    batch: WriteBatch,
    /// The value of the last get.
    value: Vec<u8>,
    /// Iterators of scans without end, by table: to use one again is cheaper than to make one. Declared before the
    /// view, which they may see.
    iterators: Vec<Option<Iterator<'a>>>,
    /// What reads outside transactions see.
    read: ReadOptions,
    view: Option<Snapshot<'a>>,
    /// Reads cost what they cost in `db_bench`: no view, and an iterator for each scan.
    plain: bool,
    transaction: Option<Transaction<'a>>,
    /// The transaction could not lock a key that it is going to write, so it cannot commit.
    lost: bool,
    /// What RocksDB counts of this thread.
    counts: PerfContext,
    /// The last transaction, whose memory the next one gets.
    ended: Option<Transaction<'a>>,
}

impl<'a> RocksClient<'a> {
    pub(super) fn new(store: &'a RocksStore, tables: usize) -> Self {
        Self {
            store,
            batch: WriteBatch::new(),
            value: Vec::new(),
            iterators: (0..tables).map(|_| None).collect(),
            read: ReadOptions::new(),
            view: None,
            plain: std::env::var_os(PLAIN).is_some(),
            transaction: None,
            lost: false,
            counts: counts_from_now(),
            ended: None,
        }
    }

    fn commit_batch(&mut self, batch: &Batch) -> Result<Outcome> {
        self.batch.clear();
        for change in batch.iter() {
            match change {
                Change::Put(table, key, value) => self.batch.put(self.store.db.table(table.0), key, value),
                Change::Delete(table, key) => self.batch.delete(self.store.db.table(table.0), key),
            }
        }
        outcome(self.store.db.write(&self.batch, &self.store.write))
    }

    /// An iterator for scans without end outside transactions.
    fn iterator(&mut self, table: TableId) -> Result<&mut Iterator<'a>> {
        let kept = &mut self.iterators[table.0];
        if self.plain {
            *kept = None;
        }
        match kept {
            Some(iterator) if self.view.is_none() => iterator.refresh()?,
            Some(_) => {}
            None => {
                let mut options = ReadOptions::new();
                options.see(self.view.as_ref());
                *kept = Some(Iterator::new(&self.store.db, self.store.db.table(table.0), options));
            }
        }
        kept.as_mut().context("made above")
    }
}

impl Client for RocksClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        let Some(transaction) = &mut self.transaction else { return self.commit_batch(batch) };
        if self.lost {
            self.rollback()?;
            return Ok(Outcome::Conflict);
        }
        let db = &self.store.db;
        let written = batch.iter().try_for_each(|change| match change {
            Change::Put(table, key, value) => transaction.put(db.table(table.0), key, value),
            Change::Delete(table, key) => transaction.delete(db.table(table.0), key),
        });
        let outcome = outcome(written)?;
        if outcome == Outcome::Conflict {
            self.rollback()?;
        }
        Ok(outcome)
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let handle = self.store.db.table(table.0);
        if let Some(transaction) = &mut self.transaction {
            return Ok(transaction.get(handle, key, false, found)?);
        }
        let value = self.store.db.get(handle, key, &self.read, &mut self.value)?;
        Ok(value.map(found).is_some())
    }

    fn multi_get(&mut self, table: TableId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        if self.transaction.is_some() {
            for (at, key) in keys.iter().enumerate() {
                self.get(table, key, &mut |value| found(at, value))?;
            }
            return Ok(());
        }
        let values = self.store.db.multi_get(self.store.db.table(table.0), keys, &self.read)?;
        values.iter().for_each(|(at, value)| found(at, value));
        Ok(())
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let handle = self.store.db.table(scan.table.0);
        if self.transaction.is_none() && scan.until.is_none() {
            return Ok(visit_all(self.iterator(scan.table)?, scan, visit)?);
        }
        // An iterator cannot change where it ends, but one that knows reads no block and passes no tombstone beyond.
        let mut options = ReadOptions::new();
        match (scan.until, scan.direction) {
            (None, _) => {}
            (Some(until), Direction::Forward) => options.end_before(until),
            (Some(until), Direction::Backward) => options.end_after(until),
        }
        let mut iterator = match &mut self.transaction {
            Some(transaction) => transaction.iterator(handle, options),
            None => {
                options.see(self.view.as_ref());
                Iterator::new(&self.store.db, handle, options)
            }
        };
        Ok(visit_all(&mut iterator, scan, visit)?)
    }

    fn view(&mut self) -> Result<()> {
        self.iterators.iter_mut().for_each(|iterator| *iterator = None);
        if self.plain {
            return Ok(());
        }
        let view = self.store.db.snapshot();
        self.read.see(Some(&view));
        self.view = Some(view);
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.rollback()?;
        let begun = Transaction::begin(&self.store.db, &self.store.write, self.ended.take());
        self.transaction = Some(begun.ok_or_else(|| Lacks::new("no transactions when it is opened without"))?);
        self.lost = false;
        Ok(())
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(transaction) = &mut self.transaction else { return self.get(table, key, found) };
        match transaction.get(self.store.db.table(table.0), key, true, found) {
            Err(error) if error.is_conflict() => {
                // There is no way to say so here: the next write or the commit does. Until then all is read as of one
                // moment.
                self.lost = true;
                self.get(table, key, found)
            }
            result => Ok(result?),
        }
    }

    fn commit(&mut self) -> Result<Outcome> {
        let Some(mut transaction) = self.transaction.take() else { return Ok(Outcome::Done) };
        let outcome = if self.lost { Outcome::Conflict } else { outcome(transaction.commit())? };
        if outcome == Outcome::Conflict {
            transaction.rollback()?;
        }
        self.ended = Some(transaction);
        Ok(outcome)
    }

    fn rollback(&mut self) -> Result<()> {
        let Some(mut transaction) = self.transaction.take() else { return Ok(()) };
        transaction.rollback()?;
        self.ended = Some(transaction);
        Ok(())
    }
}

/// A client ends on the thread that it was made on, whose counts these are.
impl Drop for RocksClient<'_> {
    fn drop(&mut self) {
        let Lookups { hits, misses } = &self.store.lookups;
        hits.fetch_add(self.counts.metric(PerfMetric::BlockCacheHitCount), Ordering::Relaxed);
        misses.fetch_add(self.counts.metric(PerfMetric::BlockReadCount), Ordering::Relaxed);
    }
}

/// RocksDB counts for each thread, whether it is asked or not.
fn counts_from_now() -> PerfContext {
    let mut counts = PerfContext::default();
    counts.reset();
    counts
}

fn outcome(result: Result<(), Error>) -> Result<Outcome> {
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(error) if error.is_conflict() => Ok(Outcome::Conflict),
        Err(error) => Err(error.into()),
    }
}

/// Visits the entries of a scan, which ends where the iterator does.
fn visit_all(iterator: &mut Iterator<'_>, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64, Error> {
    let mut visited = 0;
    if scan.limit == 0 {
        return Ok(0);
    }
    iterator.seek(scan.from, scan.direction);
    while let Some((key, value)) = iterator.entry()? {
        visit(key, value);
        visited += 1;
        if visited == scan.limit {
            break;
        }
        iterator.step(scan.direction);
    }
    Ok(visited)
}
