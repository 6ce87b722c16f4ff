//! The workloads that put and delete.

use super::data::{Order, Values, key};
use super::figures::Figures;
use super::params::Kv;
use super::session::{Session, TABLE};
use super::workload::Workload;
use crate::driver::{Batch, Client, Config, Durability, Outcome, TableSpec, unless_lacking};
use crate::experiments::device::Device;
use crate::run::{Bench, Db, Did, End, Plan, Role, Work};
use anyhow::{Result, ensure};

/// The entries in a commit of fillbatch, and how many fewer keys fillsync puts.
const THOUSAND: u64 = 1_000;

/// Writes to the raw device before, and again after, fillsync: at most so many.
const FLOOR_WRITES_MAX: u64 = 1_000;

impl Session<'_> {
    /// The fills and overwrite.
    pub(super) fn put(&mut self, workload: Workload, db: &mut Db<'_, '_>) -> Result<()> {
        let kv = self.kv;
        let order = match workload {
            Workload::Fillseq | Workload::Fillbatch => Order::Ascending(kv.num),
            _ => self.random_order(workload, kv.num),
        };
        let batch = if workload == Workload::Fillbatch { THOUSAND } else { kv.batch };
        let calls = kv.num.div_ceil(batch);
        let end = if workload == Workload::Overwrite { kv.end(calls) } else { End::Calls(calls) };
        // Overwriting changes nothing about which keys there are if all were there, and adds those that were not if it
        // comes to all.
        if !matches!(order, Order::Drawn { .. }) && matches!(end, End::Calls(_)) {
            self.live = Some(kv.num);
        } else if workload != Workload::Overwrite || !self.is_full() {
            self.live = None;
        }
        let entries = Entries { order, batch, total: kv.num };
        let role = Role::new(&["put"], kv.clients(), end, kv.putter(self.seed, entries));
        let plan =
            Plan { name: self.name(workload), unit: workload.unit(), roles: vec![role], live_bytes: self.live_bytes() };
        self.step(&plan, db, |puts| Figures { bytes: Some(puts * kv.entry_bytes()), ..Figures::default() }).map(drop)
    }

    /// The workloads that delete.
    pub(super) fn delete(&mut self, workload: Workload, db: &mut Db<'_, '_>) -> Result<()> {
        let kv = self.kv;
        let order = match workload {
            Workload::Deleteseq => Order::Ascending(kv.num),
            _ => self.random_order(workload, kv.num),
        };
        let known = self.is_full() && !matches!(order, Order::Drawn { .. });
        self.live = known.then(|| kv.num - kv.deletes().min(kv.num));
        let entries = Entries { order, batch: kv.batch, total: kv.deletes() };
        let work = |_client| {
            let mut batch = Batch::new();
            move |client: &mut dyn Client, at: u64| {
                batch.clear();
                entries.of_call(at).for_each(|number| batch.delete(TABLE, &key(number)));
                commit(client, &batch)
            }
        };
        let calls = kv.deletes().div_ceil(kv.batch);
        let role = Role::new(&["delete"], kv.clients(), End::Calls(calls), work);
        let plan =
            Plan { name: self.name(workload), unit: workload.unit(), roles: vec![role], live_bytes: self.live_bytes() };
        self.step(&plan, db, |_deletes| Figures::default()).map(drop)
    }

    /// Puts whose commits are on the device before the next, between two slices of writes to the raw device. It has a
    /// database of its own.
    pub(super) fn fill_sync(&self, config: &Config, bench: &mut Bench<'_>) -> Result<()> {
        let (kv, workload) = (self.kv, Workload::Fillsync);
        if bench.takes_over(&workload.name())? {
            return bench.remove("fillsync");
        }
        let keys = (kv.num / THOUSAND).max(1);
        let config = Config { durability: Durability::Sync, ..config.clone() };
        let mut db = match unless_lacking(bench.open("fillsync", &config, &[TableSpec::new("kv")]))? {
            Ok(db) => db,
            Err(lacks) => {
                bench.skip(&workload.name(), workload.unit(), &lacks);
                return Ok(());
            }
        };
        let mut device = Device::create(db.bench(), keys.min(FLOOR_WRITES_MAX))?;
        let entries = Entries { order: self.random_order(workload, keys), batch: kv.batch, total: keys };
        let live = (!kv.with_replacement).then(|| keys * kv.entry_bytes());
        let end = End::Calls(keys.div_ceil(kv.batch));
        let role = Role::new(&["put"], kv.clients(), end, kv.putter(self.seed, entries));
        let plan = Plan { name: self.name(workload), unit: workload.unit(), roles: vec![role], live_bytes: live };
        device.slice(db.bench())?;
        db.step(&plan)?;
        device.slice(db.bench())?;
        let step = db.bench().steps().last_mut().expect("the step that just ran");
        let floors = step.operation("put").zip(device.mean_us()).map(|(put, floor_us)| put.latency.mean_us / floor_us);
        let bytes = step.cost.map(|cost| cost.operations * kv.entry_bytes());
        Figures { bytes, floors, found: None }.add_to(step);
        step.operations.push(device.operation("raw device"));
        step.device_us = device.means_us().to_vec();
        db.close()?;
        bench.remove("fillsync")?;
        device.finish(bench)
    }

    /// The order of a workload that comes to keys at random.
    fn random_order(&self, workload: Workload, keys: u64) -> Order {
        let seed = self.seed ^ self.salt(workload);
        if self.kv.with_replacement { Order::Drawn { seed, keys } } else { Order::shuffled(seed, keys) }
    }

    /// The thread that puts any key at any time while others read.
    pub(super) fn writer(&self, workload: Workload) -> Role<'_> {
        let order = Order::Drawn { seed: !(self.seed ^ self.salt(workload)), keys: self.kv.num };
        let entries = Entries { order, batch: 1, total: u64::MAX };
        let role = Role::new(&["put"], 1, End::WithFirst, self.kv.putter(self.seed, entries));
        role.at_rate(self.kv.write_rate())
    }
}

