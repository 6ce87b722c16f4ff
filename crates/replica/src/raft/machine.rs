//! The database as the state machine of openraft.

use std::io;

use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use tokio::sync::oneshot;

use super::convert::{raft_place, stored, stored_members};
use super::log_store::{failed, senseless};
use super::types::{RaftLogId, Snapshot, SnapshotMeta, StoredMembers, Types};
use crate::storage::applier::Applier;

/// Entries that are applied by one turn of the applying thread.
const ENTRIES_MAX: usize = 256;

/// The database as a state machine: it is durable by itself, so that a snapshot is no more than its place. What another
/// member needs of it is copied when it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Machine(pub(crate) Applier);

impl Machine {
    fn state(&self) -> io::Result<(Option<RaftLogId>, StoredMembers)> {
        let applied = self.0.rows().applied().map_err(failed)?;
        let members = stored_members(self.0.rows().members().map_err(failed)?).map_err(senseless)?;
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
            let (done, applied) = oneshot::channel();
            self.0.apply(entries, Box::new(move |result| drop(done.send(result))));
            applied.await.map_err(failed)??;
            answered.into_iter().flatten().for_each(|responder| responder.send(()));
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
