//! What a client does: operations of a workload on records.

use super::data::{FIELDS, write_field, write_key, write_record};
use super::workload::{Chooser, INSERT, READ, SCAN, UPDATE, Workload};
use crate::driver::{Batch, Client, Outcome, Scan, TableId, unless_lacking};
use crate::experiments::tally::Tally;
use crate::random::Random;
use crate::run::{Did, Work};
use anyhow::{Result, ensure};
use spinney::base::num::usize_of;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) const TABLE: TableId = TableId(0);

/// The most records of a scan; each length from 1 up is as likely.
pub(super) const SCAN_MAX: u64 = 100;

/// How far the clients of a step have come with inserts: client c of n inserts the records `first + c`,
/// `first + c + n`, and so on.
#[derive(Debug)]
pub(super) struct Inserted {
    first: u64,
    /// Inserts of each client. An addition publishes, to a thread that loads it, that the records are there.
    clients: Vec<AtomicU64>,
}

impl Inserted {
    pub(super) fn new(first: u64, clients: usize) -> Self {
        Self { first, clients: (0..clients).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The number below which all records are there.
    fn records(&self) -> u64 {
        let clients = self.clients.len() as u64;
        let next = |(client, count): (u64, &AtomicU64)| count.load(Ordering::Acquire) * clients + client;
        self.first + (0..).zip(&self.clients).map(next).min().unwrap_or(0)
    }

    /// A client inserted its next record.
    pub(super) fn add(&self, client: usize) {
        self.clients[client].fetch_add(1, Ordering::Release);
    }

    /// The record that a client inserts after so many.
    fn record(&self, client: usize, inserts: u64) -> u64 {
        self.first + inserts * self.clients.len() as u64 + client as u64
    }
}

/// What all clients of a step share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared<'a> {
    pub(super) workload: Workload,
    pub(super) seed: u64,
    pub(super) inserted: &'a Inserted,
    /// Set when read-modify-writes go without transactions, which the engine lacks.
    pub(super) without_transactions: &'a AtomicBool,
}

/// A client of a workload. Its tally has bytes, entries of scans, and transactions run again after a conflict.
#[derive(Debug)]
pub(super) struct Operations<'a> {
    shared: Shared<'a>,
    client_number: usize,
    chooser: Chooser,
    tally: Tally<'a, 3>,
    inserts: u64,
    /// Records that are known to be there.
    records: u64,
    key: Vec<u8>,
    record: Vec<u8>,
    batch: Batch,
}

impl<'a> Operations<'a> {
    pub(super) fn new(shared: Shared<'a>, client_number: usize, chooser: Chooser, tally: Tally<'a, 3>) -> Self {
        let records = shared.inserted.first;
        let (key, record, batch) = (Vec::new(), Vec::new(), Batch::new());
        Self { shared, client_number, chooser, tally, inserts: 0, records, key, record, batch }
    }

    fn choose(&mut self, random: &mut Random) {
        if self.shared.workload.inserts() {
            self.records = self.shared.inserted.records();
        }
        write_key(self.chooser.choose(random, self.records), &mut self.key);
    }

    /// Reads the record of the key, whose bytes it returns.
    fn read(&mut self, client: &mut dyn Client, for_update: bool) -> Result<u64> {
        let Self { key, record, .. } = self;
        let found = &mut |value: &[u8]| {
            record.clear();
            record.extend_from_slice(value);
        };
        let there = if for_update { client.get_for_update(TABLE, key, found) } else { client.get(TABLE, key, found) }?;
        ensure!(there, "the record {} is not there", String::from_utf8_lossy(&self.key));
        Ok((self.key.len() + self.record.len()) as u64)
    }

    fn write(&mut self, client: &mut dyn Client) -> Result<Outcome> {
        self.batch.clear();
        self.batch.put(TABLE, &self.key, &self.record);
        client.write(&self.batch)
    }

    /// Writes outside transactions; returns the bytes.
    fn put(&mut self, client: &mut dyn Client) -> Result<u64> {
        ensure!(self.write(client)? == Outcome::Done, "a write outside transactions had a conflict");
        Ok(self.batch.bytes() as u64)
    }

