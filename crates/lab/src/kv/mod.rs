//! Single operations at the speed of one thread: puts, gets, and commits that wait for the device.
//!
//! Names and lines are those of `db_bench`, which readers of storage engines know.

mod data;
mod device;
mod report;
mod target;

use crate::clock::Stopwatch;
use crate::measure::Latency;
use crate::progress;
use crate::scratch::Scratch;
use crate::stop::Stop;
use anyhow::{Result, bail};
use data::{KEY_BYTES, Keys, Values};
use device::Device;
use spinney::{Durability, Layout};
use std::io::Write;
use std::ops::Range;
use std::time::Duration;
use target::Target;

pub use report::{Line, Report};

/// What to do with the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Put every key once, in key order.
    FillSeq,
    /// Put every key once, in random order.
    FillRandom,
    /// Merge everything into one tree.
    Compact,
    /// Get random keys, all of which are there. The table is read once beforehand, so that it is in the cache if it fits.
    ReadRandom,
    /// Put random keys, each commit on the device before the next, in turns with plain durable writes of 4 KiB.
    FillSync,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Workloads, in this order, on one table.
    pub workloads: Vec<Workload>,
    /// Keys to put. At least 1.
    pub num: u64,
    /// Keys to get.
    pub reads: u64,
    /// Commits that wait for the device.
    pub syncs: u64,
    /// Bytes of a value; the second half repeats the first.
    pub value_bytes: usize,
    /// Layouts to run, one after the other.
    pub layouts: Vec<Layout>,
    /// Memory of the database.
    pub memory_bytes: u64,
    /// Durability of the puts of `FillSeq` and `FillRandom`.
    pub durability: Durability,
    /// Pass the page cache by.
    pub direct_io: bool,
    /// The seed of the data.
    pub seed: u64,
}

/// Operations between two looks at the request to stop.
const STRIDE: u64 = 1024;

/// Runs the workloads on each layout in turn, printing a line to `out` after each.
///
/// # Errors
/// What the database, the measuring or `out` says; [`crate::Interrupted`] when `stop` was asked for.
pub fn run(config: &Config, scratch: &Scratch, stop: &Stop, out: &mut dyn Write) -> Result<Report> {
    report::print_header(config, scratch.path(), out)?;
    let mut report = Report::new(config);
    for &layout in &config.layouts {
        let dir = scratch.fresh(layout.name())?;
        let bench = Bench { config, stop, layout, target: Target::open(&dir, config, layout)? };
        for &workload in &config.workloads {
            for line in bench.run(workload, scratch)? {
                line.print(out)?;
                report.lines.push(line);
            }
        }
        bench.target.close()?;
    }
    Ok(report)
}

struct Bench<'a> {
    config: &'a Config,
    stop: &'a Stop,
    layout: Layout,
    target: Target,
}

impl Bench<'_> {
    fn run(&self, workload: Workload, scratch: &Scratch) -> Result<Vec<Line>> {
        match workload {
            Workload::FillSeq => Ok(vec![self.fill("fillseq", Keys::Ordered)?]),
            Workload::FillRandom => Ok(vec![self.fill("fillrandom", Keys::Scattered)?]),
            Workload::Compact => Ok(vec![self.compact()?]),
            Workload::ReadRandom => Ok(vec![self.read_random()?]),
            Workload::FillSync => self.fill_sync(scratch),
        }
    }

    fn fill(&self, name: &'static str, keys: Keys) -> Result<Line> {
        let Config { num, durability, .. } = *self.config;
        let mut values = Values::new(self.config);
        self.measure(name, num, |at| self.target.put(&keys.key(at), values.next(), durability))
    }

    fn compact(&self) -> Result<Line> {
        let wheel = progress::wheel("compact");
        let stopwatch = Stopwatch::start();
        self.target.compact()?;
        let line = Line::new("compact", self.layout, 1, stopwatch.elapsed(), &Latency::new());
        wheel.finish_and_clear();
        Ok(line)
    }

    fn read_random(&self) -> Result<Line> {
        let wheel = progress::wheel("warming up");
        self.target.read_all()?;
        wheel.finish_and_clear();
        let random_fill = self.config.workloads.contains(&Workload::FillRandom);
        let keys = if random_fill { Keys::Scattered } else { Keys::Ordered };
        let mut random = crate::Random::new(self.config.seed ^ 1);
        let reader = self.target.reader();
        self.measure("readrandom", self.config.reads, |_| {
            if !reader.get(&keys.key(random.below(self.config.num)))? {
                bail!("a key is not there: `readrandom` needs a fill of the same --num before it");
            }
            Ok(())
        })
    }

    /// The engine and the bare device take turns, so that a change of the device's speed meets both.
    fn fill_sync(&self, scratch: &Scratch) -> Result<Vec<Line>> {
        const TURNS: u64 = 8;
        let mut device = Device::create(&scratch.path().join("device"))?;
        let mut values = Values::new(self.config);
        let (mut engine, mut raw) = (Latency::new(), Latency::new());
        let (mut engine_time, mut raw_time) = (Duration::ZERO, Duration::ZERO);
        let bar = progress::bar(self.config.syncs, "fillsync", "ops");
        for turn in 0..TURNS {
            let (from, to) = (self.config.syncs * turn / TURNS, self.config.syncs * (turn + 1) / TURNS);
            self.stop.check()?;
            raw_time += timed(from..to, &mut raw, |_| device.write())?;
            engine_time += timed(from..to, &mut engine, |at| {
                self.target.put(&Keys::Scattered.key(at), values.next(), Durability::Sync)
            })?;
            bar.inc(to - from);
        }
        bar.finish_and_clear();
        let syncs = self.config.syncs;
        let raw = Line::new(device.name(), self.layout, syncs, raw_time, &raw).moving(device::WRITE_BYTES);
        let engine = Line::new("fillsync", self.layout, syncs, engine_time, &engine).moving(self.entry_bytes());
        let engine = engine.relative_to(&raw);
        Ok(vec![raw, engine])
    }

    /// Runs `op` with each number below `count`.
    fn measure(&self, name: &'static str, count: u64, mut op: impl FnMut(u64) -> Result<()>) -> Result<Line> {
        let bar = progress::bar(count, name, "ops");
        let mut latency = Latency::new();
        let mut time = Duration::ZERO;
        let mut from = 0;
        while from < count {
            self.stop.check()?;
            let to = count.min(from + STRIDE);
            time += timed(from..to, &mut latency, &mut op)?;
            bar.inc(to - from);
            from = to;
        }
        bar.finish_and_clear();
        Ok(Line::new(name, self.layout, count, time, &latency).moving(self.entry_bytes()))
    }

    fn entry_bytes(&self) -> usize {
        KEY_BYTES + self.config.value_bytes
    }
}

/// Runs `op` with each number of a range, recording how long each call took, and returns how long all took.
fn timed(range: Range<u64>, latency: &mut Latency, mut op: impl FnMut(u64) -> Result<()>) -> Result<Duration> {
    let stopwatch = Stopwatch::start();
    let mut before = Duration::ZERO;
    for at in range {
        op(at)?;
        let now = stopwatch.elapsed();
        latency.record(now - before);
        before = now;
    }
    Ok(before)
}
