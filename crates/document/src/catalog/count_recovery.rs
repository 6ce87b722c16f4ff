//! Counts of documents stored now and then, and found again at open.
//!
//! # Recovery
//! Each commit's note says what it adds to the counts. A row holds together with the notes of the commits that are
//! newer than it, all of which stand in the log behind the mark's position. Collections that came later had no
//! documents then. So the rows are of use when the log has that position and the commit that wrote the mark, which a
//! copy of a database does not have; and when the mark is the last of a database that was closed, which is replaced
//! before anything else is written. Else the documents of a collection are counted when that is first asked for. A copy
//! for a member of a replica set is told its counts (`copy.rs`), and begins with such a mark.
//!
//! # Concurrency
//! A transaction marks a collection as changed before it commits. Rows are stored by one thread at a time: it reads the
//! end of the log first, then looks for collections that are marked, and waits for each until no transaction that
//! writes to it is open. A collection whose transactions take too long has no row until the next time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use spinney::{Batch, ChangeFeed, Commit, ErrorKind, SeqNum, prefix_range};

use super::counts::{COUNTS, CopiedCounts, Mark, key_of, number_of, numbers_of, pair};
use super::names::Entry;
use super::own::is_own_number;
use super::registry::Catalog;
use super::state::{AtRest, COUNT_WAIT, CollectionState};
use crate::base::Result;
use crate::notes::Note;

/// How much log there may be behind the mark.
const LOG_BYTES: u64 = 16 << 20;

/// How long a collection's transactions are waited for while others are waiting.
const WAIT: Duration = Duration::from_millis(10);

/// What rows say: the number of a collection, that of its documents, and the newest change of then.
type KnownCounts = BTreeMap<u64, (i64, SeqNum)>;

/// Counts that were just stored.
#[derive(Debug)]
pub(super) struct StoredCounts {
    known: KnownCounts,
    /// The next number of a table.
    next: u64,
    /// The commits since, and some before.
    since: ChangeFeed,
}

/// Adds what a commit has added to collections, if it is newer than their rows.
fn add_differences(commit: &Commit, known: &KnownCounts, next: u64, differences: &mut BTreeMap<u64, i64>) {
    let Some(note) = Note::decode(commit.note()) else { return };
    for (number, difference) in note.counts {
        if known.get(&number).map_or(number >= next, |(_, newest)| commit.seqnum > *newest) {
            *differences.entry(number).or_default() += difference;
        }
    }
}

