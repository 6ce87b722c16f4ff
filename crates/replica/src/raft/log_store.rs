//! The replicated log and the vote as openraft asks for them.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::time::Duration;

use futures_util::{Stream, TryStreamExt, stream};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use spinney::base::codec::{Decoder, Malformed};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::convert::{decode_vote, encode_vote, place, raft_entry, raft_place, stored};
use super::types::{RaftEntry, RaftLogId, RaftVote, Types};
use crate::base::blocking::spawn_blocking;
use crate::storage::log::Log;

/// Bytes of entries in one request to another member, more or less; a larger entry goes alone.
const REQUEST_BYTES: usize = 4 << 20;

/// A write in the thread of the consensus takes no longer, or a worker makes the next ones: a small part of the time
/// between heartbeats.
pub(super) const SLOW: Duration = Duration::from_millis(20);

/// The log of a member.
#[derive(Clone, Debug)]
pub(crate) struct LogStore(pub(crate) Log);

pub(super) fn failed(error: impl ToString) -> io::Error {
    io::Error::other(error.to_string())
}

pub(super) fn senseless(Malformed: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what is stored of the replicated log makes no sense")
}

/// The indexes of a range.
fn indexes(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end.max(start)
}

/// Has the log write what was appended, in this thread.
async fn write(log: Log) {
    loop {
        // Tasks that send the same entries to other members go first: their devices work at the same time as this one.
        yield_now().await;
        let began = Instant::now();
        let more = log.write_here();
        if began.elapsed() >= SLOW {
            log.was_slow();
        }
        if !more {
            return;
        }
    }
}

impl LogStore {
    /// Reads entries; from files by another thread, so that the consensus goes on meanwhile.
    async fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<RaftEntry>> {
        let read = {
            let (log, range) = (self.0.clone(), range.clone());
            move || log.read(range, bytes_max)
        };
        let elsewhere = self.0.reads_files(range.start);
        let entries = if elsewhere { spawn_blocking(read).await.map_err(failed)? } else { read() };
        entries.map_err(failed)?.iter().map(|entry| raft_entry(entry).map_err(senseless)).collect()
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<RaftEntry>, io::Error> {
        self.read(indexes(&range), usize::MAX).await
    }

    async fn entries_stream<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<RaftEntry, io::Error>> + OptionalSend {
        // Not all at once: after a crash there may be many to apply.
        let parts = stream::try_unfold((self.clone(), indexes(&range)), |(log, range)| async move {
            let entries = log.read(range.clone(), REQUEST_BYTES).await?;
            let next = entries.last().map(|last| last.log_id.index + 1);
            Ok::<_, io::Error>(next.map(|next| (stream::iter(entries.into_iter().map(Ok)), (log, next..range.end))))
        });
        parts.try_flatten()
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<RaftEntry>, io::Error> {
        self.read(start..end, REQUEST_BYTES).await
    }

    async fn read_vote(&mut self) -> Result<Option<RaftVote>, io::Error> {
        let Some(vote) = self.0.rows().vote().map_err(failed)? else { return Ok(None) };
        decode_vote(&mut Decoder::new(&vote)).map(Some).map_err(senseless)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let (purged, last) = self.0.ends();
        Ok(LogState { last_purged_log_id: purged.map(raft_place), last_log_id: last.map(raft_place) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &RaftVote) -> Result<(), io::Error> {
        let mut bytes = Vec::new();
        encode_vote(vote, &mut bytes);
        self.0.rows().set_vote(&bytes).map_err(failed)
    }

    async fn save_committed(&mut self, committed: Option<RaftLogId>) -> Result<(), io::Error> {
        // Not on the device: what is applied there is known at the next open.
        committed.iter().for_each(|committed| self.0.committed(place(committed)));
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().map(stored).collect();
        if self.0.append(entries, Box::new(move |written| callback.io_completed(written))) {
            tokio::spawn(write(self.0.clone()));
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<RaftLogId>) -> Result<(), io::Error> {
        self.0.truncate_after(last.as_ref().map(place)).map_err(failed)
    }

    async fn purge(&mut self, log_id: RaftLogId) -> Result<(), io::Error> {
        self.0.purge(place(&log_id)).map_err(failed)
    }
}
