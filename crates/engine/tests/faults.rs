//! Failing operations of the file system give errors, never wrong data, and take back nothing that was acknowledged.

use spinney::env::sim::SimEnv;
use spinney::{Durability, Layout, Result};
use spinney_testkit::fault::{self, Case, Met, Phase, Workload};
use spinney_testkit::{Config, Engine, Model, Op, Outcome, Rng, Subject, ops, parallel};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

const TABLES: usize = 2;

/// How many workloads are examined unless more are asked for.
const WORKLOADS: u64 = 2;

#[test]
fn each_failed_call_gives_an_error_and_takes_back_nothing() {
    let all = fault::workloads();
    let count = usize::try_from(parallel::count_from_env("SPINNEY_FAULTS", WORKLOADS)).expect("a small number");
    let met = Mutex::new(BTreeMap::<_, u64>::new());
    for (number, phase) in (0..count.min(all)).flat_map(|number| [(number, Phase::Live), (number, Phase::Recovery)]) {
        let workload = Workload::new(number, phase).unwrap_or_else(|message| panic!("{message}"));
        let cases = workload.cases().unwrap_or_else(|message| panic!("{message}"));
        let run = |case: Case| {
            let what = workload.run(&case)?;
            *met.lock().expect("nobody panics here").entry((phase, what)).or_default() += 1;
            Ok(())
        };
        parallel::each(cases, run).unwrap_or_else(|message| panic!("{message}"));
    }
    let met = met.into_inner().expect("nobody panics here");
    eprintln!("{met:?}");
    for what in [(Phase::Live, Met::Passing), (Phase::Live, Met::Poison), (Phase::Recovery, Met::Open)] {
        assert!(met.contains_key(&what), "{what:?} was never met: {met:?}");
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
        assert_eq!(engine.database().verify().expect("verify reads").problems, vec![]);
    }
}

/// Each commit needs more than is left, so all are refused: none that goes through has it looked for room again.
#[test]
fn a_disk_that_gets_room_again_takes_commits_again() {
    let sim = SimEnv::new(1);
    let mut config = Config::named(Layout::Lsm, "tiny-log");
    config.options.memtable_bytes = 4 << 20;
    config.options.log_bytes_max = 64 << 20;
    let (mut rng, mut engine) = (Rng::new(2), open(&sim, &config).expect("room enough"));
    sim.set_free(1 << 20);
    let mut write = |engine: &mut Engine| {
        let change = ops::Change { table: 0, key: rng.bytes(8), write: ops::Write::Put(rng.bytes(40_000)) };
        engine.apply(&Op::Write(vec![change], Some(Durability::Sync)))
    };
    let full = loop {
        match write(&mut engine) {
            Outcome::Done => {}
            refused => break refused.to_string(),
        }
    };
    for refused in [full, write(&mut engine).to_string()] {
        assert!(refused.contains("Full: "), "{refused}");
    }
    sim.set_space(u64::MAX);
    assert_eq!(write(&mut engine).to_string(), "done");
}

fn open(sim: &SimEnv, config: &Config) -> Result<Engine> {
    Engine::open(Path::new("/db"), sim.env(), config, TABLES)
}