impl Catalog {
    /// Takes the counts of collections from the rows, if they are of use, at open.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn recover_counts(&self) -> Result<()> {
        let stored = self.table.get(COUNTS)?;
        let Some(stored) = stored.as_deref() else { return Ok(()) };
        // Malformed rows are of no use.
        let (Some(mark), Some(mut known)) = (Mark::decode(stored), self.known_counts()?) else {
            return self.forget_counts();
        };
        let read_only = self.engine().is_read_only();
        let mut changed = BTreeMap::new();
        if !mark.is_last && (read_only || !self.read_differences(mark, &known, &mut changed)?) {
            return self.forget_counts();
        }
        for state in self.collections() {
            let (count, is_new) = match known.remove(&state.number) {
                Some((count, _)) => (count, false),
                None if state.number >= mark.next => (0, true),
                None => continue,
            };
            let difference = changed.get(&state.number).copied();
            state.documents.start(count + difference.unwrap_or_default());
            if is_new || difference.is_some() {
                state.documents.change();
            }
        }
        if read_only {
            return Ok(());
        }
        // Of collections that were dropped.
        let mut batch = Batch::new();
        known.keys().for_each(|number| batch.delete(&self.table, key_of(*number)));
        self.store_counts(batch, WAIT, false).map(drop)
    }

    /// Removes rows that are of no use: documents are counted when that is first asked for.
    fn forget_counts(&self) -> Result<()> {
        if self.engine().is_read_only() {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.delete_range(&self.table, prefix_range(COUNTS));
        Ok(self.engine().write(&batch)?)
    }

    /// What the rows say; nothing when one is malformed.
    fn known_counts(&self) -> Result<Option<KnownCounts>> {
        let (mut rows, mut known) = (self.table.prefix(format!("{COUNTS}-")), BTreeMap::new());
        while let Some((key, row)) = rows.advance()? {
            let Some((number, (count, newest))) = number_of(key).zip(numbers_of(row)) else { return Ok(None) };
            known.insert(number, (count.cast_signed(), SeqNum(newest)));
        }
        Ok(Some(known))
    }

    /// Adds up what commits that are newer than the rows have added to collections; whether the log has them all.
    fn read_differences(&self, mark: Mark, known: &KnownCounts, differences: &mut BTreeMap<u64, i64>) -> Result<bool> {
        let engine = self.engine();
        let feed = match engine.changes(mark.position) {
            Ok(feed) => feed,
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Invalid) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let (next, mark, mut is_met) = (mark.next, mark.encode(), false);
        for commit in feed {
            let commit = match commit {
                Ok(commit) => commit,
                Err(error) if error.kind() == ErrorKind::Gone => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let marks = |change: &spinney::Change<'_>| change.table == self.table.id() && change.value == mark;
            is_met = is_met || commit.changes().iter().any(|change| marks(change) && change.key == COUNTS.as_bytes());
            add_differences(&commit, known, next, differences);
        }
        Ok(is_met)
    }

    /// Stores the counts, and keeps the log from here on for [`Self::counts_at`].
    pub(super) fn store_counts_for_copy(&self) -> Result<StoredCounts> {
        let since = self.engine().changes(self.engine().log_end())?;
        let _storing = self.counts.storing.lock();
        let next = self.store_counts(Batch::new(), COUNT_WAIT, false)?.next;
        Ok(StoredCounts { known: self.known_counts()?.unwrap_or_default(), next, since })
    }

    /// The counts of the moment behind the change `newest`, of the collections of which they are known.
    pub(super) fn counts_at(&self, newest: SeqNum, stored: StoredCounts) -> Result<CopiedCounts> {
        let StoredCounts { mut known, next, since } = stored;
        // The feed has what is durable.
        self.engine().sync()?;
        let mut differences = BTreeMap::new();
        for commit in since {
            match commit {
                Ok(commit) if commit.seqnum > newest => break,
                Ok(commit) => add_differences(&commit, &known, next, &mut differences),
                // It took so long that the log could not be kept.
                Err(error) if error.kind() == ErrorKind::Gone => return Ok(CopiedCounts::default()),
                Err(error) => return Err(error.into()),
            }
        }
        for (number, difference) in differences {
            known.entry(number).or_insert((0, newest)).0 += difference;
        }
        let counts = known.into_iter().map(|(number, (count, _))| (number, count.cast_unsigned()));
        Ok(CopiedCounts { counts: counts.collect(), next })
    }

    /// Stores what the next open would else have to read in the log, when that is much: counts, and what sessions did.
    pub fn store_when_due(&self) {
        self.store_counts_when_due();
        self.recorder().store_notes_when_due(self.engine(), &self.table, || self.random());
    }

    /// Stores the counts when there is much log behind the mark, or the log before it is given up.
    fn store_counts_when_due(&self) {
        let (engine, position) = (self.engine(), self.counts.position.load(Ordering::Relaxed));
        let is_due = engine.log_end().0.saturating_sub(position) >= LOG_BYTES || engine.log_start().0 > position;
        if !is_due || engine.is_read_only() {
            return;
        }
        if let Some(_storing) = self.counts.storing.try_lock() {
            // The next operation tells what is wrong with the engine.
            drop(self.store_counts(Batch::new(), WAIT, false));
        }
    }

    /// Stores counts that have changed, with what else the batch has. Other threads must not do it at the same time.
    fn store_counts(&self, mut batch: Batch, wait: Duration, is_last: bool) -> Result<Mark> {
        let engine = self.engine();
        // Before the marks of collections are looked at: commits up to here have set theirs.
        let position = engine.log_end();
        let next = self.stored_number()?;
        for state in self.collections() {
            if !state.documents.take_changed() {
                continue;
            }
            let key = key_of(state.number);
            match state.at_rest(engine, wait)? {
                Some(AtRest { count: Some(count), snapshot, .. }) => {
                    batch.put(&self.table, key, pair(count.cast_unsigned(), snapshot.seqnum().0));
                }
                Some(_) => batch.delete(&self.table, key),
                None => {
                    batch.delete(&self.table, key);
                    state.documents.change();
                }
            }
        }
        let mark = Mark { position, random: self.random(), next, is_last };
        batch.put(&self.table, COUNTS, mark.encode());
        engine.write(&batch)?;
        self.counts.position.store(position.0, Ordering::Relaxed);
        Ok(mark)
    }

    /// Stores the counts for the next open: nothing is written after this.
    pub(super) fn store_last_counts(&self) {
        if !self.engine().is_read_only() && !self.collections().is_empty() {
            // What is closed already, or cannot be written, is counted again.
            drop(self.store_counts(Batch::new(), COUNT_WAIT, true));
        }
    }

    fn collections(&self) -> Vec<Arc<CollectionState>> {
        let names = self.names.read();
        let states = names.iter().filter_map(|(_, entry)| match entry {
            // Those that a member has for itself are small, and their commits have no notes.
            Entry::Collection(state) if !is_own_number(state.number) => Some(Arc::clone(state)),
            _ => None,
        });
        states.collect()
    }
}