    /// Reads a record and writes it back with one field changed.
    fn update(&mut self, client: &mut dyn Client, random: &mut Random) -> Result<Did> {
        let read_bytes = self.read(client, false)?;
        write_field(usize_of(random.below(FIELDS as u64)), random, &mut self.record);
        let written_bytes = self.put(client)?;
        Ok(Did { operations: 1, read_bytes, written_bytes, ..Did::default() })
    }

    /// The same in a transaction, which is run again until it has no conflict.
    fn read_modify_write(&mut self, client: &mut dyn Client, random: &mut Random) -> Result<Did> {
        let field = usize_of(random.below(FIELDS as u64));
        loop {
            if unless_lacking(client.begin())?.is_err() {
                self.shared.without_transactions.store(true, Ordering::Relaxed);
                return self.update(client, random);
            }
            let read_bytes = self.read(client, true)?;
            write_field(field, random, &mut self.record);
            if self.write(client)? == Outcome::Done && client.commit()? == Outcome::Done {
                let written_bytes = self.batch.bytes() as u64;
                return Ok(Did { operations: 1, read_bytes, written_bytes, ..Did::default() });
            }
            self.tally.add([0, 0, 1]);
        }
    }

    fn insert(&mut self, client: &mut dyn Client) -> Result<Did> {
        let number = self.shared.inserted.record(self.client_number, self.inserts);
        write_key(number, &mut self.key);
        write_record(self.shared.seed, number, &mut self.record);
        let bytes = self.put(client)?;
        self.inserts += 1;
        Ok(Did::wrote(bytes))
    }

    fn scan(&mut self, client: &mut dyn Client, random: &mut Random) -> Result<Did> {
        let mut bytes = 0;
        let scan = Scan::from(TABLE, &self.key, 1 + random.below(SCAN_MAX));
        let entries = client.scan(&scan, &mut |key, value| bytes += (key.len() + value.len()) as u64)?;
        ensure!(entries > 0, "a scan from a record did not find it");
        self.tally.add([0, entries, 0]);
        Ok(Did::read(bytes))
    }
}

impl Work for Operations<'_> {
    fn call(&mut self, client: &mut dyn Client, at: u64) -> Result<Did> {
        let random = &mut Random::of(self.shared.seed ^ ((self.shared.workload as u64 + 1) << 32), at);
        let kind = self.shared.workload.kind(random);
        if kind != INSERT {
            self.choose(random);
        }
        let did = match kind {
            READ => Did::read(self.read(client, false)?),
            UPDATE => self.update(client, random)?,
            INSERT => self.insert(client)?,
            SCAN => self.scan(client, random)?,
            _ => self.read_modify_write(client, random)?,
        };
        self.tally.add([did.read_bytes + did.written_bytes, 0, 0]);
        Ok(did.kind(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Null;
    use crate::experiments::tally::Tallies;

    /// The lab also makes the calls of an engine that does nothing, to see what they cost: its records are nowhere.
    #[test]
    fn an_insert_is_not_published_by_the_call_itself() {
        let (inserted, without_transactions) = (Inserted::new(100, 1), AtomicBool::new(false));
        let workload = Workload::D;
        let shared = Shared { workload, seed: 1, inserted: &inserted, without_transactions: &without_transactions };
        let tallies = Tallies::new(1);
        let chooser = Chooser::new(workload.distribution(), 100, workload, 1_000);
        let mut operations = Operations::new(shared, 0, chooser, tallies.of(0));
        let inserts = (0..1_000).filter(|&at| operations.call(&mut Null, at).unwrap().kind == INSERT).count();
        assert!(inserts > 20 && inserted.records() == 100, "{inserts}");
        inserted.add(0);
        assert_eq!(inserted.records(), 101);
    }

    #[test]
    fn records_are_there_up_to_the_first_that_is_not() {
        let inserted = Inserted::new(100, 3);
        assert_eq!(inserted.records(), 100);
        let insert = |client: usize, inserts| (0..inserts).for_each(|_| inserted.add(client));
        insert(0, 2);
        assert_eq!(inserted.records(), 101);
        insert(1, 1);
        insert(2, 5);
        assert_eq!(inserted.records(), 104);
        assert_eq!((inserted.record(1, 0), inserted.record(1, 1), inserted.record(0, 2)), (101, 104, 106));
    }
}
