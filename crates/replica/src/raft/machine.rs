//! The database as the state machine of openraft.

use std::io;

use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::convert::{raft_place, stored, stored_members};
use super::log_store::{SLOW, failed, senseless};
use super::types::{RaftLogId, Snapshot, SnapshotMeta, StoredMembers, Types};
use crate::entry::log_entry::LogEntry;
use crate::storage::applier::Applier;
use crate::storage::log::Log;

/// Entries that are applied by one turn of the applying thread.
const ENTRIES_MAX: usize = 256;

/// How many times in a row the worker applies entries after it took long to apply some in the thread of the consensus.
const SLOW_TIMES: u32 = 64;

/// How often the log gets its turn before entries are applied here.
const TURNS_MAX: usize = 8;

/// The database as a state machine: it is durable by itself, so that a snapshot is no more than its place. What another
/// member needs of it is copied when it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    applier: Applier,
    log: Log,
    /// How many times the worker applies entries yet, since it took long here.
    slow: u32,
}

impl Machine {
    pub(super) fn new(applier: Applier, log: Log) -> Self {
        Self { applier, log, slow: 0 }
    }

    /// Applies entries, in this thread where that is quick. `awaited` when this member proposed some of them.
    async fn apply_entries(&mut self, entries: Vec<LogEntry>, awaited: bool) -> io::Result<()> {
        if !awaited {
            self.let_log_be_written().await;
        }
        self.slow = self.slow.saturating_sub(1);
        // What is going to be synced in this thread is for others: what is awaited here is applied meanwhile.
        if self.slow == 0 && !self.log.waits_for_caller() {
            let began = Instant::now();
            let applied = self.applier.apply_here(&entries)?;
            if began.elapsed() >= SLOW {
                self.slow = SLOW_TIMES;
            }
            if applied {
                return Ok(());
            }
        }
        let (done, applied) = oneshot::channel();
        self.applier.apply(entries, Box::new(move |result| drop(done.send(result))));
        applied.await.map_err(failed)?
    }

    /// Lets the log write what this thread is going to write, and the primary hear of it: it waits for that, and nobody
    /// waits here for what is applied.
    async fn let_log_be_written(&self) {
        for _ in 0..TURNS_MAX {
            let written = !self.log.waits_for_caller();
            yield_now().await;
            if written {
                return;
            }
        }
    }

    fn state(&self) -> io::Result<(Option<RaftLogId>, StoredMembers)> {
        let applied = self.applier.rows().applied().map_err(failed)?;
        let members = stored_members(self.applier.rows().members().map_err(failed)?).map_err(senseless)?;
        Ok((applied.map(raft_place), members))
    }

    fn snapshot(&self) -> io::Result<Snapshot> {
        let (last_log_id, last_membership) = self.state()?;
        Ok(Snapshot { meta: SnapshotMeta { last_log_id, last_membership }, snapshot: () })
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    type SnapshotData = ();

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        self.snapshot()
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = ();
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<RaftLogId>, StoredMembers), io::Error> {
        self.state()
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        let mut chunks = entries.ready_chunks(ENTRIES_MAX);
        while let Some(chunk) = chunks.next().await {
            let (mut entries, mut answered) = (Vec::with_capacity(chunk.len()), Vec::with_capacity(chunk.len()));
            for item in chunk {
                let (entry, responder) = item?;
                entries.push(stored(entry));
                answered.push(responder);
            }
            let awaited = answered.iter().any(Option::is_some);
            self.apply_entries(entries, awaited).await?;
            if !self.applier.disagrees() {
                answered.into_iter().flatten().for_each(|responder| responder.send(()));
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, _meta: &SnapshotMeta, _snapshot: ()) -> Result<(), io::Error> {
        // A copy of another member's database takes the place of this one while it is closed.
        Err(io::Error::new(io::ErrorKind::Unsupported, "a snapshot is not installed in an open database"))
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        let snapshot = self.snapshot()?;
        Ok(snapshot.meta.last_log_id.is_some().then_some(snapshot))
    }
}
