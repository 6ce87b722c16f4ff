//! A connection every read of which is compared with a model.

use super::hash::{Operations, Verb};
use super::store::CheckedStore;
use crate::driver::batch::Batch;
use crate::driver::client::{Client, Outcome, Scan};
use crate::driver::config::TableId;
use crate::driver::lacks::unless_lacking;
use crate::driver::model::{Model, Undo};
use anyhow::{Result, bail, ensure};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

pub(super) struct CheckedClient<'a> {
    store: &'a CheckedStore,
    /// Dropped before `transaction`, so that the engine has ended its transaction before another client has the lock.
    client: Box<dyn Client + 'a>,
    transaction: Option<Transaction<'a>>,
    operations: Operations,
}

/// A transaction: the lock, and what it changed.
struct Transaction<'a> {
    model: MutexGuard<'a, Model>,
    undo: Vec<Undo>,
}

impl<'a> CheckedClient<'a> {
    pub(super) fn new(store: &'a CheckedStore, client: Box<dyn Client + 'a>) -> Self {
        Self { store, client, transaction: None, operations: Operations::default() }
    }

    /// Has `read` done on the model of the present, under its lock.
    fn read<T>(&mut self, read: impl FnOnce(&mut dyn Client, &Model, &CheckedStore) -> Result<T>) -> Result<T> {
        let own;
        let model = match &self.transaction {
            Some(transaction) => &transaction.model,
            None => {
                own = self.store.lock();
                // An engine without views reads the present anyway.
                unless_lacking(self.client.view())?.ok();
                &own
            }
        };
        self.store.totals.reads.fetch_add(1, Ordering::Relaxed);
        read(&mut *self.client, model, self.store)
    }

    fn get_as(&mut self, verb: Verb, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.operations.get(verb, table, key);
        self.read(|client, model, store| {
            let mut value: Option<Vec<u8>> = None;
            let mut keep = |bytes: &[u8]| value = Some(bytes.to_vec());
            let there = match verb {
                Verb::GetForUpdate => client.get_for_update(table, key, &mut keep)?,
                _ => client.get(table, key, &mut keep)?,
            };
            store.compare(table, key, model.get(table, key), value.as_deref())?;
            ensure!(there == value.is_some(), "{} says {there} of a value that it gave otherwise", store.engine);
            if let Some(value) = &value {
                found(value);
            }
            Ok(there)
        })
    }

    /// Ends the transaction, if there is one; its changes stay in the model or not.
    fn end(&mut self, keep: bool) {
        if let Some(Transaction { mut model, mut undo }) = self.transaction.take()
            && !keep
        {
            model.take_back(&mut undo);
        }
    }
}

impl Client for CheckedClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        self.operations.write(batch);
        match &mut self.transaction {
            Some(Transaction { model, undo }) => {
                let outcome = self.client.write(batch)?;
                match outcome {
                    Outcome::Done => model.apply(batch, undo),
                    Outcome::Conflict => self.end(false),
                }
                Ok(outcome)
            }
            None => {
                let mut model = self.store.lock();
                let outcome = self.client.write(batch)?;
                if outcome == Outcome::Done {
                    model.apply(batch, &mut Vec::new());
                }
                Ok(outcome)
            }
        }
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get_as(Verb::Get, table, key, found)
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get_as(Verb::GetForUpdate, table, key, found)
    }

    fn multi_get(&mut self, table: TableId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.operations.verb(Verb::MultiGet);
        keys.iter().for_each(|key| self.operations.get(Verb::MultiGet, table, key));
        self.read(|client, model, store| {
            let mut values: Vec<Option<Vec<u8>>> = vec![None; keys.len()];
            client.multi_get(table, keys, &mut |at, value| values[at] = Some(value.to_vec()))?;
            for (at, (key, value)) in keys.iter().zip(&values).enumerate() {
                store.compare(table, key, model.get(table, key), value.as_deref())?;
                if let Some(value) = value {
                    found(at, value);
                }
            }
            Ok(())
        })
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        self.operations.scan(scan);
        self.read(|client, model, store| {
            let mut wanted = model.scan(scan);
            let (mut visited, mut wrong) = (0, None);
            let count = client.scan(scan, &mut |key, value| {
                visited += 1;
                if wrong.is_none() {
                    wrong = store.compare_entry(scan.table, wanted.next(), Some((key, value))).err();
                }
                visit(key, value);
            })?;
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
            store.compare_entry(scan.table, wanted.next(), None)?;
            ensure!(count == visited, "{}: a scan visited {visited} entries and says {count}", store.engine);
            Ok(count)
        })
    }

    /// Each read looks anew, so there is nothing to do but to find out whether the engine has views.
    fn view(&mut self) -> Result<()> {
        self.client.view()
    }

    fn begin(&mut self) -> Result<()> {
        self.operations.verb(Verb::Begin);
        ensure!(self.transaction.is_none(), "a transaction begins in a transaction");
        let model = self.store.lock();
        self.client.begin()?;
        self.transaction = Some(Transaction { model, undo: Vec::new() });
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        self.operations.verb(Verb::Commit);
        let outcome = self.client.commit();
        self.end(matches!(outcome, Ok(Outcome::Done)));
        outcome
    }

    fn rollback(&mut self) -> Result<()> {
        self.operations.verb(Verb::Rollback);
        let result = self.client.rollback();
        self.end(false);
        result
    }
}

impl Drop for CheckedClient<'_> {
    fn drop(&mut self) {
        if let Some(Transaction { model, undo }) = &mut self.transaction {
            model.take_back(undo);
        }
        self.store.totals.hash.fetch_add(self.operations.finish(), Ordering::Relaxed);
    }
}

impl CheckedStore {
    fn compare(&self, table: TableId, key: &[u8], wanted: Option<&[u8]>, found: Option<&[u8]>) -> Result<()> {
        if wanted == found {
            return Ok(());
        }
        let text = |value: Option<&[u8]>| value.map_or_else(|| "no value".to_owned(), hex);
        bail!(
            "{} reads wrong: table `{}`, key {}: expected {}, found {}",
            self.engine,
            self.tables[table.0],
            hex(key),
            text(wanted),
            text(found)
        )
    }

    fn compare_entry(
        &self,
        table: TableId,
        wanted: Option<(&[u8], &[u8])>,
        found: Option<(&[u8], &[u8])>,
    ) -> Result<()> {
        match (wanted, found) {
            (Some((key, wanted)), Some((found_key, found))) if key == found_key => {
                self.compare(table, key, Some(wanted), Some(found))
            }
            (None, None) => Ok(()),
            (wanted, found) => {
                let text = |entry: Option<(&[u8], &[u8])>| {
                    entry.map_or_else(|| "the end".to_owned(), |(key, _)| format!("key {}", hex(key)))
                };
                bail!(
                    "{} scans wrong: table `{}`: expected {}, found {}",
                    self.engine,
                    self.tables[table.0],
                    text(wanted),
                    text(found)
                )
            }
        }
    }
}

/// Bytes in hexadecimal, the first 40 of them, with their number if there are more.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = "0x".to_owned();
    for byte in bytes.iter().take(40) {
        write!(text, "{byte:02x}").expect("a string takes all");
    }
    if bytes.len() > 40 {
        write!(text, ".. ({} bytes)", bytes.len()).expect("a string takes all");
    }
    text
}
