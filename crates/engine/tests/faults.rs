//! Failing operations of the file system give errors, never wrong data, and take back nothing that was acknowledged.

use spinney::env::sim::{Fault, SimEnv};
use spinney::{Durability, Layout, Result};
use spinney_testkit::fault::{self, Met};
use spinney_testkit::{Config, Engine, Model, Op, Rng, Subject, ops, parallel};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;

const TABLES: usize = 2;

/// What strikes, and whether it lasts.
const FAULTS: [(Fault, bool); 7] = [
    (Fault::Error(io::ErrorKind::Other), false),
    (Fault::SyncLost, false),
    (Fault::ShortWrite, false),
    (Fault::NoSpace, false),
    (Fault::Error(io::ErrorKind::Other), true),
    (Fault::SyncLost, true),
    (Fault::NoSpace, true),
];

#[test]
fn a_failed_operation_takes_back_no_acknowledged_commit() {
    let runs = parallel::count_from_env("SPINNEY_FAULTS", 5000);
    let seeds = 10;
    let met = Mutex::new(BTreeMap::<_, u64>::new());
    let run = |seed| {
        let count = fault::count(seed)?;
        let stride = (count * seeds / runs).max(1);
        for (number, at) in (seed % stride..count).step_by(usize::try_from(stride).expect("small")).enumerate() {
            let (fault, lasts) = FAULTS[number % FAULTS.len()];
            let what = fault::run(seed, at, fault, lasts)?;
            *met.lock().expect("nobody panics here").entry(format!("{what:?}")).or_default() += 1;
        }
        Ok(())
    };
    parallel::each(0..seeds, run).unwrap_or_else(|message| panic!("{message}"));
    let met = met.into_inner().expect("nobody panics here");
    eprintln!("{met:?}");
    for what in [Met::Open, Met::Passing, Met::Poison] {
        assert!(met.contains_key(&format!("{what:?}")), "{what:?} was never met: {met:?}");
    }
}

#[test]
fn a_full_disk_fails_writes_and_loses_nothing() {
    for layout in [Layout::BTree, Layout::Lsm, Layout::LsmTiered] {
        let sim = SimEnv::new(1);
        let config = Config::named(layout, "tiny-memtables");
        let (mut model, mut engine) = (Model::new(TABLES), open(&sim, &config).expect("room enough"));
        sim.set_space(1 << 20);
        let mut rng = Rng::new(2);
        let full = loop {
            let value = Some(rng.bytes(1000));
            let change = ops::Change { table: rng.in_range(0..TABLES), key: rng.bytes(8), write: value.into() };
            let op = Op::Write(vec![change], Some(Durability::Sync));
            let outcome = engine.apply(&op);
            if outcome != model.apply(&op) {
                break outcome.to_string();
            }
        };
        assert!(full.contains("Full") || full.contains("Poisoned"), "{full}");
        drop(engine);
        sim.set_space(u64::MAX);
        let engine = open(&sim, &config).expect("there is room again");
        let state = engine.state().expect("readable");
        let newest = model.version();
        assert!(state == model.state_at(newest) || state == model.state_at(newest - 1), "{layout:?}");
        assert_eq!(engine.database().verify().expect("verify reads").problems, Vec::<String>::new());
    }
}

fn open(sim: &SimEnv, config: &Config) -> Result<Engine> {
    Engine::open(Path::new("/db"), sim.env(), config, TABLES)
}
