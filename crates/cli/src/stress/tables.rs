//! The database of a stress: three tables of different layouts, and one that records seed and threads.

use super::args::StressArgs;
use super::plan::{LAST, key};
use crate::escape::one_line;
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use spinney::{Batch, Database, Durability, Layout, LogCompression, Options, Snapshot, Table, TableOptions};

/// Where seed and threads are recorded.
const PLAN: &str = "stress-plan";
const PLAN_KEY: &[u8] = b"plan";

/// The tables of slots and of the journal.
const NAMES: [(&str, Layout); 3] =
    [("stress-btree", Layout::BTree), ("stress-lsm", Layout::Lsm), ("stress-tiered", Layout::LsmTiered)];

/// What the contents follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) threads: u16,
}

/// The tables, and the plan of what is in them.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) plan: Plan,
    pub(super) slots: [Table; 2],
    pub(super) journal: Table,
}

/// Options so small that flushes, merges, compactions and the recycling of the log never pause.
pub(super) fn options(log_compression: LogCompression) -> Options {
    Options::default()
        .memory_bytes(8 << 20)
        .memtable_bytes(64 << 10)
        .log_segment_bytes(256 << 10)
        .log_bytes_max(2 << 20)
        .log_compression(log_compression)
}

impl Tables {
    /// The tables of a database; a new one gets them. The plan comes first: a database with other tables and without it
    /// is somebody else's.
    pub(super) fn create(db: &Database, args: &StressArgs) -> Result<Self> {
        let table = |name: &str, layout: Layout| match db.table(name)? {
            Some(table) => Ok(table),
            None => db.create_table(name, table_options(layout)),
        };
        let plan = match recorded(db)? {
            Some(plan) => plan.agreed(db, args)?,
            None => {
                if let Some(table) = db.tables()?.iter().find(|table| table.name() != PLAN) {
                    let (path, table) = (db.path().display(), one_line(table.name()));
                    bail!("{path} holds the table `{table}` and was not begun by stress: give a new directory");
                }
                let plan = Plan { seed: args.seed.unwrap_or(1), threads: args.threads.unwrap_or(4) };
                let mut batch = Batch::new();
                batch.put(&table(PLAN, Layout::BTree)?, PLAN_KEY, &serde_json::to_vec(&plan)?);
                db.write_with(&batch, Durability::Sync)?;
                plan
            }
        };
        let [btree, lsm, tiered] = NAMES.map(|(name, layout)| table(name, layout));
        Ok(Self { plan, slots: [btree?, lsm?], journal: tiered? })
    }

    /// The tables that are there; none when stress did not begin the database, or was killed before it had made them
    /// all.
    pub(super) fn find(db: &Database, args: &StressArgs) -> Result<Option<Self>> {
        let Some(plan) = recorded(db)? else { return Ok(None) };
        let plan = plan.agreed(db, args)?;
        let [btree, lsm, tiered] = NAMES.map(|(name, _)| db.table(name));
        let (Some(btree), Some(lsm), Some(journal)) = (btree?, lsm?, tiered?) else { return Ok(None) };
        Ok(Some(Self { plan, slots: [btree, lsm], journal }))
    }

    pub(super) fn all(&self) -> [&Table; 3] {
        [&self.slots[0], &self.slots[1], &self.journal]
    }

    /// The last commit of a thread that each table has.
    pub(super) fn last(&self, snapshot: &Snapshot, thread: u16) -> Result<[u64; 3]> {
        let [a, b, c] = self.all().map(|table| snapshot.get(table, key(thread, LAST)));
        Ok([a?, b?, c?].map(|value| value.map_or(0, |value| number(&value))))
    }
}

impl Plan {
    /// The plan, if it is what was asked for.
    fn agreed(self, db: &Database, args: &StressArgs) -> Result<Self> {
        let Self { seed, threads } = self;
        if args.seed.is_none_or(|asked| asked == seed) && args.threads.is_none_or(|asked| asked == threads) {
            return Ok(self);
        }
        bail!("{} was begun with --seed {seed} --threads {threads}: give these or none", db.path().display())
    }
}

/// The plan that a database has.
fn recorded(db: &Database) -> Result<Option<Plan>> {
    let Some(table) = db.table(PLAN)? else { return Ok(None) };
    let Some(value) = db.snapshot().get(&table, PLAN_KEY)? else { return Ok(None) };
    Ok(Some(serde_json::from_slice(&value).with_context(|| format!("table `{PLAN}` holds no plan"))?))
}

/// Small blocks and runs, and long values apart in the one layout that is for them.
fn table_options(layout: Layout) -> TableOptions {
    let large_value_bytes = if layout == Layout::Lsm { 4096 } else { 0 };
    TableOptions::default()
        .layout(layout)
        .large_value_bytes(large_value_bytes)
        .block_bytes(1024)
        .run_bytes_max(64 << 10)
        .fanout(4)
}

/// The number that a value begins with; 0, which is no commit, when it is too short for one.
pub(super) fn number(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
