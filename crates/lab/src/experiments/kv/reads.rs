//! The workloads that read.

use super::data::{KEY_BYTES, MISSING_KEY_BYTES, Order, key, missing_key};
use super::figures::Figures;
use super::session::{Session, TABLE};
use super::workload::Workload;
use crate::driver::{Client, Direction, Scan, unless_lacking};
use crate::experiments::tally::Tallies;
use crate::run::{Db, Did, End, Plan, Role};
use anyhow::{Result, ensure};

/// Calls of a reader between two views of the database.
const VIEW_CALLS: u64 = 1024;
/// Entries that readseq and readreverse read in a call.
const SCAN_ENTRIES: u64 = 1000;

impl Session<'_> {
    /// Gets of one key: of any at any time, or of each of them once.
    pub(super) fn get(&self, workload: Workload, db: &mut Db<'_, '_>) -> Result<()> {
        let kv = self.kv;
        let (order, end) = match workload {
            Workload::Warm => (Order::shuffled(self.seed ^ self.salt(workload), kv.num), End::Calls(kv.num)),
            _ => (self.drawn(workload), kv.end(kv.reads())),
        };
        let tallies = Tallies::new(kv.clients());
        let missing = workload == Workload::Readmissing;
        let work = |client_number| {
            let (mut tally, mut view) = (tallies.of(client_number), View::default());
            move |client: &mut dyn Client, at: u64| {
                view.refresh(client)?;
                let number = order.number(at);
                let mut bytes = 0;
                let mut get = |key: &[u8]| client.get(TABLE, key, &mut |value| bytes = key.len() + value.len());
                let there = if missing { get(&missing_key(number)) } else { get(&key(number)) }?;
                tally.add([u64::from(there), bytes as u64]);
                Ok(Did::read(bytes as u64))
            }
        };
        let role = Role::new(&["get"], kv.clients(), end, work);
        self.read(workload, role, &tallies, db)
    }

    /// Gets of many keys.
    pub(super) fn multi_get(&self, workload: Workload, db: &mut Db<'_, '_>) -> Result<()> {
        let order = self.drawn(workload);
        let tallies = Tallies::new(self.kv.clients());
        let (batch, reads) = (self.kv.read_batch, self.kv.reads());
        let calls = reads.div_ceil(batch);
        let work = |client_number| {
            let (mut tally, mut view) = (tallies.of(client_number), View::default());
            let mut keys = Vec::new();
            move |client: &mut dyn Client, at: u64| {
                view.refresh(client)?;
                let from = at % calls * batch;
                let until = reads.min(from + batch);
                keys.clear();
                keys.extend((from..until).map(|place| key(order.number(at / calls * reads + place))));
                let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                let (mut found, mut bytes) = (0, 0);
                client.multi_get(TABLE, &keys, &mut |_at, value| {
                    found += 1;
                    bytes += (KEY_BYTES + value.len()) as u64;
                })?;
                tally.add([found, bytes]);
                Ok(Did::read(bytes).operations(until - from))
            }
        };
        let role = Role::new(&["multi-get"], self.kv.clients(), self.kv.end(calls), work);
        self.read(workload, role, &tallies, db)
    }

    /// Seeks, each with the entries after it.
    pub(super) fn seek(&self, workload: Workload, db: &mut Db<'_, '_>) -> Result<()> {
        let order = self.drawn(workload);
        let tallies = Tallies::new(self.kv.clients());
        let limit = u64::from(self.kv.seek_nexts) + 1;
        let work = |client_number| {
            let (mut tally, mut view) = (tallies.of(client_number), View::default());
            move |client: &mut dyn Client, at: u64| {
                view.refresh(client)?;
                let sought = key(order.number(at));
                let (mut visited, mut found, mut bytes) = (0, 0, 0);
                client.scan(&Scan::from(TABLE, &sought, limit), &mut |key, value| {
                    found += u64::from(visited == 0 && key == sought);
                    visited += 1;
                    bytes += (key.len() + value.len()) as u64;
                })?;
                tally.add([found, bytes]);
                Ok(Did::read(bytes))
            }
        };
        let role = Role::new(&["seek"], self.kv.clients(), self.kv.end(self.kv.reads()), work);
        self.read(workload, role, &tallies, db)
    }

    /// All entries in order, so many in a call.
    pub(super) fn scan(&self, workload: Workload, db: &mut Db<'_, '_>) -> Result<()> {
        let kv = self.kv;
        let tallies = Tallies::new(kv.clients());
        let entries = kv.reads().min(kv.num);
        let calls = entries.div_ceil(SCAN_ENTRIES);
        let work = |client_number| {
            let (mut tally, mut view) = (tallies.of(client_number), View::default());
            move |client: &mut dyn Client, at: u64| {
                view.refresh(client)?;
                let from = at % calls * SCAN_ENTRIES;
                let until = entries.min(from + SCAN_ENTRIES);
                let mut bytes = 0;
                let mut visit = |key: &[u8], value: &[u8]| bytes += (key.len() + value.len()) as u64;
                let found = match workload {
                    Workload::Readseq => {
                        let (from_key, until_key) = (key(from), key(until));
                        let scan = Scan { until: Some(&until_key), ..Scan::from(TABLE, &from_key, until - from) };
                        client.scan(&scan, &mut visit)?
                    }
                    _ => {
                        let from_key = key(kv.num - 1 - from);
                        let until_key = kv.num.checked_sub(1 + until).map(key);
                        let until_key = until_key.as_ref().map(|key| &key[..]);
                        let scan = Scan { until: until_key, ..Scan::from(TABLE, &from_key, until - from) };
                        client.scan(&Scan { direction: Direction::Backward, ..scan }, &mut visit)?
                    }
                };
                tally.add([found, bytes]);
                Ok(Did::read(bytes).operations(found))
            }
        };
        let role = Role::new(&["scan"], kv.clients(), kv.end(calls), work);
        let plan = Plan { name: self.name(workload), unit: "entry", roles: vec![role], live_bytes: self.live_bytes() };
        let figures = |_operations| Figures { bytes: Some(tallies.totals()[1]), ..Figures::default() };
        if self.step(&plan, db, figures)? && self.is_full() && matches!(kv.end(0), End::Calls(_)) {
            let [found, _bytes] = tallies.totals();
            ensure!(found == entries, "{} read {found} entries where {entries} should be", plan.name);
        }
        Ok(())
    }

    /// Runs a workload that asks for keys, and compares what was there with what should be.
    fn read<'a>(&'a self, workload: Workload, role: Role<'a>, tallies: &Tallies<2>, db: &mut Db<'_, '_>) -> Result<()> {
        let mut roles = vec![role];
        roles.extend(workload.has_writer().then(|| self.writer(workload)));
        let plan = Plan { name: self.name(workload), unit: workload.unit(), roles, live_bytes: self.live_bytes() };
        let mut asked = 0;
        let done = self.step(&plan, db, |operations| {
            asked = operations;
            let [found, bytes] = tallies.totals();
            let found = (operations > 0).then(|| found as f64 / operations as f64);
            Figures { bytes: Some(bytes), found, floors: None }
        })?;
        let [found, _bytes] = tallies.totals();
        let name = &plan.name;
        match workload {
            _ if !done => {}
            Workload::Readmissing => ensure!(found == 0, "{name} found {found} keys that were never put"),
            _ => ensure!(!self.is_full() || found == asked, "{name} found {found} of {asked} keys, and all are there"),
        }
        Ok(())
    }

    /// Any key at any time, as readers ask for them.
    fn drawn(&self, workload: Workload) -> Order {
        Order::Drawn { seed: self.seed ^ self.salt(workload), keys: self.kv.num }
    }
}

/// A reader's view of the database, which is taken anew after so many calls; an engine without views reads what is
/// there.
#[derive(Debug, Default)]
struct View {
    calls: u64,
}

impl View {
    fn refresh(&mut self, client: &mut dyn Client) -> Result<()> {
        if self.calls.is_multiple_of(VIEW_CALLS) {
            drop(unless_lacking(client.view())?);
        }
        self.calls += 1;
        Ok(())
    }
}

const _: () = assert!(MISSING_KEY_BYTES == KEY_BYTES + 1, "a missing key sorts after the key that it begins with");
