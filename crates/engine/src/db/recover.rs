//! Recovery: the log's commits that are not in the trees yet go back into memtables.
//!
//! A change is replayed when its table still exists and its record stands at or after the table's replay position. Replay does not
//! write to the log, so a crash in the middle of it, at any time, leaves everything as it was or with some memtables flushed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{Error, ErrorKind, Lsn, Result, SeqNum, TableId};
use crate::log::{self, LogOptions, LogWriter};
use crate::tree::erasure::Erasure;

use super::core::{Core, TableState};
use super::database::OnReplay;
use super::log::read_record;

impl Core {
    /// Replays the log and opens it for new commits.
    pub(crate) fn recover(&self, on_replay: Option<&OnReplay>) -> Result<()> {
        let dir = self.log_place.dir.clone();
        // Only the one in the database's directory can be missing here.
        self.env.fs.create_dir_all(&dir).map_err(|error| Error::io("create directory", &dir, error))?;
        let tables = self.replayed_tables();
        // There are no snapshots: what a flush meanwhile writes is seen by all that come.
        self.snapshots.publish(SeqNum(self.commit.lock().next_seqnum.0.saturating_sub(1)));
        let (from, durable) = {
            let ledger = self.ledger.lock();
            (ledger.catalog.log_from, ledger.catalog.log_durable())
        };
        let mut flushed = Ok(());
        let mut last = SeqNum::ZERO;
        let mut tell = |progress| on_replay.into_iter().for_each(|told| told(progress));
        let recovered =
            log::recover_telling(&self.env, &dir, self.database_id, from, &mut tell, &mut |start, end, payload| {
                let next = read_record(&dir, start, payload, |seqnum, change| {
                    if let Some((table, replay_from)) = tables.get(&change.table)
                        && start >= *replay_from
                    {
                        let active = Arc::clone(&table.version.load().active);
                        match change.entry(seqnum) {
                            Some(entry) => active.replay(start, &entry),
                            None => {
                                active.note(start);
                                let range = change.range();
                                range.into_iter().for_each(|range| table.erase(&Erasure { range, seqnum }));
                            }
                        }
                    }
                    Ok(())
                })?;
                last = last.max(next);
                self.replayed_to.store(end.0, Ordering::Relaxed);
                flushed = self.keep_replay_small(&tables, last);
                if flushed.is_err() { Err(Error::new(ErrorKind::Closed, "a flush failed")) } else { Ok(()) }
            });
        flushed?;
        let recovered = recovered.and_then(|recovered| recovered.check_reaches(durable).map(|()| recovered));
        let recovered = recovered.map_err(|error| self.advise_salvage(error))?;
        let options = LogOptions {
            segment_bytes: self.options.log_segment_bytes,
            direct: self.options.direct_io,
            compression: self.options.log_compression,
            padding: self.options.log_padding,
        };
        let log = LogWriter::open(&self.env, &dir, options, recovered)?;
        assert!(self.log.set(log).is_ok(), "the log is opened once");
        let mut commit = self.commit.lock();
        commit.next_seqnum = commit.next_seqnum.max(last);
        Ok(())
    }

    /// Says what to do about a damaged log.
    fn advise_salvage(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Corruption {
            return error;
        }
        let dir = self.dir.display();
        error.advice(format_args!("to go on with what is before the damage, run spinney salvage {dir}"))
    }

    /// The tables by id, each with the position from which its changes are replayed.
    fn replayed_tables(&self) -> BTreeMap<TableId, (Arc<TableState>, Lsn)> {
        let ledger = self.ledger.lock();
        let tables = self.all_tables().into_iter();
        tables.map(|table| (table.id, (Arc::clone(&table), ledger.catalog.tables[&table.id].replay_from))).collect()
    }

    /// Counts what memtables grew by, and flushes them when they are full. All changes before `next` are replayed.
    fn keep_replay_small(&self, tables: &BTreeMap<TableId, (Arc<TableState>, Lsn)>, next: SeqNum) -> Result<()> {
        let mut full = false;
        for (table, _) in tables.values() {
            full |= self.memory.count(&table.version.load().active) || table.has_many_erasures();
        }
        if full {
            let mut commit = self.commit.lock();
            commit.next_seqnum = commit.next_seqnum.max(next);
            drop(commit);
            for (table, _) in tables.values() {
                self.rotate(&mut self.commit.lock(), table);
                self.flush(table)?;
            }
        }
        Ok(())
    }
}
