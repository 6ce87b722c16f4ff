//! The raw device beside the engine: slices of durable writes, measured in turns with the engine's steps.

use crate::measure::{Floor, Latency, Meter, Usage, WRITE_BYTES};
use crate::report::{Cost, Operation};
use crate::run::Bench;
use anyhow::{Context as _, Result};
use std::path::PathBuf;

/// The device, whose writes are what a durable commit cannot be faster than, and what they cost so far.
#[derive(Debug)]
pub(super) struct Device {
    floor: Floor,
    path: PathBuf,
    /// Writes of a slice.
    writes: u64,
    latency: Latency,
    /// The mean time of a write in each slice, in microseconds.
    means_us: Vec<f64>,
    /// Of the slices' time only.
    seconds: f64,
    used: Usage,
}

impl Device {
    /// A file below the run's directory, written in full, and no slice yet.
    pub(super) fn create(bench: &Bench<'_>, writes: u64) -> Result<Self> {
        let path = bench.path("raw-device");
        let floor = Floor::create(&path, writes)?;
        Ok(Self {
            floor,
            path,
            writes,
            latency: Latency::new(),
            means_us: Vec::new(),
            seconds: 0.0,
            used: Usage::default(),
        })
    }

    /// Measures a slice; the mean time of a write in it in microseconds, if any time passed.
    pub(super) fn slice(&mut self, bench: &Bench<'_>) -> Result<Option<f64>> {
        let meter = Meter::start(&self.path, &[])?;
        let (clock, before) = (bench.clock(), meter.read()?);
        let began = clock.now();
        let mut last = began;
        let mut calls = 0_u64;
        while calls < self.writes && !bench.stop().asked() {
            self.floor.write()?;
            let now = clock.now();
            self.latency.record(now - last);
            last = now;
            calls += 1;
        }
        let seconds = (last - began).as_secs_f64();
        let used = meter.read()? - before;
        self.seconds += seconds;
        self.used.cpu += used.cpu;
        self.used.switches += used.switches;
        self.used.written_bytes += used.written_bytes;
        let mean_us = (calls > 0 && seconds > 0.0).then(|| seconds * 1e6 / calls as f64);
        self.means_us.extend(mean_us);
        Ok(mean_us)
    }

    /// The mean time of a write in each slice so far, in microseconds.
    pub(super) fn means_us(&self) -> &[f64] {
        &self.means_us
    }

    /// The mean time of a write in all slices in microseconds, if any time passed.
    pub(super) fn mean_us(&self) -> Option<f64> {
        Some(self.latency.percentiles().mean_us).filter(|&mean| mean > 0.0)
    }

    /// The writes of all slices.
    pub(super) fn operation(&self, name: &str) -> Operation {
        let calls = self.latency.calls();
        Operation {
            name: name.to_owned(),
            calls,
            operations: calls,
            latency: self.latency.percentiles(),
            curve: self.latency.curve(),
            ..Operation::default()
        }
    }

    /// What they cost.
    pub(super) fn cost(&self) -> Cost {
        let calls = self.latency.calls();
        let per_call = |value: f64| value / calls.max(1) as f64;
        let cpu_us = per_call(self.used.cpu.as_secs_f64() * 1e6);
        Cost {
            operations: calls,
            seconds: self.seconds,
            rate: if self.seconds > 0.0 { calls as f64 / self.seconds } else { 0.0 },
            written_kib: Some(per_call(self.used.written_bytes as f64 / 1024.0)),
            switches: Some(per_call(self.used.switches as f64)),
            cpu_us,
            foreground_cpu_us: cpu_us,
            ..Cost::default()
        }
    }

    /// Says in the report what was written and how, and removes the file.
    pub(super) fn finish(self, bench: &mut Bench<'_>) -> Result<()> {
        if !self.floor.is_direct() {
            bench.note("the floor's writes went through the page cache: the file system has no direct I/O");
        }
        bench.note(format!(
            "the floor: durable writes of {WRITE_BYTES} bytes, one after the other, to a file written before"
        ));
        std::fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }
}
