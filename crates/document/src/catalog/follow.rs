//! Commits that the members of a replica set have agreed on, as they change the catalog: its rows, and what is in
//! memory of them.
//!
//! # Concurrency
//! One thread applies commits, one after the other. What it learns from another member it puts in the place of what is
//! there, whatever transactions hold: theirs do not commit then. A change of this process whose thread did not wait for
//! its fate is one of another member here. The lock of the catalog's changes is not taken: a change of this process
//! that is under way then was proposed in an earlier term, and fails.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spinney::{Batch, Change, Kind};

use super::log_notes;
use super::names::Entry;
use super::namespace::Namespace;
use super::record::{Past, is_own, is_past, past_key, past_of};
use super::registry::Catalog;
use super::row::{self, IndexRow, NUMBER_KEY, Row};
use super::state::{CollectionState, Index, Schema};
use super::tables::{CATALOG, collection_number, collection_table, index_table};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Checks, Document};
use crate::notes::Note;

/// What a commit of another member changes in memory.
#[derive(Debug, Default)]
pub(super) struct Followed {
    number: Option<u64>,
    put: Vec<(Namespace, Row)>,
    gone: Vec<Namespace>,
    past: Vec<Past>,
    /// The numbers of the collections of which documents are written or removed.
    collections: BTreeSet<u64>,
}