impl Kv {
    /// Makes the work of clients that put.
    fn putter(&self, seed: u64, entries: Entries) -> impl Fn(usize) -> Puts + Sync + use<> {
        let value_bytes = self.value_bytes as usize;
        move |client_number| {
            let values = Values::new(seed ^ ((client_number as u64) << 16), value_bytes);
            Puts { entries, values, batch: Batch::new() }
        }
    }
}

/// A client that puts.
struct Puts {
    entries: Entries,
    values: Values,
    batch: Batch,
}

impl Work for Puts {
    fn call(&mut self, client: &mut dyn Client, at: u64) -> Result<Did> {
        self.batch.clear();
        for number in self.entries.of_call(at) {
            self.batch.put(TABLE, &key(number), self.values.next());
        }
        commit(client, &self.batch)
    }
}

/// Numbers of keys, some for each call.
#[derive(Clone, Copy, Debug)]
struct Entries {
    order: Order,
    batch: u64,
    /// A last call has fewer than the others.
    total: u64,
}

impl Entries {
    /// The numbers of a call. Calls beyond the total, which come when time is what ends a step, begin again.
    fn of_call(self, at: u64) -> impl Iterator<Item = u64> {
        let at = at % self.total.div_ceil(self.batch);
        let from = at * self.batch;
        (from..from.saturating_add(self.batch).min(self.total)).map(move |at| self.order.number(at))
    }
}

fn commit(client: &mut dyn Client, batch: &Batch) -> Result<Did> {
    let outcome = client.write(batch)?;
    ensure!(outcome == Outcome::Done, "a write outside transactions had a conflict");
    Ok(Did::wrote(batch.bytes() as u64).operations(batch.len() as u64))
}
