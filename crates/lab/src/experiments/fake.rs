//! An engine for tests of experiments: its commits take a known time of the simulated clock and count a known log.

use super::tests::job;
use crate::clock::Clock;
use crate::command::run_job;
use crate::driver::{
    Batch, Change, Client, Compression, Config, Counters, Durability, Engine, Lacks, Outcome, Scan, Store, TableId,
    TableSpec,
};
use crate::report::{Figure, Run, Step};
use crate::stop::Stop;
use anyhow::Result;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Log bytes of a commit, and of a sync.
pub(super) const LOG_BYTES: u64 = 4096;
/// The same before padding.
pub(super) const RECORD_BYTES: u64 = 125;
/// Microseconds of a commit or a sync, of its log I/O, and of its compression.
pub(super) const COMMIT_US: u64 = 1_000;
pub(super) const LOG_IO_US: u64 = 400;
pub(super) const COMPRESSION_US: u64 = 100;

/// The engine. Clones are the same engine; each open begins to count anew.
#[derive(Clone, Debug)]
pub(super) struct Fake {
    pub(super) clock: Clock,
    pub(super) stop: Stop,
    /// Rows that are committed and not there.
    pub(super) lost: u64,
    /// The commit of any database that asks to stop.
    pub(super) stop_at: Option<u64>,
    /// What each database was opened with.
    pub(super) opened: Arc<Mutex<Vec<Config>>>,
}

struct FakeStore {
    fake: Fake,
    rows: AtomicU64,
    commits: AtomicU64,
    syncs: AtomicU64,
}

struct FakeClient<'a>(&'a FakeStore);

impl Fake {
    pub(super) fn new() -> Self {
        Self { clock: Clock::simulated(), stop: Stop::default(), lost: 0, stop_at: None, opened: Arc::default() }
    }

    /// Runs an experiment on it, with arguments as a user gives them.
    pub(super) fn run(&self, arguments: &str, dir: &Path) -> Run {
        run_job(&job(arguments, "fake", dir), self, self.clock.clone(), &self.stop)
    }
}

/// The step with a name.
pub(super) fn step<'r>(run: &'r Run, name: &str) -> &'r Step {
    let found = run.steps.iter().find(|step| step.name == name);
    found.unwrap_or_else(|| panic!("no step {name} in {:?}", names(run)))
}

/// The names of all steps.
pub(super) fn names(run: &Run) -> Vec<&str> {
    run.steps.iter().map(|step| step.name.as_str()).collect()
}

/// The figure of a step in a column.
pub(super) fn figure(step: &Step, column: &str) -> Option<f64> {
    let found: Vec<&Figure> = step.figures.iter().filter(|figure| figure.column.name == column).collect();
    assert_eq!(found.len(), 1, "column {column} of {}: {:?}", step.name, step.figures);
    found[0].value
}

impl Engine for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn version(&self) -> String {
        "1".to_owned()
    }

    fn direct_io(&self) -> bool {
        false
    }

    fn open(&self, dir: &Path, config: &Config, _tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        if config.durability == Durability::NoLog {
            return Err(Lacks::new("nothing but its log").into());
        }
        if config.log.compression == Some(Compression::Zstd) {
            return Err(Lacks::new("no zstd").into());
        }
        std::fs::create_dir(dir)?;
        self.opened.lock().unwrap().push(config.clone());
        let count = AtomicU64::default;
        Ok(Box::new(FakeStore { fake: self.clone(), rows: count(), commits: count(), syncs: count() }))
    }
}

impl FakeStore {
    fn force(&self) {
        self.fake.clock.sleep(Duration::from_micros(COMMIT_US));
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store for FakeStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(FakeClient(self)))
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn sync(&self) -> Result<()> {
        self.force();
        Ok(())
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> Result<Counters> {
        let (commits, syncs) = (self.commits.load(Ordering::Relaxed), self.syncs.load(Ordering::Relaxed));
        Ok(Counters {
            log_record_bytes: Some(commits * RECORD_BYTES),
            log_written_bytes: Some(syncs * LOG_BYTES),
            log_syncs: Some(syncs),
            log_io_us: Some(syncs * LOG_IO_US),
            log_compression_us: Some(syncs * COMPRESSION_US),
            ..Counters::default()
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Client for FakeClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        let FakeStore { fake, rows, commits, .. } = self.0;
        self.0.force();
        let of_rows = batch.iter().filter(|change| matches!(change, Change::Put(TableId(0), ..))).count();
        rows.fetch_add(of_rows as u64, Ordering::Relaxed);
        if Some(commits.fetch_add(1, Ordering::Relaxed) + 1) == fake.stop_at {
            fake.stop.ask();
        }
        Ok(Outcome::Done)
    }

    fn get(&mut self, _table: TableId, _key: &[u8], _found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }

    fn scan(&mut self, _scan: &Scan<'_>, _visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        Ok(self.0.rows.load(Ordering::Relaxed) - self.0.fake.lost)
    }

    fn view(&mut self) -> Result<()> {
        Ok(())
    }
}
