//! The end of an open: all that it writes, when what there is can be read already. On a full disk it is left to the
//! first write that finds room.
//!
//! # Recovery
//! Until it is done nothing is written, so that what is read is what another open would find: the log was made durable
//! before it was read, no manifest has been appended to, and no position, seqnum or file id that was given out stands
//! anywhere.

use crate::base::{Error, ErrorKind, FileId, Result};
use crate::env::DirEntry;
use crate::log::{LogOptions, LogWriter, RecoveredLog};
use crate::table::manifest::Manifest;

use super::core::Core;
use super::open::remove_strangers;

/// What an open has found and not acted on yet.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(super) recovered: RecoveredLog,
    /// The files in the directory when the open began.
    pub(super) entries: Vec<DirEntry>,
}

impl Core {
    /// Refuses when the database takes no writes. An open that met a full disk is finished first, if there is room now.
    /// No latch is held.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.health.is_unfinished() {
            self.health.check_open()?;
            self.finish_open()?;
            self.wake_flush();
        }
        self.health.check_writable()
    }

    /// Does what is left of an open, or puts it off where the disk is full and the database was there before.
    pub(super) fn end_open(&self, left: Unfinished, exists: bool) -> Result<()> {
        *self.unfinished.lock() = Some(left);
        match self.finish_open() {
            Err(error) if error.kind() == ErrorKind::Full && exists && self.health.check_poison().is_ok() => {
                self.health.put_off();
                Ok(())
            }
            finished => finished,
        }
    }

    /// Does what is left of an open: puts a manifest in force, if none could be, has the log go on in a new segment,
    /// and removes what the manifest does not name.
    ///
    /// # Errors
    /// `Full` when there is no room for the manifest or the segment. Unless the database is poisoned then, nothing was
    /// changed and it may be called again.
    pub(super) fn finish_open(&self) -> Result<()> {
        let mut unfinished = self.unfinished.lock();
        let Some(left) = unfinished.as_mut() else { return Ok(()) };
        self.health.check_open()?;
        self.health.check_poison()?;
        let mut ledger = self.ledger.lock();
        if ledger.manifest.is_none() {
            self.rewrite_manifest(&mut ledger)?;
        }
        drop(ledger);
        let options = LogOptions {
            segment_bytes: self.options.log_segment_bytes,
            direct: self.options.direct_io,
            compression: self.options.log_compression,
        };
        left.recovered.prepare(&self.env, options)?;
        let Some(Unfinished { recovered, entries }) = unfinished.take() else { return Ok(()) };
        // What was taken cannot be taken again.
        self.go_on(options, recovered, &entries).map_err(|error| self.poison(error))
    }

    fn go_on(&self, options: LogOptions, recovered: RecoveredLog, entries: &[DirEntry]) -> Result<()> {
        let log = LogWriter::open(&self.env, &self.log_place.dir, options, recovered)?;
        assert!(self.log.set(log).is_ok(), "the log is opened once");
        self.record_log_place()?;
        self.begin()?;
        self.health.finished();
        // What was replayed is dated, and nothing is shown that has expired meanwhile.
        self.expire_all()?;
        remove_strangers(self, entries);
        Ok(())
    }

    /// Refuses while no manifest of this open is in force, or its end is put off: nothing may be written then.
    pub(super) fn check_begun(&self) -> Result<()> {
        self.health.check_finished()?;
        match self.ledger.lock().manifest {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Full, "there was no room for a new manifest")),
        }
    }

    /// Removes what a lack of space or descriptors left of a manifest that could not be put in force; what is to be
    /// said of it.
    pub(super) fn remove_failed(&self, id: FileId, error: Error) -> Error {
        // What failed may have been the sync of the directory, when the switch was made already.
        let is_other_in_force = || {
            Manifest::in_force(&self.env, &self.dir).is_ok_and(|current| current.is_some_and(|current| current != id))
        };
        if !error.is_unchanged() && (error.kind() != ErrorKind::Full || !is_other_in_force()) {
            return error;
        }
        Manifest::remove(&self.env, &self.dir, id);
        error.unchanged()
    }
}
