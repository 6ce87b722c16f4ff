//! Lays the large values of a stream of entries down in value files, cut at the size that the table asks for.

use std::sync::Arc;

use crate::base::num::{u64_of, usize_of32};
use crate::base::{Entry, FileId, Kind, Result};
use crate::block::Compression;
use crate::cache::Fill;
use crate::db::state::State;
use crate::table::TableOptions;
use crate::table::files::FileKind;
use crate::tree::values::{ValueBuilder, ValueFile, ValueFiles, ValuePointer};

use super::begun::BegunFiles;

/// A value file is about so many times as large as a run at most: larger ones give their space back later, smaller ones
/// are many to hold open.
const RUNS_A_FILE: u64 = 8;

/// Writes value files.
pub(crate) struct ValueWriter<'a> {
    state: &'a State,
    /// From so many bytes on a value is kept apart.
    large_bytes: usize,
    file_bytes_max: u64,
    compression: Compression,
    /// The value files that entries of the stream point into.
    known: ValueFiles,
    /// Those whose values are written anew.
    anew: Vec<FileId>,
    current: Option<ValueBuilder>,
    done: Vec<Arc<ValueFile>>,
    is_synced: bool,
    begun: BegunFiles<'a>,
}

impl<'a> ValueWriter<'a> {
    pub(crate) fn new(state: &'a State, table: &TableOptions, is_pending: bool) -> Self {
        Self {
            state,
            large_bytes: match table.large_value_bytes {
                0 => usize::MAX,
                bytes => usize_of32(bytes),
            },
            file_bytes_max: RUNS_A_FILE * table.run_bytes_max,
            compression: table.compression,
            known: ValueFiles::default(),
            anew: Vec::new(),
            current: None,
            done: Vec::new(),
            is_synced: true,
            begun: BegunFiles::new(state, FileKind::Values, is_pending),
        }
    }

    /// The same, for entries that point into `known` files, of which those named `anew` are to be emptied.
    pub(crate) fn over(mut self, known: ValueFiles, anew: Vec<FileId>) -> Self {
        (self.known, self.anew) = (known, anew);
        self
    }

    /// The same, without syncs: the caller makes the files durable.
    pub(crate) fn unsynced(mut self) -> Self {
        self.is_synced = false;
        self
    }

    /// Writes the value of an entry if it is to be kept apart, or elsewhere than it is; says where it is then.
    #[inline]
    pub(crate) fn place(&mut self, entry: &Entry<'_>) -> Result<Option<ValuePointer>> {
        match entry.kind {
            Kind::Put if entry.value.len() >= self.large_bytes => self.write(entry.value).map(Some),
            Kind::PutPointer if !self.anew.is_empty() => self.place_anew(entry.value),
            _ => Ok(None),
        }
    }

    fn place_anew(&mut self, pointer: &[u8]) -> Result<Option<ValuePointer>> {
        if !self.anew.contains(&ValuePointer::decode(pointer)?.file) {
            return Ok(None);
        }
        let value = self.known.read(pointer, Fill::Bypass)?;
        self.write(&value).map(Some)
    }

    fn write(&mut self, value: &[u8]) -> Result<ValuePointer> {
        if self.current.as_ref().is_some_and(|builder| builder.bytes() + u64_of(value.len()) > self.file_bytes_max) {
            self.cut()?;
        }
        let builder = match &mut self.current {
            Some(builder) => builder,
            None => {
                let builder = self.begin()?;
                self.current.insert(builder)
            }
        };
        builder.push(value)
    }

    fn begin(&mut self) -> Result<ValueBuilder> {
        let id = self.begun.begin();
        let mut builder = self.state.files.create_values(id, self.compression)?;
        if !self.is_synced {
            builder.leave_sync();
        }
        self.begun.created(builder.instance());
        Ok(builder.populating(Arc::clone(&self.state.cache)))
    }

    /// Completes the file under way: its bytes are durable, its name is not yet.
    fn cut(&mut self) -> Result<()> {
        let Some(builder) = self.current.take() else { return Ok(()) };
        let instance = builder.instance();
        let id = builder.finish()?;
        self.done.push(self.state.files.open_new_values(id, instance)?);
        Ok(())
    }

    /// Completes all files; those that the entries point into now are among the ones returned.
    pub(crate) fn complete(&mut self) -> Result<ValueFiles> {
        self.cut()?;
        if self.done.is_empty() {
            return Ok(self.known.clone());
        }
        Ok(ValueFiles::new(self.known.iter().chain(&self.done).cloned().collect()))
    }

    /// Waits for the write that is under way.
    pub(crate) fn abandon(&mut self) -> Result<()> {
        self.current.take().map_or(Ok(()), ValueBuilder::abandon)
    }

    /// Removes what was written, from the cache too.
    pub(super) fn discard(self) {
        self.begun.discard();
    }
}
