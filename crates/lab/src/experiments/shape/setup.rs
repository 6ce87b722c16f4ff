//! The set-up in two steps, after which the shape is always the same: all data in L1 and below, then six runs in L0 and
//! a memtable.

use super::case::Case;
use super::data::{KEY_BYTES, Values, key};
use super::stages::TABLE;
use crate::driver::{Batch, Client, Config, Outcome, Store, TableSpec, unless_lacking};
use crate::progress;
use crate::random::Random;
use crate::run::{Bench, Db, Did, End, Plan, Role};
use anyhow::{Result, ensure};
use std::ops::Range;

/// Runs that are laid down in L0.
pub(super) const L0_RUNS: u64 = 6;

/// Overwrites between two looks at whether the run is to end.
const STRIDE: u64 = 4096;

fn tables() -> [TableSpec; 1] {
    [TableSpec::new("shape")]
}

impl Case<'_> {
    /// Step 1: loads all values in random order, and waits until they lie where they belong with nothing in L0. It does
    /// so half way too: a load that is faster than compaction gathers in L0, and would become one level, or two, by
    /// luck.
    pub(super) fn load(&self, bench: &mut Bench<'_>, name: &str, config: &Config) -> Result<()> {
        let mut db = bench.open(name, config, &tables())?;
        let middle = self.values / 2;
        self.fill(&mut db, "1/2", 0..middle, config)?;
        self.fill(&mut db, "2/2", middle..self.values, config)?;
        db.close()
    }

    fn fill(&self, db: &mut Db<'_, '_>, part: &str, keys: Range<u64>, config: &Config) -> Result<()> {
        let work = |_client| {
            let mut values = Values::new(self.common.seed ^ keys.start, self.args.value_bytes);
            let (mut batch, first) = (Batch::new(), keys.start);
            move |client: &mut dyn Client, at: u64| {
                batch.clear();
                batch.put(TABLE, &key(first + at), values.next());
                put(client, &batch)?;
                Ok(Did::wrote(batch.bytes() as u64))
            }
        };
        let suffix = if config.filter_bits == 0 { " nofilter" } else { "" };
        let plan = Plan {
            name: format!("{}fillrandom {part}{suffix}", self.prefix()),
            unit: "put",
            roles: vec![Role::new(&["put"], 1, End::Calls(keys.end - keys.start), work)],
            live_bytes: Some(self.args.live_bytes(keys.end)),
        };
        db.step(&plan)?;
        let wheel = progress::wheel(&format!("{} settle", db.bench().engine().name()));
        let store = db.store();
        unless_lacking(store.flush())?.ok();
        store.wait_idle()?;
        if unless_lacking(store.compact_level(0))?.is_err() {
            // Without levels: what a B-tree has parked over its tree, by luck or not, goes into it.
            unless_lacking(store.compact_all())?.ok();
        }
        store.wait_idle()?;
        wheel.finish_and_clear();
        Ok(())
    }

    /// Step 2: opens the database again and overwrites values at random, while nothing is compacted in the background:
    /// a flush after each run's worth, and four fifths of a run at the end that stay in memory.
    pub(super) fn reopen<'b, 'e>(&self, bench: &'b mut Bench<'e>, name: &str, config: &Config) -> Result<Db<'b, 'e>> {
        let mut db = bench.open(name, config, &tables())?;
        if let Err(lacks) = unless_lacking(db.store().hold(true))? {
            db.bench().note(format!("{lacks}: before the first flush its shape is what background work made of it"));
        }
        let stop = db.bench().stop().clone();
        let wheel = progress::wheel(&format!("{} overwrite", db.bench().engine().name()));
        let mut overwrites = Overwrites {
            random: Random::of(self.common.seed, 1),
            values: Values::new(self.common.seed ^ 1, self.args.value_bytes),
            batch: Batch::new(),
            keys: self.values,
        };
        for run in 0..=L0_RUNS {
            let mut left = if run < L0_RUNS { self.args.run_values } else { self.args.memtable_values() };
            while left > 0 {
                stop.check()?;
                let now = left.min(STRIDE);
                overwrites.write(db.store(), now)?;
                left -= now;
            }
            if run < L0_RUNS {
                unless_lacking(db.store().flush())?.ok();
            }
        }
        wheel.finish_and_clear();
        Ok(db)
    }
}

fn put(client: &mut dyn Client, batch: &Batch) -> Result<()> {
    ensure!(client.write(batch)? == Outcome::Done, "a write of the only client conflicted");
    Ok(())
}

/// Puts new values to random keys that are there.
struct Overwrites {
    random: Random,
    values: Values,
    batch: Batch,
    keys: u64,
}

impl Overwrites {
    fn write(&mut self, store: &dyn Store, count: u64) -> Result<()> {
        let mut client = store.client()?;
        for _ in 0..count {
            self.batch.clear();
            let key: [u8; KEY_BYTES] = key(self.random.below(self.keys));
            self.batch.put(TABLE, &key, self.values.next());
            put(&mut *client, &self.batch)?;
        }
        Ok(())
    }
}
