//! What a commit costs: rows of the insert benchmark, one for each commit, and the raw device beside them.
//!
//! Each mode is a database of its own and a step, named as the configurations of the article that asked for it
//! (Callaghan, "Redo logs in `MongoDB` and `InnoDB`", 2014): `sync`, `lazy`, `nolog`, and with more clients `sync-2`,
//! `sync-4`. A step `… settle` after each is what was left to write when the last commit had returned.

mod figures;
#[cfg(test)]
mod tests;

use super::connect::Connect;
use super::describe::Describe;
use super::device::Device;
use super::insert::entries::{ROWS, tables};
use super::insert::form::Form;
use super::insert::{INDEXES, documents};
use crate::command::common::{Common, DurabilityArg};
use crate::driver::{Client, Condition, Config, Engine, LogConfig, unless_lacking};
use crate::report::Step;
use crate::run::{Bench, Did, End, Plan, Role};
use crate::text::{COUNT_MAX, bytes, count, counts, parse_memory_size, sizes};
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use figures::Figures;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  spinney bench commit
  spinney bench commit --engines spinney-lsm --modes sync --clients 1,32
  spinney bench commit --interval 1000 --lazy-clients 1,2,4,8,16
  spinney bench commit --modes sync --clients 1 --log-segment 16MiB --warm-rows 30000 --rows 12000
  spinney bench commit --rows 10000000 --interval 1000 --memory 8GiB")]
pub struct Commit {
    /// Durability of the commits; each mode is a fresh database
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [Mode::Sync, Mode::Lazy, Mode::Nolog])]
    pub modes: Vec<Mode>,
    /// Clients of mode sync: a step for each number
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16], value_parser = counts::<u16>(1..=256))]
    pub clients: Vec<u16>,
    /// Clients of the other modes: a step for each number
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1], value_parser = counts::<u16>(1..=256))]
    pub lazy_clients: Vec<u16>,
    /// Rows, each a commit, in each step [default: 50000 in mode sync, 500000 in the others]
    #[arg(long, value_name = "N", value_parser = counts::<u64>(1..=COUNT_MAX))]
    pub rows: Option<u64>,
    /// Rows before those of each step, which are not measured: an engine that uses log files again has some then
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = counts::<u64>(0..=COUNT_MAX))]
    pub warm_rows: u64,
    /// Bytes of one file of the redo log, of engines whose log is made of files of one size
    /// [default: as the engine has it]
    #[arg(long, value_name = "SIZE", value_parser = parse_segment)]
    pub log_segment: Option<u64>,
    /// Random bytes in a row beside its columns
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = sizes::<u32>(0..=1 << 20))]
    pub row_bytes: u32,
    /// Memory of the database
    #[arg(long, value_name = "SIZE", value_parser = parse_memory_size, default_value = "1GiB")]
    pub memory: u64,
    /// Writes to the raw device before, and again after, each step of mode sync; 0 for none
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = counts::<u64>(0..=COUNT_MAX))]
    pub device_writes: u64,
    /// Commit documents with three indexes, as `insert-documents` has them, on the engines that keep documents
    #[arg(long)]
    pub documents: bool,
    /// The server, if it is one; for documents.
    #[command(flatten)]
    pub connect: Connect,
}

/// What a commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A loss of power
    Sync,
    /// A loss of power after --interval milliseconds
    Lazy,
    /// The end of the process
    Buffered,
    /// Nothing: there is no redo log
    Nolog,
}

/// Rows of a step of mode sync unless asked otherwise: some seconds on a device that takes 100 us for a write.
const SYNC_ROWS: u64 = 50_000;
/// Rows of a step of another mode unless asked otherwise.
const OTHER_ROWS: u64 = 500_000;

impl Describe for Commit {
    const NAME: &'static str = "commit";
    const COLUMNS: &[(&str, &str)] = &[
        ("bpd", "bytes of the database for each row, after `settle`, without redo log"),
        ("MB/s", "millions of bytes sent to storage per second of the step"),
        ("GBw", "GB sent to storage in the step, of data and redo log"),
        ("secs", "seconds from the first commit to the return of the last"),
        ("bwpi", "bytes sent to storage for each row"),
        ("irate", "rows per second"),
        ("logb", "GB written to the redo log, as the engine counts them"),
        ("logbpi", "bytes written to the redo log for each row"),
        ("recbpi", "bytes of redo log for each row before compression and padding"),
        ("aheadpi", "bytes written for each row to make files of the redo log ahead"),
        ("syncs/c", "times that the log was forced for each commit; less than 1 is group commit"),
        ("x floor", "mean time of a commit over the mean time of a durable write of 4 KiB to the raw device"),
    ];

