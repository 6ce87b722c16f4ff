//! Cumulative costs of the processes that do the work, and the difference between two readings.

use super::device::{DeviceCounts, DeviceStats};
use super::proc::{ProcFile, own_reads};
use super::system::{SystemStats, SystemTimes};
use crate::clock::Stopwatch;
use anyhow::{Context as _, Result};
use nix::sys::resource::{Usage as ResourceUsage, UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::unistd::{SysconfVar, sysconf};
use std::fs;
use std::ops::Sub;
use std::path::Path;
use std::time::Duration;

/// What was used up to now, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time that passed.
    pub elapsed: Duration,
    /// CPU time of all threads, user and system.
    pub cpu: Duration,
    /// Times that a thread gave up or lost its CPU.
    pub switches: u64,
    /// Read calls. With direct I/O each is a request to storage; without it the page cache answers some.
    pub read_calls: u64,
    /// Bytes fetched from storage.
    pub read_bytes: u64,
    /// Bytes sent to storage (those written through the page cache count when they are written to it).
    pub written_bytes: u64,
    /// What the device below the data did for everybody, where the kernel counts it.
    pub device: Option<DeviceCounts>,
    /// What the processors did for everybody, where the kernel shows it.
    pub system: Option<SystemTimes>,
}

/// Reads the costs of this process and of the ones that serve it.
#[derive(Debug)]
pub struct Meter {
    stopwatch: Stopwatch,
    io: ProcFile,
    device: Option<DeviceStats>,
    system: Option<SystemStats>,
    others: Vec<(u32, ProcFile)>,
}

impl Meter {
    /// A meter whose time starts now, of this process and `others`, with data in `dir`.
    ///
    /// # Errors
    /// When the system does not account I/O to processes (`/proc/self/io`).
    pub fn start(dir: &Path, others: &[u32]) -> Result<Self> {
        let io = |process: String| ProcFile::open(format!("/proc/{process}/io"));
        Ok(Self {
            stopwatch: Stopwatch::start(),
            io: io("self".to_owned())?,
            device: DeviceStats::below(dir),
            system: SystemStats::open(),
            others: others.iter().map(|&id| Ok((id, io(id.to_string())?))).collect::<Result<_>>()?,
        })
    }

    /// The costs up to now. Only differences between two readings mean something.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn read(&self) -> Result<Usage> {
        let rusage = getrusage(UsageWho::RUSAGE_SELF)?;
        let switches = rusage.voluntary_context_switches() + rusage.involuntary_context_switches();
        let [read_calls, read_bytes, written_bytes] = io_numbers(&self.io)?;
        let mut usage = Usage {
            elapsed: self.stopwatch.elapsed(),
            cpu: cpu(&rusage),
            switches: u64::try_from(switches)?,
            read_calls: read_calls.saturating_sub(own_reads()),
            read_bytes,
            written_bytes,
            device: self.device.as_ref().and_then(DeviceStats::read),
            system: self.system.as_ref().and_then(SystemStats::read),
        };
        for (id, io) in &self.others {
            let [read_calls, read_bytes, written_bytes] = io_numbers(io)?;
            usage.read_calls += read_calls;
            usage.read_bytes += read_bytes;
            usage.written_bytes += written_bytes;
            usage.cpu += process_cpu(*id)?;
            usage.switches += process_switches(*id)?;
        }
        Ok(usage)
    }
}

/// CPU time of the calling thread, user and system.
///
/// # Errors
/// When the system does not say.
pub fn thread_cpu() -> Result<Duration> {
    Ok(cpu(&getrusage(UsageWho::RUSAGE_THREAD)?))
}

fn io_numbers(io: &ProcFile) -> Result<[u64; 3]> {
    io.numbers(["syscr", "read_bytes", "write_bytes"])
}

fn cpu(rusage: &ResourceUsage) -> Duration {
    let microseconds = rusage.user_time().num_microseconds() + rusage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(microseconds).unwrap_or(0))
}

/// CPU time of another process: the 14th and 15th field of its `stat`, in ticks. (The second field, a name in
/// parentheses, may hold anything.)
fn process_cpu(id: u32) -> Result<Duration> {
    let path = format!("/proc/{id}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let fields = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let ticks_per_second = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100);
    Ok(Duration::from_secs_f64(ticks as f64 / ticks_per_second as f64))
}

/// Context switches of all threads that another process has now.
fn process_switches(id: u32) -> Result<u64> {
    let path = format!("/proc/{id}/task");
    let tasks = fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?;
    let labels = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"];
    // A thread may end between its being listed and being asked.
    let threads = tasks.flatten().filter_map(|task| {
        let status = ProcFile::open(task.path().join("status").display().to_string()).ok()?;
        status.numbers(labels).ok()
    });
    Ok(threads.map(|[voluntary, involuntary]| voluntary + involuntary).sum())
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            cpu: self.cpu.saturating_sub(earlier.cpu),
            switches: self.switches.saturating_sub(earlier.switches),
            read_calls: self.read_calls.saturating_sub(earlier.read_calls),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            device: self.device.zip(earlier.device).map(|(now, then)| now.since(then)),
            system: self.system.zip(earlier.system).map(|(now, then)| now.since(then)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_does_not_count_its_own_reads() {
        let meter = Meter::start(Path::new("."), &[]).unwrap();
        let before = meter.read().unwrap();
        let after = meter.read().unwrap();
        // Other tests of this process may read meanwhile, but hardly as much as a thousand measurements.
        for _ in 0..1_000 {
            meter.read().unwrap();
        }
        assert!((meter.read().unwrap() - after).read_calls < 900);
        assert!(after.elapsed >= before.elapsed && after.cpu >= before.cpu);
    }

    #[test]
    fn work_costs_cpu() {
        let meter = Meter::start(Path::new("."), &[]).unwrap();
        let before = meter.read().unwrap();
        let mut random = crate::Random::new(1);
        let sum = (0..10_000_000).fold(0_u64, |sum, _| sum ^ random.next());
        let used = meter.read().unwrap() - before;
        assert!(used.cpu > Duration::from_micros(100), "{used:?} for {sum}");
    }
}
