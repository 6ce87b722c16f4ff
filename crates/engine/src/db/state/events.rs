//! What a database tells of its work: to the program's listener, and to the crate
//! [`tracing`](https://docs.rs/tracing) in a build with that feature.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::base::trace::event;

/// Something that a database did, or that happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// It was opened.
    Opened {
        /// Bytes of the redo log that were read.
        log_bytes: u64,
        /// From the call of open to now.
        duration: Duration,
    },
    /// Memtables of a table are on disk.
    Flushed {
        /// The table's name.
        table: &'a str,
        /// How many memtables.
        memtables: usize,
        /// Bytes of memory that they took.
        bytes: u64,
        /// How long it took.
        duration: Duration,
    },
    /// Runs of a table were merged into its B-tree.
    Merged {
        /// The table's name.
        table: &'a str,
        /// Bytes of the runs.
        read_bytes: u64,
        /// Bytes of blocks written.
        written_bytes: u64,
        /// How long it took.
        duration: Duration,
    },
    /// Runs of a table were merged into other runs.
    Compacted {
        /// The table's name.
        table: &'a str,
        /// The level that has the result; 0 is L0.
        level: usize,
        /// Bytes of the runs that were merged.
        read_bytes: u64,
        /// Bytes of the runs that came of it, and of value files.
        written_bytes: u64,
        /// How long it took.
        duration: Duration,
    },
    /// A writer waited until a flush made room in memory.
    Stalled {
        /// Bytes that it was to write.
        bytes: u64,
        /// How long it waited.
        duration: Duration,
    },
    /// Of the last commits of transactions more ended with a conflict than with success.
    ConflictStorm {
        /// Those with a conflict.
        conflicts: u64,
        /// Those with success.
        commits: u64,
    },
    /// Work in the background could not be done now, and is tried again.
    BackgroundError {
        /// What it met, and what to do.
        message: &'a str,
    },
    /// A write or sync failed: the database takes no more until it is opened again.
    Poisoned {
        /// What it met.
        message: &'a str,
    },
}

/// Is told what a database does. The thread that did it calls, and goes on when the call returns: it must be quick, and
/// must not use the database.
pub trait EventListener: Debug + Send + Sync {
    /// Something has happened.
    fn on_event(&self, event: &Event<'_>);
}

/// Where events go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    listener: Option<Arc<dyn EventListener>>,
}

impl Events {
    pub(crate) fn set(&mut self, listener: Arc<dyn EventListener>) {
        self.listener = Some(listener);
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        trace(event);
        if let Some(listener) = &self.listener {
            listener.on_event(event);
        }
    }
}

#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "only the trace uses them"))]
fn trace(event: &Event<'_>) {
    match *event {
        Event::Opened { log_bytes, duration } => event!(INFO, log_bytes, ?duration, "opened"),
        Event::Flushed { table, memtables, bytes, duration } => {
            event!(DEBUG, table, memtables, bytes, ?duration, "flushed");
        }
        Event::Merged { table, read_bytes, written_bytes, duration } => {
            event!(DEBUG, table, read_bytes, written_bytes, ?duration, "merged into the B-tree");
        }
        Event::Compacted { table, level, read_bytes, written_bytes, duration } => {
            event!(DEBUG, table, level, read_bytes, written_bytes, ?duration, "compacted");
        }
        Event::Stalled { bytes, duration } => event!(DEBUG, bytes, ?duration, "a writer waited for a flush"),
        Event::ConflictStorm { conflicts, commits } => {
            event!(WARN, conflicts, commits, "more transactions conflict than commit");
        }
        Event::BackgroundError { message } => event!(WARN, message, "work in the background is tried again later"),
        Event::Poisoned { message } => event!(ERROR, message, "a write failed: the database takes no more"),
    }
}
