//! Cumulative costs of this process, and the difference between two readings.

use super::proc::{ProcFile, own_reads};
use crate::clock::Stopwatch;
use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

/// What the process used up to now, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time that passed.
    pub elapsed: Duration,
    /// CPU time of all threads, user and system.
    pub cpu: Duration,
    /// Times that a thread gave up or lost its CPU.
    pub switches: u64,
    /// Read calls. With direct I/O each is a request to storage; without it the page cache answers some.
    pub reads: u64,
    /// Bytes fetched from storage.
    pub read_bytes: u64,
    /// Bytes sent to storage (those written through the page cache count when they are written to it).
    pub written_bytes: u64,
}

/// Reads the process's costs since it was made.
#[derive(Debug)]
pub struct Meter {
    stopwatch: Stopwatch,
    io: ProcFile,
}

impl Meter {
    /// A meter whose time starts now.
    ///
    /// # Errors
    /// When the system does not account I/O to processes (`/proc/self/io`).
    pub fn start() -> Result<Self> {
        Ok(Self { stopwatch: Stopwatch::start(), io: ProcFile::open("/proc/self/io")? })
    }

    /// The costs up to now. Only differences between two readings mean something.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn read(&self) -> Result<Usage> {
        let rusage = getrusage(UsageWho::RUSAGE_SELF)?;
        let microseconds = rusage.user_time().num_microseconds() + rusage.system_time().num_microseconds();
        let switches = rusage.voluntary_context_switches() + rusage.involuntary_context_switches();
        let [reads, read_bytes, written_bytes] = self.io.numbers(["syscr", "read_bytes", "write_bytes"])?;
        Ok(Usage {
            elapsed: self.stopwatch.elapsed(),
            cpu: Duration::from_micros(u64::try_from(microseconds)?),
            switches: u64::try_from(switches)?,
            reads: reads.saturating_sub(own_reads()),
            read_bytes,
            written_bytes,
        })
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            cpu: self.cpu.saturating_sub(earlier.cpu),
            switches: self.switches.saturating_sub(earlier.switches),
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.elapsed += other.elapsed;
        self.cpu += other.cpu;
        self.switches += other.switches;
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_does_not_count_its_own_reads() {
        let meter = Meter::start().unwrap();
        let before = meter.read().unwrap();
        let after = meter.read().unwrap();
        // Other tests of this process may read meanwhile, but hardly as much as a thousand measurements.
        for _ in 0..1_000 {
            meter.read().unwrap();
        }
        assert!((meter.read().unwrap() - after).reads < 900);
        assert!(after.elapsed >= before.elapsed && after.cpu >= before.cpu);
    }

    #[test]
    fn work_costs_cpu() {
        let meter = Meter::start().unwrap();
        let before = meter.read().unwrap();
        let mut random = crate::Random::new(1);
        let sum = (0..10_000_000).fold(0_u64, |sum, _| sum ^ random.next());
        let used = meter.read().unwrap() - before;
        assert!(used.cpu > Duration::from_micros(100), "{used:?} for {sum}");
    }
}
