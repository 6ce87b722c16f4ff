//! What the rows of the catalog name, at open; and what is left half done by an earlier process.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::damage::Damage;
use super::names::Entry;
use super::namespace::Namespace;
use super::own::{is_own_number, is_profile};
use super::registry::{Catalog, TEMPORARY_PREFIX, tables_of};
use super::row::{self, Expected, IndexRow, Row};
use super::state::{CollectionState, Index, Schema};
use super::tables::{CATALOG, collection_table, index_table, is_ours, is_spill};
use crate::base::{Error, Result};

impl Catalog {
    /// Takes what the rows name, and returns the tables that they name; nothing when a row does not say which.
    pub(super) fn load_rows(&self, rows: Vec<(Vec<u8>, Vec<u8>)>) -> Result<Option<BTreeSet<String>>> {
        let (read_only, is_member) = (self.engine().is_read_only(), self.committer().is_some());
        let mut tables = Some(BTreeSet::from([CATALOG.to_owned()]));
        for (name, bytes) in rows {
            // No command can name it, and it stays where it is.
            let Some(namespace) = std::str::from_utf8(&name).ok().and_then(|name| Namespace::parse(name).ok()) else {
                tables = None;
                continue;
            };
            if namespace.collection().starts_with(TEMPORARY_PREFIX) && !is_member {
                if read_only {
                    continue;
                }
                // Its tables are dropped below, as no row names them.
                self.commit(None, |txn, _| self.remove_row(txn, &namespace, Expected::Any))?;
                continue;
            }
            let loaded = row::decode(namespace.as_str(), &bytes).and_then(|row| {
                let has_unfinished = row.indexes.iter().any(|index| !index.ready);
                Ok((self.load(&namespace, row)?, has_unfinished))
            });
            let entry = match loaded {
                Ok((entry, has_unfinished)) => {
                    if let Entry::Collection(state) = &entry
                        && has_unfinished
                        && !is_member
                        && !read_only
                    {
                        let schema = state.schema();
                        self.commit(None, |txn, _| self.change_row(txn, state.number, (&schema, &schema)))?;
                    }
                    entry
                }
                Err(error) => damaged(&namespace, &bytes, error, false)?,
            };
            match tables_of_entry(&entry) {
                Some(named) => tables.iter_mut().for_each(|tables| tables.extend(named.iter().cloned())),
                None => tables = None,
            }
            self.names.write().insert(namespace, entry);
        }
        Ok(tables)
    }

    /// Drops tables that no row names; those of collections and indexes only where no set decides on them, and where
    /// all rows say which those are.
    pub(super) fn drop_left(&self, named: Option<&BTreeSet<String>>) -> Result<()> {
        for table in self.engine().tables()? {
            let name = table.name();
            let is_left = |name: &str| {
                is_ours(name) && self.committer().is_none() && named.is_some_and(|named| !named.contains(name))
            };
            if is_spill(name) || is_left(name) {
                self.engine().drop_table(name)?;
            }
        }
        Ok(())
    }

    /// Drops what an earlier process or primary has left half done: collections that were filled to replace others,
    /// indexes that were not built to their end, tables that no row names. For a database with a committer, before any
    /// other change; else it is done at open.
    ///
    /// # Errors
    /// Those of the committer and of the engine.
    pub fn clean_up(&self) -> Result<()> {
        for (namespace, entry) in self.list(None) {
            let Entry::Collection(state) = entry else { continue };
            // Each member has its own profiles now.
            let is_of_the_set = is_profile(&namespace) && !is_own_number(state.number);
            if namespace.collection().starts_with(TEMPORARY_PREFIX) || is_of_the_set {
                self.drop_namespace(&namespace)?;
                continue;
            }
            let schema = state.schema();
            let unfinished: Vec<u64> = schema.others().filter(|index| !index.ready).map(|index| index.number).collect();
            if !unfinished.is_empty() {
                self.drop_indexes(&state, &unfinished)?;
            }
        }
        let _changing = self.begin_change()?;
        let mut known = BTreeSet::new();
        for (_, entry) in self.list(None) {
            // A row that does not say which tables it names may name any of them.
            let Some(tables) = tables_of_entry(&entry) else { return Ok(()) };
            known.extend(tables);
        }
        for table in self.engine().tables()? {
            if is_ours(table.name()) && !known.contains(table.name()) {
                self.drop_table(table.name())?;
            }
        }
        Ok(())
    }

    /// What a row names. Without a committer indexes are left out that were not built to their end.
    pub(super) fn load(&self, namespace: &Namespace, row: Row) -> Result<Entry> {
        let Some(number) = row.number else { return Ok(Entry::View(Arc::new(row.options))) };
        let table = self.table_of(namespace, &collection_table(number))?;
        let (has_ids, is_member) = (row.options.capped.is_none(), self.committer().is_some());
        let (mut indexes, mut damaged) = (Vec::new(), row.damaged);
        for index in row.indexes.into_iter().filter(|index| index.ready || is_member) {
            match self.engine().table(&index_table(index.number))? {
                Some(table) => {
                    let IndexRow { number, spec, ready, multikey, .. } = index;
                    indexes.push(Arc::new(Index::new(number, table, spec, has_ids, ready, &multikey)));
                }
                // That of `_id` of a capped collection is needed for everything.
                None if index.spec.is_id() => return Err(row::corrupt(namespace.as_str(), &index_table(index.number))),
                None => damaged.push(index.without_table()),
            }
        }
        let (namespace, uuid, options) = (namespace.clone(), row.uuid, row.options);
        let damaged = damaged.into_iter().map(Arc::new).collect();
        let schema = Schema { namespace, uuid, options, indexes, damaged, dropped: false };
        Ok(Entry::Collection(Arc::new(CollectionState::new(number, table, schema))))
    }

    /// What is damaged, a sentence each that says what to do: collections, views and indexes.
    #[must_use]
    pub fn damages(&self) -> Vec<(Namespace, String)> {
        let mut found = Vec::new();
        for (namespace, entry) in self.list(None) {
            match entry {
                Entry::Damaged(damage) => found.push((namespace, damage.error.message().to_owned())),
                Entry::Collection(state) => {
                    let schema = state.schema();
                    let sentences = schema.damaged.iter().map(|damaged| damaged.sentence(&namespace));
                    found.extend(sentences.map(|sentence| (namespace.clone(), sentence)));
                }
                Entry::View(_) => {}
            }
        }
        found
    }
}

/// The tables that a collection's row names; nothing when it does not say which.
fn tables_of_entry(entry: &Entry) -> Option<Vec<String>> {
    match entry {
        Entry::Collection(state) => Some(tables_of(state, &state.schema())),
        Entry::View(_) => Some(Vec::new()),
        Entry::Damaged(damage) => damage.tables().cloned(),
    }
}

/// What cannot be used for a reason that is in its row, and not in the files of the catalog.
///
/// # Errors
/// Other errors.
pub(super) fn damaged(namespace: &Namespace, row: &[u8], error: Error, is_own: bool) -> Result<Entry> {
    // That of a file which cannot be read is the engine's.
    if std::error::Error::source(&error).is_some_and(|source| source.is::<spinney::Error>()) {
        return Err(error);
    }
    Ok(Entry::Damaged(Arc::new(Damage::new(namespace.as_str(), row, &error, is_own))))
}