impl Catalog {
    /// Adds a change of a commit to a batch, and to what it changes in memory. `table` is the name of its table.
    ///
    /// # Errors
    /// `DataCorruptionDetected` (374) for a row that makes no sense, and for a table that is not there.
    pub(super) fn follow_change(
        &self,
        name: &str,
        change: &Change<'_>,
        batch: &mut Batch,
        followed: &mut Followed,
    ) -> Result<()> {
        let table = self.engine().table(name)?.ok_or_else(|| {
            let what = format!("a commit of the replica set changes table '{name}', which is not here");
            Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, what)
        })?;
        if name != CATALOG {
            if let Some(number) = collection_number(name)
                && matches!(change.kind, Kind::Put | Kind::Delete)
            {
                followed.collections.insert(number);
            }
            batch.change(&table, change);
            return Ok(());
        }
        if is_own(change.key) {
            let what = "a commit of the replica set changes a row of the catalog that each member has for itself";
            return Err(Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, what));
        }
        if is_past(change.key) && change.kind == Kind::Put {
            // The table has another id here.
            let past = self.local_past(change.value)?;
            batch.put(&table, past_key(past.table, past.until), change.value);
            followed.past.push(past);
            return Ok(());
        }
        batch.change(&table, change);
        followed.add_row(change)
    }

    fn local_past(&self, row: &[u8]) -> Result<Past> {
        let wrong = || row::corrupt("#h", "row");
        let row = Document::parse_with(row, Checks::STORED)?;
        let number = row.get("n").and_then(|n| n.as_exact_i64()).ok_or_else(wrong)?;
        let table = self.engine().table(&collection_table(number.cast_unsigned()))?.ok_or_else(wrong)?;
        past_of(table.id(), row).ok_or_else(wrong)
    }

    /// Writes a commit of another member by `write`, and brings memory in line with it. Readers plan before with the
    /// paths that it makes arrays, and no count of its collections begins meanwhile.
    ///
    /// # Errors
    /// What `write` says; `DataCorruptionDetected` (374); those of the engine.
    pub(super) fn follow(&self, followed: Followed, note: &Note, write: impl FnOnce() -> Result<()>) -> Result<()> {
        for (_, row) in &followed.put {
            let Some(state) = row.number.and_then(|number| self.by_number(number)) else { continue };
            let schema = state.schema();
            for index in &row.indexes {
                if let Some(known) = schema.indexes.iter().find(|known| known.number == index.number) {
                    let _row_has_them = known.see_multikey(&index.multikey);
                }
            }
        }
        // In the order of their numbers.
        let states: Vec<_> = followed.collections.iter().filter_map(|number| self.by_number(*number)).collect();
        states.iter().for_each(|state| state.documents.change());
        CollectionState::hold_all(&states, || {
            write()?;
            self.after_commit(followed, note)
        })
    }

    /// Tells those that read the log of a commit that is going to be written by a batch, and has the batch tell at the
    /// next open.
    pub(super) fn writing(&self, note: &Note, position: u64, copies: bool, batch: &mut Batch) {
        if copies {
            log_notes::put_session(batch, &self.table, note, position);
        }
        self.recorder().writing(note.time, position, self.engine().log_end(), batch);
        self.recorder().put_position(batch, &self.table, position, note.time);
    }

    /// After the commit is written: memory is as the rows and the note say.
    pub(super) fn after_commit(&self, mut followed: Followed, note: &Note) -> Result<()> {
        followed.past.drain(..).for_each(|past| self.recorder().ended(past));
        if let Some(number) = followed.number {
            self.next.store(number, Ordering::Relaxed);
        }
        // A transaction may add documents to a collection that it creates.
        self.follow_rows(followed.put, &followed.gone)?;
        self.follow_documents(&followed.collections, note)?;
        for event in &note.events {
            self.follow_event(event.view())?;
        }
        note.session.clone().into_iter().for_each(|session| self.recorder().remember(session));
        Ok(())
    }

    /// A database that another member has dropped: its profile here goes too.
    fn follow_event(&self, event: Document<'_>) -> Result<()> {
        let text = |name| event.get(name).and_then(|value| value.as_str());
        match (text("op"), text("ns")) {
            (Some("dropDatabase"), Some(database)) => self.drop_own_of(database),
            _ => Ok(()),
        }
    }

    /// A commit that this process made was applied, and the thread that made it did not wait for that.
    pub(super) fn after_abandoned(&self, note: &Note) {
        note.session.clone().into_iter().for_each(|session| self.recorder().remember(session));
    }

    /// A number that begins at 1, and from now on grows with each commit of another member of the replica set that
    /// changes one of these collections or their documents: the generation of what is kept in memory of them.
    pub fn generation_of(&self, collections: &[&str]) -> Arc<AtomicU64> {
        let generation = Arc::new(AtomicU64::new(1));
        let namespaces = collections.iter().filter_map(|name| Namespace::parse(name).ok());
        self.watched.lock().extend(namespaces.map(|namespace| (namespace, Arc::clone(&generation))));
        generation
    }

    fn tell_watchers(&self, namespace: &Namespace) {
        let watched = self.watched.lock();
        // Released to those that read the documents when they see another number.
        watched.iter().filter(|(name, _)| name == namespace).for_each(|(_, commits)| {
            commits.fetch_add(1, Ordering::Release);
        });
    }

    /// Adds to the counts of collections what the note says of their documents, and has capped ones look again.
    fn follow_documents(&self, collections: &BTreeSet<u64>, note: &Note) -> Result<()> {
        for (number, difference) in &note.counts {
            if let Some(state) = self.by_number(*number) {
                state.documents.add(*difference);
            }
        }
        for state in collections.iter().filter_map(|number| self.by_number(*number)) {
            self.tell_watchers(&state.schema().namespace);
            if let Some(capped) = &state.capped {
                *capped.lock()? = None;
                capped.committed();
            }
        }
        Ok(())
    }

    fn follow_rows(&self, put: Vec<(Namespace, Row)>, gone: &[Namespace]) -> Result<()> {
        let mut entries = Vec::new();
        let mut kept = Vec::new();
        for (namespace, row) in put {
            kept.extend(row.number);
            entries.push((namespace.clone(), self.followed_entry(namespace, row)?));
        }
        let mut names = self.names.write();
        let mut left = Vec::new();
        for namespace in gone.iter().chain(entries.iter().map(|(namespace, _)| namespace)) {
            if names.get(namespace).is_some_and(Entry::is_own) {
                continue;
            }
            if let Some(Entry::Collection(state)) = names.remove(namespace)
                && !kept.contains(&state.number)
            {
                left.push(state);
            }
        }
        gone.iter().chain(entries.iter().map(|(namespace, _)| namespace)).for_each(|name| self.tell_watchers(name));
        entries.into_iter().for_each(|(namespace, entry)| names.insert(namespace, entry));
        drop(names);
        for state in left {
            let schema = Schema { dropped: true, ..Schema::clone(&state.schema()) };
            state.follow(schema);
            // Those that wait at its end.
            state.capped.iter().for_each(|capped| capped.committed());
        }
        Ok(())
    }

    /// What a row names: the collection that has its number already, with the schema of the row, or a new one.
    fn followed_entry(&self, namespace: Namespace, row: Row) -> Result<Entry> {
        let Some(number) = row.number else { return Ok(Entry::View(Arc::new(row.options))) };
        let Some(state) = self.by_number(number) else {
            let entry = self.load(&namespace, row)?;
            // The commit creates it.
            if let Entry::Collection(state) = &entry {
                state.documents.start_empty();
            }
            return Ok(entry);
        };
        let before = state.schema();
        let (mut indexes, mut damaged) = (Vec::new(), row.damaged.into_iter().map(Arc::new).collect::<Vec<_>>());
        for index in row.indexes {
            // What was damaged stays so.
            match before.damaged.iter().find(|known| known.number == index.number) {
                Some(known) => damaged.push(Arc::clone(known)),
                None => indexes.push(self.followed_index(&state, &before, index)?),
            }
        }
        state.follow(Schema { namespace, uuid: row.uuid, options: row.options, indexes, damaged, dropped: false });
        Ok(Entry::Collection(state))
    }

    fn followed_index(&self, state: &CollectionState, before: &Schema, row: IndexRow) -> Result<Arc<Index>> {
        let Some(known) = before.indexes.iter().find(|known| known.number == row.number) else {
            let table = self.table_of(&before.namespace, &index_table(row.number))?;
            let has_ids = state.capped.is_none();
            let index = Index::new(row.number, table, row.spec, has_ids, row.ready, &row.multikey);
            return Ok(Arc::new(index));
        };
        let _row_has_them = known.see_multikey(&row.multikey);
        known.stored_multikey(&row.multikey);
        let mut index = Arc::clone(known);
        if row.ready && !known.ready {
            index = Arc::new(index.to_ready(self.engine().snapshot().seqnum()));
        }
        if row.spec.document().as_bytes() != known.spec.document().as_bytes() {
            index = Arc::new(index.with_spec(row.spec));
        }
        Ok(index)
    }
}

impl Followed {
    fn add_row(&mut self, change: &Change<'_>) -> Result<()> {
        let wrong = || row::corrupt("", "row");
        match change.kind {
            Kind::Put if change.key == NUMBER_KEY => {
                let number = change.value.first_chunk().ok_or_else(|| row::corrupt("#", "number"))?;
                self.number = Some(u64::from_le_bytes(*number));
            }
            Kind::Put | Kind::Delete => {
                let name = std::str::from_utf8(change.key).map_err(|_| wrong())?;
                let namespace = Namespace::parse(name)?;
                match change.kind {
                    Kind::Put => self.put.push((namespace, row::decode(name, change.value)?)),
                    _ => self.gone.push(namespace),
                }
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }
}
