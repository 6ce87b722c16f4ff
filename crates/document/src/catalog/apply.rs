//! Commits that the members of a replica set have agreed on, applied on each member.

use std::collections::BTreeMap;

use spinney::{Batch, Durability, Layout, StoredNote, TableId, decode_record};

use super::committer::{Heard, Pending, PreparedCommit};
use super::follow::Followed;
use super::registry::{Catalog, known_tables};
use super::tables::table_options;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Timestamp;
use crate::notes::Note;

/// A commit that the members of a replica set have agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Agreed<'a> {
    /// The bytes of [`PreparedCommit::record`].
    pub record: &'a [u8],
    /// The names of the tables by their ids in the record: [`PreparedCommit::tables`].
    pub tables: &'a [(TableId, String)],
    /// Its place in the order of the set, the same on each member and greater than those of all commits before.
    pub position: u64,
    /// The note of the redo log that has the record, and where the record begins there, for
    /// [`Batch::repeat`]: the log then has the changes once. It changes nothing else.
    pub stored: Option<(&'a StoredNote, usize)>,
}

impl Catalog {
    /// Applies a commit that the members of a replica set have agreed on: all members apply the same commits in the
    /// same order, one at a time. When this returns readers see it, and collections, counts, sessions, change streams
    /// and tailable cursors know of it. It is synced within the engine's [`interval`](spinney::Options::interval); what
    /// a crash takes back is applied again.
    ///
    /// `own` is the commit as it was prepared in this process, if it was and is still held: it is taken when it is
    /// applied, and keeps its locks when it is not. `add` adds to the batch what is to be stored with it in tables of
    /// the caller, such as how far the member has applied.
    ///
    /// # Errors
    /// `DataCorruptionDetected` (374) for a record that makes no sense or a table that is not there: the member has no
    /// use for later commits then. Those of the engine: `OutOfDiskSpace` changes nothing, and the same commit may be
    /// applied later.
    pub fn apply(
        &self,
        commit: &Agreed<'_>,
        own: &mut Option<PreparedCommit>,
        add: impl FnOnce(&mut Batch),
    ) -> Result<()> {
        let (changes, bytes) = decode_record(commit.record)?;
        let note = match bytes {
            [] => Note::default(),
            bytes => Note::decode(bytes)
                .filter(|note| note.position.is_none() && note.time != Some(Timestamp::default()))
                .ok_or_else(|| corrupt("note"))?,
        };
        let names: BTreeMap<TableId, &str> = commit.tables.iter().map(|(id, name)| (*id, &**name)).collect();
        let engine = self.engine();
        let (mut batch, mut followed) = (Batch::new(), Followed::default());
        for change in &changes {
            let name = names.get(&change.table).ok_or_else(|| corrupt("name of a table"))?;
            self.follow_change(name, change, &mut batch, &mut followed)?;
        }
        add(&mut batch);
        batch.note(Note::with_position(bytes, commit.position));
        // The primary may have more memory than this member.
        batch.exceeds_memory();
        let mut write = || {
            let copies = self.recorder().copies();
            self.writing(&note, commit.position, *copies > 0, &mut batch);
            if let Some((stored, at)) = commit.stored {
                batch.repeat(stored, at..at + commit.record.len());
            }
            engine.write_with(&batch, Durability::Interval)?;
            self.recorder().written(engine, note.time);
            Ok(())
        };
        let _unknown = self.recorder().applying(engine);
        if own.is_some() {
            write()?;
            match own.take().map(PreparedCommit::applied) {
                Some(Heard::NotByChange) => self.after_commit(followed, &note)?,
                Some(Heard::NotByWriter) => self.after_abandoned(&note),
                Some(Heard::ByItsThread) | None => {}
            }
        } else {
            self.follow(followed, &note, write)?;
            self.store_when_due();
        }
        self.recorder().advance_position(commit.position);
        Ok(())
    }

    /// Has the set agree on a commit that changes nothing and is later than a time: a member that has applied it has
    /// all up to the time. To be called on the primary. Where there is no set nothing is done.
    ///
    /// # Errors
    /// `InvalidOptions` (72) for a time that is further ahead of the time of day than any that a client may tell; those
    /// of the committer.
    pub fn pass(&self, time: Timestamp) -> Result<()> {
        let (Some(committer), recorder) = (self.committer(), self.recorder()) else { return Ok(()) };
        if time > recorder.far_ahead() {
            let what = "the time is more than a day ahead of the time of day of the primary";
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        }
        recorder.clock().advance(time);
        let mut txn = self.engine().begin();
        recorder.note(&mut txn, &Note { time: Some(time), ..Note::default() });
        // Nothing depends on its fate.
        committer.commit(Pending::new(txn, None, Some(Box::new(|| {}))))
    }

    /// Applies the creation of a table that the members of a replica set have agreed on; nothing when it is there.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn apply_create_table(&self, name: &str, layout: Layout) -> Result<()> {
        if self.engine().table(name)?.is_none() {
            self.engine().create_table(name, table_options(layout))?;
        }
        Ok(())
    }

    /// Applies that tables are dropped, of which some or all may be gone. What was applied before is durable first, so
    /// that nothing that changes the tables is applied again after a crash.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn apply_drop_tables<N: AsRef<str>>(&self, names: &[N]) -> Result<()> {
        let known = known_tables(self.engine(), names)?;
        if !known.is_empty() {
            self.engine().sync()?;
            self.engine().drop_tables(known)?;
        }
        Ok(())
    }
}

fn corrupt(what: &str) -> Error {
    let what = format!("a commit of the replica set has no usable {what}");
    Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, what)
}