    fn parameters(&self) -> Vec<(String, String)> {
        let parameter = |name: &str, value: String| (name.to_owned(), value);
        let rows = match self.rows {
            Some(rows) => format!("{} in each step", count(rows)),
            None => format!("{} (sync), {} (others)", count(SYNC_ROWS), count(OTHER_ROWS)),
        };
        vec![
            parameter("rows", rows),
            parameter("rows before", count(self.warm_rows)),
            parameter("commit", format!("1 {} with 3 secondary indexes", self.unit())),
            parameter("row", format!("{} B of keys and values", self.row_logical_bytes())),
            parameter("memory", bytes(self.memory)),
            parameter("log file", self.log_segment.map_or_else(|| "as the engine has it".to_owned(), bytes)),
            parameter("floor", format!("{} writes of 4 KiB around each step of sync", count(2 * self.device_writes))),
        ]
    }

    fn disk_bytes(&self) -> u64 {
        // One database at a time: its trees while they are merged, and redo log that waits for its memtables.
        let rows = self.modes.iter().map(|&mode| self.rows_of(mode)).max().unwrap_or(0);
        6 * (rows + self.warm_rows) * self.row_logical_bytes() + (3 << 30)
    }

    fn documents(&self) -> bool {
        self.documents
    }

    fn connect(&self) -> Option<&str> {
        self.connect.connect.as_deref()
    }

    fn unsuited(&self, engine: &dyn Engine) -> Option<String> {
        if self.documents { self.connect.unsuited(engine) } else { None }
    }

    fn run(&self, common: &Common, bench: &mut Bench<'_>) -> Result<()> {
        ensure!(self.documents || self.connect.connect.is_none(), "--connect is for documents: add --documents");
        ensure!(
            !self.documents || !common.verify,
            "there is no model of documents to compare reads with: --verify is for tables"
        );
        ensure!(common.durability.is_none(), "`commit` takes its durabilities from --modes, not from --durability");
        let steps = self.steps();
        let floor = self.device_writes > 0 && steps.iter().any(|&(mode, _)| mode == Mode::Sync);
        let mut device = floor.then(|| Device::create(bench, self.device_writes)).transpose()?;
        let result = steps.iter().try_for_each(|&(mode, clients)| {
            let device = device.as_mut().filter(|_| mode == Mode::Sync);
            self.run_mode(common, bench, (mode, clients), device)
        });
        let finished = device.map_or(Ok(()), |device| {
            add_device(&device, bench);
            device.finish(bench)
        });
        result.and(finished)
    }
}

impl Commit {
    /// The modes with their clients in the order in which they run: one client first.
    fn steps(&self) -> Vec<(Mode, u16)> {
        let clients = |mode| if mode == Mode::Sync { &self.clients } else { &self.lazy_clients };
        let with = |many: bool| {
            let of_mode = move |&mode: &Mode| {
                let wanted = clients(mode).iter().filter(move |&&clients| (clients > 1) == many);
                wanted.map(move |&clients| (mode, clients))
            };
            self.modes.iter().flat_map(of_mode)
        };
        let mut steps = Vec::new();
        for step in with(false).chain(with(true)) {
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
        steps
    }

    fn rows_of(&self, mode: Mode) -> u64 {
        self.rows.unwrap_or(if mode == Mode::Sync { SYNC_ROWS } else { OTHER_ROWS })
    }

    fn row_logical_bytes(&self) -> u64 {
        self.form().logical_bytes(self.row_bytes as usize, INDEXES.len())
    }

    fn form(&self) -> Form {
        if self.documents { Form::Documents } else { Form::Entries }
    }

    fn unit(&self) -> &'static str {
        if self.documents { "document" } else { "row" }
    }

    /// Runs one mode in a database of its own, with a slice of the raw device before and after it if there is one.
    fn run_mode(
        &self,
        common: &Common,
        bench: &mut Bench<'_>,
        (mode, clients): (Mode, u16),
        mut device: Option<&mut Device>,
    ) -> Result<()> {
        let name = mode.step(clients);
        let mut slice = |bench: &Bench<'_>| device.as_mut().map_or(Ok(None), |device| device.slice(bench));
        let before = slice(bench)?;
        let inserted = self.insert(common, bench, &name, (mode, clients));
        let after = if inserted.is_ok() { slice(bench)? } else { None };
        let slices: Vec<f64> = before.into_iter().chain(after).collect();
        self.add_figures(bench, &name, mode, &slices);
        bench.remove(&name)?;
        if let Err(lacks) = unless_lacking(inserted)? {
            bench.skip(&name, self.unit(), &lacks);
        }
        Ok(())
    }

