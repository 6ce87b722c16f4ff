//! The memory that the stages of a pipeline share, and where they put what does not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::{Error, ErrorCode, Result};

/// The bytes that the stages of a pipeline keep.
#[derive(Debug)]
pub struct Memory {
    /// A count, by which nothing is published.
    used: AtomicUsize,
    bytes_max: usize,
    spill: Option<spinney::Database>,
}

/// The bytes that the stages of a pipeline keep at most.
pub const MEMORY_BYTES_MAX: usize = 100 << 20;

impl Memory {
    /// A limit in bytes; [`MEMORY_BYTES_MAX`] is MongoDB's.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self { used: AtomicUsize::new(0), bytes_max, spill: None }
    }

    /// The same limit, past which stages that can do so go on in tables of a database.
    #[must_use]
    pub fn with_spill(mut self, engine: spinney::Database) -> Self {
        self.spill = Some(engine);
        self
    }

    /// The database for what does not fit.
    #[must_use]
    pub const fn spill(&self) -> Option<&spinney::Database> {
        self.spill.as_ref()
    }

    /// Takes note of bytes that a stage keeps from now on.
    ///
    /// # Errors
    /// Code 292 when the limit is exceeded.
    pub fn take(&self, bytes: usize, stage: &str) -> Result<()> {
        if self.try_take(bytes) { Ok(()) } else { Err(self.exceeded(stage)) }
    }

    /// As [`Self::take`]; whether the bytes are within the limit. They are counted in any case.
    #[must_use]
    pub fn try_take(&self, bytes: usize) -> bool {
        self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.bytes_max
    }

    /// Whether the bytes in use are within the limit.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) <= self.bytes_max
    }

    /// Whether what had to stay in memory after the limit was reached is as much again.
    #[must_use]
    pub fn is_far_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) / 2 > self.bytes_max
    }

    /// The error that the limit is exceeded.
    #[must_use]
    pub fn exceeded(&self, stage: &str) -> Error {
        let used = self.used.load(Ordering::Relaxed);
        let hint = if self.spill.is_some() { "" } else { ". Pass allowDiskUse:true to opt in." };
        let what = format!("Exceeded memory limit for {stage}: {used} bytes of {}{hint}", self.bytes_max);
        Error::new(ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT, what)
    }

    /// Takes note of bytes that a stage keeps no longer.
    pub fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that a stage keeps, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    memory: Arc<Memory>,
    bytes: usize,
    stage: &'static str,
}

impl Held {
    pub(super) fn new(memory: &Arc<Memory>, stage: &'static str) -> Self {
        Self { memory: Arc::clone(memory), bytes: 0, stage }
    }

    /// Takes note of further bytes.
    ///
    /// # Errors
    /// As [`Memory::take`].
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        self.memory.take(bytes, self.stage)
    }

    /// Takes note of bytes that the stage keeps no longer.
    pub(super) fn give(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.memory.give(bytes);
    }

    /// Another count of the same stage.
    pub(super) fn empty(&self) -> Self {
        Self::new(&self.memory, self.stage)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.give(self.bytes);
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(MEMORY_BYTES_MAX)
    }
}
