//! A thread's connection to fjall.

use super::store::FjallStore;
use ::fjall::{Iter, Keyspace, OptimisticWriteTx, PersistMode, Readable, Snapshot};
use anyhow::{Context as _, Result, ensure};
use spinney_lab::driver::{Batch, Change, Client, Direction, Durability, Lacks, Outcome, Scan, TableId};
use std::ops::Bound;

pub(super) struct FjallClient<'a> {
    store: &'a FjallStore,
    view: Option<Snapshot>,
    transaction: Option<OptimisticWriteTx>,
}

impl<'a> FjallClient<'a> {
    pub(super) fn new(store: &'a FjallStore) -> Self {
        Self { store, view: None, transaction: None }
    }

    fn keyspace(&self, table: TableId) -> &'a Keyspace {
        self.store.tables[table.0].keyspace.inner()
    }

    /// How a commit is made durable.
    fn persist(&self) -> Option<PersistMode> {
        Some(if self.store.durability == Durability::Sync { PersistMode::SyncData } else { PersistMode::Buffer })
    }

    fn begin_transaction(&self) -> Result<OptimisticWriteTx> {
        Ok(self.store.db.write_tx()?.durability(self.persist()))
    }

    fn apply(&self, transaction: &mut OptimisticWriteTx, batch: &Batch) {
        for change in batch.iter() {
            match change {
                Change::Put(table, key, value) => transaction.insert(self.keyspace(table), key, value),
                Change::Delete(table, key) => transaction.remove(self.keyspace(table), key),
            }
        }
    }

    /// Writes a batch that no transaction needs to know of.
    fn write_batch(&self, batch: &Batch) -> Result<()> {
        let mut own = self.store.db.inner().batch().durability(self.persist());
        for change in batch.iter() {
            match change {
                Change::Put(table, key, value) => own.insert(self.keyspace(table), key, value),
                Change::Delete(table, key) => own.remove(self.keyspace(table), key),
            }
        }
        Ok(own.commit()?)
    }

    fn range(&self, scan: &Scan<'_>) -> Iter {
        let keyspace = self.keyspace(scan.table);
        let from = scan.from.map_or(Bound::Unbounded, Bound::Included);
        let until = scan.until.map_or(Bound::Unbounded, Bound::Excluded);
        let range = if scan.direction == Direction::Forward { (from, until) } else { (until, from) };
        match (&self.transaction, &self.view) {
            (Some(transaction), _) => transaction.range::<&[u8], _>(keyspace, range),
            (None, Some(view)) => view.range::<&[u8], _>(keyspace, range),
            (None, None) => keyspace.range::<&[u8], _>(range),
        }
    }
}

impl Client for FjallClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        if let Some(mut transaction) = self.transaction.take() {
            self.apply(&mut transaction, batch);
            self.transaction = Some(transaction);
        } else if self.store.transactions {
            let mut transaction = self.begin_transaction()?;
            self.apply(&mut transaction, batch);
            return Ok(outcome(transaction.commit()?.is_ok()));
        } else {
            self.write_batch(batch)?;
        }
        Ok(Outcome::Done)
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let keyspace = self.keyspace(table);
        let value = match (&self.transaction, &self.view) {
            (Some(transaction), _) => transaction.get(keyspace, key)?,
            (None, Some(view)) => view.get(keyspace, key)?,
            (None, None) => keyspace.get(key)?,
        };
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut entries = self.range(scan);
        let mut visited = 0;
        while visited < scan.limit {
            let entry = match scan.direction {
                Direction::Forward => entries.next(),
                Direction::Backward => entries.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry.into_inner()?;
            visit(&key, &value);
            visited += 1;
        }
        Ok(visited)
    }

    fn view(&mut self) -> Result<()> {
        self.view = Some(self.store.db.read_tx());
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        ensure!(self.store.transactions, Lacks::new("no transactions unless it is opened for them"));
        self.transaction = Some(self.begin_transaction()?);
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        let transaction = self.transaction.take().context("no transaction to commit")?;
        Ok(outcome(transaction.commit()?.is_ok()))
    }

    fn rollback(&mut self) -> Result<()> {
        if let Some(transaction) = self.transaction.take() {
            transaction.rollback();
        }
        Ok(())
    }
}

fn outcome(done: bool) -> Outcome {
    if done { Outcome::Done } else { Outcome::Conflict }
}
