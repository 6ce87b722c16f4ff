//! Faults that a test plans, and the count of operations that says when they strike.

use std::io;

/// What goes wrong with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with an error of this kind and does nothing.
    Error(io::ErrorKind),
    /// A write writes half of its bytes, then fails. Any other operation fails and does nothing.
    ShortWrite,
    /// A sync (of a file or a directory, or a durable write) fails, and what it was to make durable never will be, though reads
    /// still show it: what Linux does. Any other operation fails and does nothing.
    SyncLost,
    /// It fails with `StorageFull` and does nothing.
    NoSpace,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Error(kind) => io::Error::new(kind, "injected fault"),
            Self::ShortWrite => io::Error::other("injected fault: short write"),
            Self::SyncLost => io::Error::other("injected fault: the sync failed and dropped what was unsynced"),
            Self::NoSpace => io::Error::new(io::ErrorKind::StorageFull, "injected fault: no space"),
        }
    }
}

/// Whether an operation can change what a crash leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Look,
    Change,
}

/// What becomes of an operation.
pub(super) enum Verdict {
    /// It is done.
    Go,
    /// It is begun, and then the machine stops.
    Crash,
    Fail(Fault),
}

/// The plan, and the counts so far.
#[derive(Clone, Default)]
pub(super) struct Faults {
    /// Operations begun.
    pub(super) operations: u64,
    /// Those of them that change something.
    pub(super) changes: u64,
    /// The change at which the machine stops.
    pub(super) crash_at: Option<u64>,
    /// Whether it has stopped.
    pub(super) is_down: bool,
    planned: Vec<Planned>,
}

#[derive(Clone)]
struct Planned {
    at: u64,
    fault: Fault,
    lasts: bool,
}

impl Faults {
    /// The counts without the plan.
    pub(super) fn fork(&self) -> Self {
        Self { operations: self.operations, changes: self.changes, ..Self::default() }
    }

    pub(super) fn plan(&mut self, at: u64, fault: Fault, lasts: bool) {
        self.planned.push(Planned { at, fault, lasts });
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
    }

    /// Counts an operation and says what becomes of it.
    pub(super) fn judge(&mut self, effect: Effect) -> io::Result<Verdict> {
        self.check_up()?;
        let operation = self.operations;
        self.operations += 1;
        if effect == Effect::Change {
            let change = self.changes;
            self.changes += 1;
            if self.crash_at.is_some_and(|at| at <= change) {
                self.is_down = true;
                return Ok(Verdict::Crash);
            }
        }
        let strikes = |planned: &&Planned| planned.at == operation || (planned.lasts && planned.at < operation);
        Ok(self.planned.iter().find(strikes).map_or(Verdict::Go, |planned| Verdict::Fail(planned.fault)))
    }

    /// Fails once the machine has stopped.
    pub(super) fn check_up(&self) -> io::Result<()> {
        if self.is_down { Err(down()) } else { Ok(()) }
    }
}

/// The error of every operation after the machine has stopped.
pub(super) fn down() -> io::Error {
    io::Error::other("the simulated machine has crashed")
}
