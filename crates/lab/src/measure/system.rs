//! What all processors of the machine did, for all processes.

use super::proc::ProcFile;
use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The counters of all processors.
#[derive(Debug)]
pub(super) struct SystemStats(ProcFile);

/// A reading of the counters, or the difference between two: ticks of all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemTimes {
    /// In processes, with low priority or not.
    pub user: u64,
    /// In the kernel, for processes; interrupts too.
    pub system: u64,
    /// Without work.
    pub idle: u64,
    /// Without work while a process waited for storage.
    pub wait: u64,
    /// Taken by other virtual machines.
    pub steal: u64,
}

/// What the machine did during a step, as shares of the time of all its processors, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemUse {
    /// In processes.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// Idle while a process waited for storage.
    pub wait: f64,
    /// Taken by other virtual machines.
    pub steal: f64,
    /// Used by other processes, by the kernel's own threads, and by other virtual machines. `None` for a step that is
    /// too short to tell.
    pub others: Option<f64>,
}

/// The kernel counts in hundredths of seconds: in less time than this the others' share is known only if it is large.
const TIME_MIN: Duration = Duration::from_millis(300);

/// By so many ticks a count may be wrong.
const ERROR_TICKS: f64 = 4.0;

/// A share that is large: a shorter time is enough to know that it is.
const LARGE: f64 = 0.1;

impl SystemStats {
    /// The counters of this machine, if the kernel shows them.
    pub(super) fn open() -> Option<Self> {
        let stats = Self(ProcFile::open("/proc/stat".to_owned()).ok()?);
        stats.read().map(|_| stats)
    }

    /// The counters now.
    pub(super) fn read(&self) -> Option<SystemTimes> {
        parse(&self.0.text().ok()?)
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. (Time of guests is in that of
/// users.)
fn parse(text: &str) -> Option<SystemTimes> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, wait, irq, softirq, steal] = fields.get(..8)?.try_into().ok()?;
    Some(SystemTimes { user: user + nice, system: system + irq + softirq, idle, wait, steal })
}

impl SystemTimes {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            wait: self.wait.saturating_sub(earlier.wait),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// The shares of a time in which the processes that are measured used so much CPU.
    #[must_use]
    pub fn shares(self, elapsed: Duration, own_cpu: Duration) -> Option<SystemUse> {
        let Self { user, system, idle, wait, steal } = self;
        let total = Some(user + system + idle + wait + steal).filter(|&total| total > 0)? as f64;
        let ticks_per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
        let own = own_cpu.as_secs_f64() * ticks_per_second;
        let others = ((user + system + steal) as f64 - own).max(0.0);
        let is_known = elapsed >= TIME_MIN || others - ERROR_TICKS > LARGE * total;
        Some(SystemUse {
            user: user as f64 / total,
            system: system as f64 / total,
            wait: wait as f64 / total,
            steal: steal as f64 / total,
            others: is_known.then_some(others / total),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_our_own_is_the_others() {
        let before = parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2\n").unwrap();
        // Two processors for a second: 60 ticks of users, 20 of the kernel, 10 stolen, of which 30 were for us.
        let after = parse("cpu  150 10 65 900 60 2 3 10 0 0\n").unwrap();
        let times = after.since(before);
        assert_eq!(times, SystemTimes { user: 60, system: 20, idle: 100, wait: 10, steal: 10 });
        let shares = times.shares(Duration::from_secs(1), Duration::from_millis(300)).unwrap();
        assert!((shares.others.unwrap() - 0.3).abs() < 1e-9 && (shares.user - 0.3).abs() < 1e-9, "{shares:?}");
        let short = |user: u64, idle: u64| {
            let times = SystemTimes { user, idle, ..SystemTimes::default() };
            times.shares(Duration::from_millis(100), Duration::from_millis(50)).unwrap().others
        };
        // Twenty ticks, of which five are ours: three more may be none, and ten are not.
        assert_eq!((short(8, 12), short(15, 5)), (None, Some(0.5)));
        assert_eq!(SystemTimes::default().shares(Duration::from_secs(1), Duration::ZERO), None);
        assert!(parse("cpu  1 2 3\n").is_none() && parse("").is_none());
    }

    #[test]
    fn a_machine_has_counters() {
        assert!(SystemStats::open().is_some_and(|stats| stats.read().is_some_and(|times| times.idle + times.user > 0)));
    }
}
