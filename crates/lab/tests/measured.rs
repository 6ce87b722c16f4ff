//! The lab measured: an engine whose costs are known is reported right within one percent.
//!
//! What the kernel counts for the process must come from one test alone, so both are called from one.

#![expect(clippy::unwrap_used, reason = "in a test a panic is a failure")]

use anyhow::{Result, ensure};
use spinney_lab::driver::{Batch, Client, Config, Engine, Outcome, Scan, Store, TableId, TableSpec};
use spinney_lab::report::{Cost, Step};
use spinney_lab::run::{Bench, Did, End, Plan, Role};
use spinney_lab::{Clock, Stop};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// A get takes so long.
const GET: Duration = Duration::from_micros(20);
/// A write takes so long, and sends so many bytes to storage.
const WRITE: Duration = Duration::from_micros(100);
const WRITE_BYTES: usize = 4096;
/// One write takes longer.
const STALL_AT: u64 = 1_000;
const STALL: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct Known(Clock);

struct KnownStore {
    clock: Clock,
    file: Mutex<(File, u64)>,
}

struct KnownClient<'a>(&'a KnownStore);

impl Engine for Known {
    fn name(&self) -> &'static str {
        "known"
    }

    fn version(&self) -> String {
        "1".to_owned()
    }

    fn direct_io(&self) -> bool {
        false
    }

    #[expect(clippy::disallowed_methods, reason = "the bytes are real, so that the kernel counts them")]
    fn open(&self, dir: &Path, _config: &Config, _tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        std::fs::create_dir(dir)?;
        let file = std::fs::OpenOptions::new().create_new(true).append(true).open(dir.join("data"))?;
        Ok(Box::new(KnownStore { clock: self.0.clone(), file: Mutex::new((file, 0)) }))
    }
}

impl Store for KnownStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(KnownClient(self)))
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Client for KnownClient<'_> {
    fn write(&mut self, _batch: &Batch) -> Result<Outcome> {
        let mut state = self.0.file.lock().unwrap();
        state.0.write_all(&[7; WRITE_BYTES])?;
        state.1 += 1;
        self.0.clock.sleep(WRITE + if state.1 == STALL_AT { STALL } else { Duration::ZERO });
        Ok(Outcome::Done)
    }

    fn get(&mut self, _table: TableId, _key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.clock.sleep(GET);
        found(&[]);
        Ok(true)
    }

    fn scan(&mut self, _scan: &Scan<'_>, _visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        Ok(0)
    }

    fn view(&mut self) -> Result<()> {
        Ok(())
    }
}

fn plan<'a>(name: &str, role: Role<'a>) -> Plan<'a> {
    Plan { name: name.to_owned(), unit: "operation", roles: vec![role], live_bytes: None }
}

fn writes<'a>() -> Role<'a> {
    let make = |_client| {
        let mut batch = Batch::new();
        batch.put(TableId(0), b"key", b"value of 1021 bytes and more");
        move |client: &mut dyn Client, _at: u64| {
            ensure!(client.write(&batch)? == Outcome::Done);
            Ok(Did::wrote(1024))
        }
    };
    Role::new(&["write"], 1, End::Calls(5_000), make)
}

fn near(what: &str, value: f64, wanted: f64) {
    assert!((value / wanted - 1.0).abs() < 0.01, "{what} is {value} and should be {wanted}");
}

fn cost(step: &Step) -> Cost {
    step.cost.expect("the step ran")
}

#[test]
fn what_is_known_is_reported_right() {
    costs_that_are_known_are_reported_right();
    a_stall_is_seen_by_the_calls_behind_it();
}

fn costs_that_are_known_are_reported_right() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let clock = Clock::simulated();
    let engine = Known(clock.clone());
    let mut bench = Bench::new(&engine, dir.path(), clock, Stop::default());
    let mut db = bench.open("db", &Config::default(), &[TableSpec::new("t")]).unwrap();

    // Writes one after the other: 5,000 of 100 us and one stall.
    let step = db.step(&plan("writes", writes())).unwrap().clone();
    let seconds = 5_000.0 * WRITE.as_secs_f64() + STALL.as_secs_f64();
    near("seconds", cost(&step).seconds, seconds);
    near("the rate", cost(&step).rate, 5_000.0 / seconds);
    let latency = step.operation("write").unwrap().latency;
    near("p50", latency.p50_us, 100.0);
    near("p99.9", latency.p999_us, 100.0);
    near("max", latency.max_us, 500_100.0);
    near("the mean", latency.mean_us, seconds / 5_000.0 * 1e6);
    near("bytes on disk", step.after.size.unwrap().apparent_bytes as f64, 5_000.0 * WRITE_BYTES as f64);
    // Some file systems, those in memory among them, count no bytes.
    let written = cost(&step).written_kib.unwrap();
    if written > 0.0 {
        near("KiB written", written, 4.0);
        near("write amplification", cost(&step).write_amplification.unwrap(), 4.0);
    }
    assert_eq!(step.seconds.iter().map(|second| second.operations).sum::<u64>(), 5_000);
    near("the slowest of the first second", step.seconds[0].max_us, 500_100.0);

    // Gets at a rate: each takes 20 us, whatever the clock does between them.
    let gets = Role::new(&["get"], 1, End::Seconds(2.0), |_client| {
        |client: &mut dyn Client, _at: u64| Ok(Did::read(u64::from(client.get(TableId(0), b"key", &mut |_| {})?)))
    });
    let step = db.step(&plan("gets", gets.at_rate(Some(1_000.0)))).unwrap().clone();
    near("operations", cost(&step).operations as f64, 2_000.0);
    near("the rate", cost(&step).rate, 1_000.0);
    let operation = step.operation("get").unwrap();
    near("p50", operation.latency.p50_us, 20.0);
    near("corrected p99", operation.corrected.unwrap().p99_us, 20.0);
    db.close().unwrap();
}

/// While one call stalls, those that should have begun meanwhile wait too: the plain latency hides them, the corrected
/// one does not.
fn a_stall_is_seen_by_the_calls_behind_it() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let clock = Clock::simulated();
    let engine = Known(clock.clone());
    let mut bench = Bench::new(&engine, dir.path(), clock, Stop::default());
    let mut db = bench.open("db", &Config::default(), &[TableSpec::new("t")]).unwrap();
    let step = db.step(&plan("writes", writes().at_rate(Some(2_000.0)))).unwrap().clone();
    let operation = step.operation("write").unwrap();
    let (plain, corrected) = (operation.latency, operation.corrected.unwrap());
    near("p99", plain.p99_us, 100.0);
    near("p50 corrected", corrected.p50_us, 100.0);
    near("max corrected", corrected.max_us, 500_100.0);
    // A stall of 500 ms, made up for at 400 us a call, delays 1,250 of the 5,000 calls.
    assert!(corrected.p90_us > 100_000.0, "{corrected:?}");
}
