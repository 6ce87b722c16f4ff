//! The small databases that are damaged: together they have every kind of file, record and block.

use spinney::Durability::Sync;
use spinney::env::sim::SimEnv;
use spinney::{Layout, TableOptions};
use spinney_testkit::ops::{Change, Leave, Write};
use spinney_testkit::outcome::Pair;
use spinney_testkit::{Config, Engine, Model, Op, Outcome, Rng, Subject};
use std::path::{Path, PathBuf};

pub(crate) const TABLES: usize = 2;

/// A database that nobody has open, and what must be in it.
pub(crate) struct Database {
    pub(crate) name: &'static str,
    pub(crate) config: Config,
    pub(crate) path: PathBuf,
    pub(crate) sim: SimEnv,
    /// The machine at earlier times.
    pub(crate) earlier: Vec<SimEnv>,
    /// What the tables hold.
    pub(crate) state: Vec<Vec<Pair>>,
    /// What they may hold when the end of a file may be the torn tail of a crash: what they held after each commit, and
    /// the same without the last load, of which only the manifest knows. A database that was closed has no torn tail.
    pub(crate) torn: Vec<Vec<Vec<Pair>>>,
}

impl Database {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let plain = || config(Layout::BTree, "tiny-log", |_| {});
        let packed = config(Layout::LsmTiered, "zstd-log", |table| table.logged = false);
        let unpacked = config(Layout::Lsm, "tiny-log", |_| {});
        let mut databases = vec![Self::new("closed", plain(), true), Self::new("packed", packed, true)];
        databases.push(Self::new("killed", plain(), false));
        databases.push(Self::checkpoint(unpacked));
        databases
    }

    fn new(name: &'static str, config: Config, closed: bool) -> Self {
        let path = PathBuf::from("/db");
        let sim = SimEnv::new(7);
        let mut engine = Engine::open(&path, sim.env(), &config, TABLES).expect("an empty machine");
        let mut earlier = Vec::new();
        let mut ops = workload();
        for op in &ops {
            assert_eq!(engine.apply(op), Outcome::Done, "{op}");
            earlier.push(sim.fork());
        }
        // A fork is what a process that is killed leaves behind.
        let killed = sim.fork();
        engine.close().expect("nothing fails");
        let mut torn = states(&ops);
        let state = torn.last().cloned().expect("the first is there from the beginning");
        let load = ops.iter().rposition(|op| matches!(op, Op::Load(..))).expect("there are loads");
        ops.remove(load);
        torn.extend(states(&ops));
        if closed {
            return Self { name, config, path, sim: sim.fork(), earlier, state, torn: Vec::new() };
        }
        Self { name, config, path, sim: killed, earlier, state, torn }
    }

    /// A copy that a checkpoint made.
    fn checkpoint(config: Config) -> Self {
        let Self { config, sim, state, .. } = Self::new("checkpoint", config, true);
        let path = PathBuf::from("/copy");
        let database = config.builder(Path::new("/db")).env(sim.env()).open().expect("it was closed");
        // Else the first open of the copy goes on with it, and what it drops is no longer read.
        for number in 0..TABLES {
            let table = database.table(&format!("t{number}")).expect("it is sound").expect("it is there");
            table.flush().expect("there is room");
            table.wait_idle().expect("nothing fails");
        }
        database.checkpoint(&path).expect("there is room");
        drop(database);
        Self { name: "checkpoint", config, path, sim: sim.fork(), earlier: Vec::new(), state, torn: Vec::new() }
    }
}

/// What the tables hold after each commit.
pub(crate) fn states(ops: &[Op]) -> Vec<Vec<Vec<Pair>>> {
    let mut model = Model::new(TABLES);
    ops.iter().for_each(|op| drop(model.apply(op)));
    (0..=model.version()).map(|version| model.state_at(version)).collect()
}

/// Small blocks, values apart, a log of many segments.
fn config(layout: Layout, set: &str, change: fn(&mut TableOptions)) -> Config {
    let mut config = Config::named(layout, set);
    config.options.log_segment_bytes = 64 << 10;
    config.options.log_bytes_max = 256 << 10;
    config.table.block_bytes = 512;
    config.table.large_value_bytes = 64;
    change(&mut config.table);
    config
}

/// Some of everything: flushes, compactions, range tombstones, merges, a load, snapshots that are dropped again, a log
/// whose segments are used again and have payloads in one piece and in several.
pub(crate) fn workload() -> Vec<Op> {
    let mut rng = Rng::new(3);
    let mut ops = Vec::new();
    let mut write = |from: u64, to: u64| {
        let change = |number: u64| {
            let value = (!number.is_multiple_of(7)).then(|| value(&mut rng, 60));
            change(usize::from(number % 2 == 1), number, value.into())
        };
        Op::Write((from..to).map(change).collect(), Some(Sync))
    };
    ops.extend([write(0, 200), Op::Flush(0), Op::Flush(1), write(150, 300), Op::Snapshot(0), write(100, 200)]);
    ops.extend([Op::Flush(0), Op::Compact(1), Op::Release(0), write(250, 350), Op::Flush(1)]);
    let large =
        |number, bytes| Op::Write(vec![change(0, number, Write::Put(value(&mut Rng::new(1), bytes)))], Some(Sync));
    let erase = |table, low, high| change(table, low, Write::Erase(Some(key(high))));
    let merge = |table| change(table, 1000, Write::Merge(7_u64.to_le_bytes().to_vec()));
    // The blocks of a B-tree with others of the same length, in the place of those before.
    for round in 0..8 {
        let mut rng = Rng::new(round);
        let again = |number| change(0, number, Write::Put(rng.bytes(60)));
        ops.extend([Op::Write((0..60).map(again).collect(), Some(Sync)), Op::Compact(0)]);
    }
    // Three segments, and then they are used again.
    ops.extend([large(400, 150_000), Op::Flush(0), large(400, 10), Op::Flush(0), Op::Flush(1)]);
    ops.push(Op::Write(vec![erase(0, 20, 40), erase(1, 21, 61), merge(0), merge(1)], Some(Sync)));
    ops.extend([Op::Flush(1), Op::Reopen(Leave::Close)]);
    let loaded = (500..540).map(|number| (key(number), value(&mut Rng::new(number), 90)));
    ops.push(Op::Load(1, loaded.collect()));
    ops.extend([Op::Reopen(Leave::Drop), Op::Write(vec![merge(1), merge(0)], Some(Sync)), Op::Flush(0)]);
    ops.extend([large(401, 70_000), Op::Write(vec![erase(0, 80, 90), erase(1, 81, 91)], Some(Sync))]);
    let loaded = (600..610).map(|number| (key(number), value(&mut Rng::new(number), 9)));
    ops.extend([Op::Write(vec![merge(0), merge(1)], Some(Sync)), Op::Load(1, loaded.collect())]);
    ops.push(Op::Write(vec![change(0, 3, Write::Put(b"last".to_vec()))], Some(Sync)));
    ops
}

fn change(table: usize, number: u64, write: Write) -> Change {
    Change { table, key: key(number), write }
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Half of it can be compressed.
fn value(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    let len = rng.in_range(bytes / 2..bytes + 1);
    [rng.bytes(len / 2), vec![b'v'; len - len / 2]].concat()
}
