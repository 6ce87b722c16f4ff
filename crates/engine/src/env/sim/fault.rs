//! Faults that a test plans, and the count of operations that says when they strike.

use super::call::Call;
use std::io;
use std::path::Path;

/// `EMFILE` of every Unix.
const TOO_MANY_FILES: i32 = 24;

/// What goes wrong with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with an error of this kind and does nothing.
    Error(io::ErrorKind),
    /// A write writes half of its bytes, then fails. Any other operation fails and does nothing.
    ShortWrite,
    /// A sync (of a file or a directory, or a durable write) fails, and what it was to make durable never will be,
    /// though reads still show it: what Linux does. Any other operation fails and does nothing.
    SyncLost,
    /// It fails with `StorageFull` and does nothing.
    NoSpace,
    /// It fails with `EMFILE` and does nothing.
    TooManyFiles,
    /// A write says that it is done, and nothing was written. Any other operation is done.
    LostWrite,
    /// A write says that it is done, and its bytes went elsewhere: as far behind their place as they are long. Any
    /// other operation is done.
    MisdirectedWrite,
    /// A read gives its bytes with one bit flipped; the disk has the right ones. Any other operation is done.
    FlippedRead,
    /// A read gives what the last write to the file wrote over. Any other operation is done.
    StaleRead,
}

impl Fault {
    /// Whether a call can meet it: a full disk fails calls that need space, and too many files fail calls that open
    /// one.
    #[must_use]
    pub const fn can_strike(self, call: Call) -> bool {
        use Call::{
            Allocate, Create, Link, List, Lock, MakeDir, Open, Read, Rename, Sync, SyncDir, Write, WriteDurable,
        };
        match self {
            Self::Error(_) => true,
            Self::ShortWrite | Self::LostWrite | Self::MisdirectedWrite => matches!(call, Write | WriteDurable),
            Self::SyncLost => matches!(call, Sync | SyncDir | WriteDurable),
            Self::NoSpace => {
                matches!(call, Create | MakeDir | Write | WriteDurable | Sync | SyncDir | Allocate | Link | Rename)
            }
            Self::TooManyFiles => matches!(call, Open | Create | List | Lock | SyncDir),
            Self::FlippedRead | Self::StaleRead => matches!(call, Read),
        }
    }

    /// Whether the operation that it strikes says so.
    pub(super) const fn is_told(self) -> bool {
        !matches!(self, Self::LostWrite | Self::MisdirectedWrite | Self::FlippedRead | Self::StaleRead)
    }

    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Error(kind) => io::Error::new(kind, "injected fault"),
            Self::ShortWrite => io::Error::other("injected fault: short write"),
            Self::SyncLost => io::Error::other("injected fault: the sync failed and dropped what was unsynced"),
            Self::NoSpace => io::Error::new(io::ErrorKind::StorageFull, "injected fault: no space"),
            Self::TooManyFiles => io::Error::from_raw_os_error(TOO_MANY_FILES),
            Self::LostWrite | Self::MisdirectedWrite | Self::FlippedRead | Self::StaleRead => {
                unreachable!("a fault that nobody is told of")
            }
        }
    }
}

/// What becomes of an operation.
pub(super) enum Verdict {
    /// It is done.
    Go,
    /// It is begun, and then the machine stops.
    Crash,
    Fail(Fault),
    /// It seems done, and is not.
    Deceive(Fault),
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
    /// The first call that a fault struck since faults were planned.
    pub(super) struck: Option<(Call, std::path::PathBuf)>,
}

#[derive(Clone)]
struct Planned {
    at: u64,
    fault: Fault,
    lasts: bool,
    /// Only files for which it holds are struck; the first such operation is, not that numbered `at`.
    only: Option<fn(&Path) -> bool>,
}

impl Planned {
    /// Whether it strikes the operation. One that lasts strikes what it can.
    fn strikes(&self, operation: u64, call: Call, path: &Path) -> bool {
        match self.only {
            Some(only) => self.at <= operation && self.fault.can_strike(call) && only(path),
            None => self.at == operation || (self.lasts && self.at < operation && self.fault.can_strike(call)),
        }
    }
}

impl Faults {
    /// The counts without the plan.
    pub(super) fn fork(&self) -> Self {
        Self { operations: self.operations, changes: self.changes, ..Self::default() }
    }

    pub(super) fn plan(&mut self, at: u64, fault: Fault, lasts: bool, only: Option<fn(&Path) -> bool>) {
        if self.planned.is_empty() {
            self.struck = None;
        }
        self.planned.push(Planned { at, fault, lasts, only });
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
    }

    /// Whether what writes write over must be kept for a stale read.
    pub(super) fn keep_overwritten(&self) -> bool {
        self.planned.iter().any(|planned| planned.fault == Fault::StaleRead)
    }

    /// Counts an operation and says what becomes of it.
    pub(super) fn judge(&mut self, call: Call, path: &Path) -> io::Result<Verdict> {
        self.check_up()?;
        let operation = self.operations;
        self.operations += 1;
        if call.is_change() {
            let change = self.changes;
            self.changes += 1;
            if self.crash_at.is_some_and(|at| at <= change) {
                self.is_down = true;
                return Ok(Verdict::Crash);
            }
        }
        let Some(index) = self.planned.iter().position(|planned| planned.strikes(operation, call, path)) else {
            return Ok(Verdict::Go);
        };
        let Planned { fault, lasts, only, .. } = self.planned[index];
        if only.is_some() && !lasts {
            self.planned.remove(index);
        }
        self.struck.get_or_insert_with(|| (call, path.to_owned()));
        if fault.is_told() {
            return Ok(Verdict::Fail(fault));
        }
        Ok(if fault.can_strike(call) { Verdict::Deceive(fault) } else { Verdict::Go })
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
