//! What a recovery must do that no single crash shows: rest on nothing that is not durable, and give out no number twice.

use spinney::base::Lsn;
use spinney::env::sim::{Call, CrashProfile, SimEnv};
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
        given = log.append(&[&[1; 200 << 10]]).expect("nothing fails");
        sim.power_crash(CrashProfile::Strict);
    }
}
