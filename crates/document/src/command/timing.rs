//! How often each command ran, how often it failed, and how long it took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::spec::{Access, Declaration};

/// The number of classes of times: class `i` holds times below `2^i` microseconds that are in no lower class; the last
/// one all above.
pub const CLASSES: usize = 32;

/// The commands of a service and how long they took. They order nothing.
#[derive(Debug, Default)]
pub struct Timings(BTreeMap<&'static str, Timing>);

/// How often a command ran and how long it took.
#[derive(Debug)]
pub struct Timing {
    access: Access,
    failed: AtomicU64,
    micros: AtomicU64,
    classes: [AtomicU64; CLASSES],
}

/// A command's timing at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Whether the command reads or writes documents.
    pub access: Access,
    /// How often it ran.
    pub total: u64,
    /// How often it failed.
    pub failed: u64,
    /// How many microseconds it took in all.
    pub micros: u64,
    /// How often it took a time of each class.
    pub classes: [u64; CLASSES],
}

impl Timings {
    /// The timings of commands that have not run yet.
    #[must_use]
    pub fn new(commands: &[&'static Declaration]) -> Self {
        let timing = |command: &&'static Declaration| Timing {
            access: command.access,
            failed: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            classes: Default::default(),
        };
        Self(commands.iter().map(|command| (command.name, timing(command))).collect())
    }

    /// Adds a command that has ended.
    pub fn add(&self, name: &str, micros: u64, failed: bool) {
        let Some(timing) = self.0.get(name) else { return };
        timing.micros.fetch_add(micros, Ordering::Relaxed);
        timing.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
        if let Some(class) = timing.classes.get(class_of(micros)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The commands that have run.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Timed)> {
        self.0.iter().map(|(name, timing)| (*name, timing.now())).filter(|(_, timed)| timed.total > 0)
    }
}

impl Timing {
    fn now(&self) -> Timed {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let classes = std::array::from_fn(|at| self.classes.get(at).map_or(0, load));
        Timed {
            access: self.access,
            total: classes.iter().sum(),
            failed: load(&self.failed),
            micros: load(&self.micros),
            classes,
        }
    }
}

/// The class of a time.
pub(super) fn class_of(micros: u64) -> usize {
    let bits = u64::BITS - micros.leading_zeros();
    usize::try_from(bits).unwrap_or(CLASSES).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::spec::Target;

    #[test]
    fn times_fall_into_classes_of_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, u64::MAX].map(class_of), [0, 1, 2, 2, 3, CLASSES - 1]);
        static PING: Declaration = Declaration::new("ping", Target::Value(&[]), "");
        let timings = Timings::new(&[&PING]);
        assert_eq!(timings.iter().count(), 0);
        timings.add("ping", 3, false);
        timings.add("ping", 5, true);
        timings.add("pong", 5, true);
        let (name, timed) = timings.iter().next().unwrap();
        assert_eq!((name, timed.total, timed.failed, timed.micros), ("ping", 2, 1, 8));
        assert_eq!((timed.classes[2], timed.classes[3]), (1, 1));
    }
}