    /// The steps of one mode: all rows, then what is left to write.
    fn insert(&self, common: &Common, bench: &mut Bench<'_>, name: &str, (mode, clients): (Mode, u16)) -> Result<()> {
        let durability = common.durability_of(mode.durability());
        let log = LogConfig { segment_bytes: self.log_segment, ..LogConfig::default() };
        let connect = self.connect.connect.clone();
        let config = Config { durability, log, connect, ..common.config(self.memory, mode.durability()) };
        let mut db = bench.open(name, &config, &tables(INDEXES.len()))?;
        self.form().create(&db)?;
        if self.documents {
            db.store().client()?.documents()?.create_indexes(documents::COLLECTION, &documents::INDEXES)?;
        }
        let mut fill = |name: String, first: u64, rows: u64| {
            let work = |_client| self.work(common.seed, first);
            let live_bytes = Some((first + rows) * self.row_logical_bytes());
            let roles = vec![Role::new(&["commit"], clients.into(), End::Calls(rows), work)];
            db.step(&Plan { name: name.clone(), unit: self.unit(), roles, live_bytes })?;
            db.settle(&settle(&name)).map(drop)
        };
        if self.warm_rows > 0 {
            fill(format!("{name} warm"), 0, self.warm_rows)?;
        }
        let rows = self.rows_of(mode);
        fill(name.to_owned(), self.warm_rows, rows)?;
        let there = match self.form() {
            Form::Entries => db.count(ROWS)?,
            Form::Documents => db.store().client()?.documents()?.count(documents::COLLECTION, &Condition::default())?,
        };
        let wanted = self.warm_rows + rows;
        ensure!(there == wanted, "{name}: {} rows are there, {} were committed", count(there), count(wanted));
        db.close()
    }

    /// Commits the row whose primary key is the call's number after `first`, with its index entries.
    fn work(&self, seed: u64, first: u64) -> impl FnMut(&mut dyn Client, u64) -> Result<Did> + use<> {
        let mut rows = self.form().rows(seed, self.row_bytes as usize);
        move |client, at| {
            let key = first + at;
            Ok(Did::wrote(rows.insert(client, key..key + 1, INDEXES.len())?))
        }
    }

    /// Gives the steps of a mode, as far as they ran, the columns of the article's table.
    fn add_figures(&self, bench: &mut Bench<'_>, name: &str, mode: Mode, slices_us: &[f64]) {
        let floor_us = (!slices_us.is_empty()).then(|| slices_us.iter().sum::<f64>() / slices_us.len() as f64);
        let settle = settle(name);
        let steps = bench.steps();
        let rows =
            steps.iter().find(|step| step.name == name).and_then(|step| step.cost).map_or(0, |cost| cost.operations);
        let size = steps.iter().find(|step| step.name == settle && !step.partial).and_then(|step| step.after.size);
        let bytes_per_row =
            size.filter(|_| rows > 0).map(|size| size.data_bytes() as f64 / (self.warm_rows + rows) as f64);
        for step in steps.iter_mut().filter(|step| (step.name == name || step.name == settle) && step.cost.is_some()) {
            let commit = step.operations.first();
            let floors = commit.zip(floor_us).map(|(commit, floor_us)| commit.latency.mean_us / floor_us);
            let figures = Figures { bytes_per_row, floors, ..Figures::of(step, rows) };
            // An engine may count a log that it does not write: nothing of it means no log, not an empty one.
            let figures = if mode == Mode::Nolog { figures } else { figures.with_log(step) };
            step.figures = figures.columns();
            step.device_us = slices_us.to_vec();
        }
    }
}

impl Mode {
    /// The step with so many clients: `sync`, `sync-2`.
    fn step(self, clients: u16) -> String {
        let name = match self {
            Self::Sync => "sync",
            Self::Lazy => "lazy",
            Self::Buffered => "buffered",
            Self::Nolog => "nolog",
        };
        if clients == 1 { name.to_owned() } else { format!("{name}-{clients}") }
    }

    fn durability(self) -> DurabilityArg {
        match self {
            Self::Sync => DurabilityArg::Sync,
            Self::Lazy => DurabilityArg::Interval,
            Self::Buffered => DurabilityArg::Buffered,
            Self::Nolog => DurabilityArg::NoLog,
        }
    }
}

/// The size of a file of the redo log, which is written in whole pages.
fn parse_segment(text: &str) -> Result<u64, String> {
    let bytes: u64 = sizes(64 << 10..=512 << 20)(text)?;
    if bytes.is_multiple_of(4096) { Ok(bytes) } else { Err(format!("`{text}` is not a multiple of 4 KiB")) }
}

/// Adds the step `device` to the run, first of all.
fn add_device(device: &Device, bench: &mut Bench<'_>) {
    let mut step = Step {
        name: "device".to_owned(),
        unit: "write".to_owned(),
        partial: bench.stop().asked(),
        cost: Some(device.cost()),
        operations: vec![device.operation("write")],
        ..Step::default()
    };
    let writes = device.cost().operations;
    step.figures = Figures { syncs: Some(1.0), floors: Some(1.0), ..Figures::of(&step, writes) }.columns();
    bench.steps().insert(0, step);
}

/// The step after the step with this name.
fn settle(name: &str) -> String {
    format!("{name} settle")
}
