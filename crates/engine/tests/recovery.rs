//! What a recovery must do that no single crash shows: rest on nothing that is not durable, and give out no number
//! twice.

use spinney::Durability;
use spinney::base::Lsn;
use spinney::env::sim::{Call, CrashProfile, Fault, SimEnv};
use spinney::log::{LogOptions, LogWriter, recover};
use spinney_testkit::ops::{Change, Leave, Write};
use spinney_testkit::{Config, Engine, Op, Outcome, Subject};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const TABLES: usize = 2;

fn open(sim: &SimEnv) -> Engine {
    let config = Config::named(spinney::Layout::BTree, "tiny-log");
    Engine::open(Path::new("/db"), sim.env(), &config, TABLES).expect("nothing fails")
}

#[test]
fn an_open_reads_nothing_that_a_power_failure_could_take_back() {
    let sim = SimEnv::new(1);
    let mut engine = open(&sim);
    let put = |table, key: u8| Change { table, key: vec![key], write: Write::Put(vec![key; 100]) };
    for key in 0..40 {
        let write = Op::Write(vec![put(0, key), put(1, key)], None);
        let and = if key % 10 == 9 { Op::Flush(usize::from(key % 20 == 9)) } else { Op::Sync };
        assert_eq!((engine.apply(&write), engine.apply(&and)), (Outcome::Done, Outcome::Done));
    }
    assert_eq!(engine.apply(&Op::Reopen(Leave::Drop)), Outcome::Done);
    sim.process_crash();
    drop(engine);
    sim.begin_trace();
    let engine = open(&sim);
    let calls = sim.end_trace().calls;
    drop(engine);
    let mut synced = HashSet::<PathBuf>::new();
    let mut read = 0;
    for (call, path) in calls {
        match call {
            // What is made by the open itself is none of what the process before left.
            Call::Sync | Call::Create => drop(synced.insert(path)),
            Call::SyncDir => drop(synced.insert(path)),
            Call::Read => {
                read += 1;
                assert!(synced.contains(&path), "{} was read before it was synced", path.display());
                let dir = path.parent().expect("a file is in a directory");
                assert!(synced.contains(dir), "{} was read before its name was synced", path.display());
            }
            _ => {}
        }
    }
    assert!(read > 5, "{read} reads");
}

#[test]
fn a_position_that_a_crash_took_back_is_not_given_out_again() {
    let (sim, dir) = (SimEnv::new(2), Path::new("/log"));
    let options = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
    sim.env().fs.create_dir_all(dir).expect("nothing fails");
    let mut given = Lsn(0);
    for round in 0..5 {
        let env = sim.env();
        let recovered = recover(&env, dir, 7, Lsn(0), &mut |_, _, _| Ok(())).expect("nothing is damaged");
        let log = LogWriter::open(&env, dir, options, recovered).expect("nothing fails");
        assert!(log.tail() > given, "round {round}: {:?} was given out before, up to {given:?}", log.tail());
        // More than the segment has room for, so that positions lie in segments which do not exist yet.
        let mut payload = log.prepare(&[1; 200 << 10]).expect("nothing fails");
        given = log.append(&[], &mut payload).expect("nothing fails").end;
        sim.power_crash(CrashProfile::Strict);
    }
}

/// A sync of the log that fails, and drops what it should keep, at any place of a log of several segments. The page
/// cache still has the commits; the process that comes next must not take them for durable.
#[test]
fn what_a_failed_sync_dropped_is_not_found_by_the_next_process_and_lost_by_the_one_after() {
    let put = |key: u8| Change { table: 0, key: vec![key], write: Write::Put(vec![key; 9000]) };
    let rows = |engine: &Engine| engine.state().expect("it can be read")[0].len();
    let (mut lost, mut segments) = (0, 0);
    for (direct_io, buffered) in [(true, 0), (false, 0), (true, 2), (false, 2), (true, 7), (false, 7)] {
        let mut config = Config::named(spinney::Layout::BTree, "tiny-log");
        config.options.direct_io = direct_io;
        let open = |sim: &SimEnv| Engine::open(Path::new("/db"), sim.env(), &config, TABLES).expect("it opens");
        for failing in 0..30 {
            let sim = SimEnv::new(u64::from(failing));
            let mut engine = open(&sim);
            let mut commit = |key: u8, durability| engine.apply(&Op::Write(vec![put(key)], Some(durability)));
            for key in 0..failing {
                let durability = if key % (buffered + 1) == buffered { Durability::Sync } else { Durability::Buffered };
                assert_eq!(commit(key, durability), Outcome::Done);
            }
            sim.fail_next(Fault::SyncLost, |path| path.starts_with("/db/log"));
            let failed = commit(failing, Durability::Sync);
            sim.clear_faults();
            segments = segments.max(sim.env().fs.list(Path::new("/db/log")).expect("it is there").len());
            sim.process_crash();
            drop(engine);
            let engine = open(&sim);
            let found = rows(&engine);
            let fork = sim.fork();
            fork.power_crash(CrashProfile::Strict);
            assert_eq!(
                rows(&open(&fork)),
                found,
                "commit {failing}, {failed}, direct {direct_io}, {buffered} buffered"
            );
            lost += usize::from(found < usize::from(failing) + 1);
        }
    }
    assert!(lost > 30 && segments > 2, "{lost} lost, {segments} segments");
}

/// A commit with a bound on its volatility comes while the one before is made durable: it is within the next interval.
#[test]
fn an_interval_commit_beside_the_sync_of_another_is_durable_an_interval_later() {
    for place in 0..6 {
        let sim = SimEnv::new(1);
        let mut engine = open(&sim);
        let mut second = engine.beside().expect("it is open");
        let put = |key: u8| {
            let change = Change { table: 0, key: vec![key], write: Write::Put(vec![key; 100]) };
            Op::Write(vec![change], Some(Durability::Interval))
        };
        assert_eq!(engine.apply(&put(1)), Outcome::Done);
        let (mut calls, mut other) = (0, Some(put(2)));
        sim.interrupt(Some(Box::new(move |_, _| {
            calls += 1;
            if calls == place + 1
                && let Some(op) = other.take()
            {
                assert_eq!(second.apply(&op), Outcome::Done);
            }
        })));
        sim.advance(std::time::Duration::from_millis(150));
        sim.interrupt(None);
        sim.advance(std::time::Duration::from_millis(150));
        let there = engine.state().expect("it can be read")[0].len();
        let fork = sim.fork();
        fork.power_crash(CrashProfile::Strict);
        assert_eq!(open(&fork).state().expect("it can be read")[0].len(), there, "call {place}");
    }
}
