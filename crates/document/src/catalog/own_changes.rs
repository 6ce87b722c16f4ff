//! Changes of the collections that a member of a replica set has for itself: see the file `own.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use spinney::{Durability, Transaction};

use super::index_spec::IndexSpec;
use super::load::damaged;
use super::names::Entry;
use super::namespace::Namespace;
use super::options::CollectionOptions;
use super::own::{is_own_number, is_profile};
use super::registry::{Catalog, tables_of};
use super::row;
use super::state::{CollectionState, Index, Schema};
use super::tables::{OWN_CATALOG, collection_table, index_table, own_number, table_options};
use crate::base::{Error, ErrorCode, Result};

impl Entry {
    /// Whether it is a collection that a member of a replica set has for itself.
    pub(super) fn is_own(&self) -> bool {
        match self {
            Self::Collection(state) => is_own_number(state.number),
            Self::Damaged(damage) => damage.is_own,
            Self::View(_) => false,
        }
    }
}

impl Catalog {
    /// Reads what collections there are, and drops tables that no row names.
    pub(super) fn open_own(&self) -> Result<()> {
        let mut own = self.own.lock();
        own.rows = self.engine().table(OWN_CATALOG)?;
        let mut tables = BTreeSet::new();
        let mut rows = own.rows.iter().map(|rows| rows.range(..)).collect::<Vec<_>>();
        for rows in &mut rows {
            while let Some((key, row)) = rows.advance()? {
                let name = std::str::from_utf8(key).ok().and_then(|name| Namespace::parse(name).ok());
                // No command can name it.
                let Some(namespace) = name else { continue };
                let loaded = row::decode(namespace.as_str(), row).and_then(|row| match row.number {
                    Some(number) if is_own_number(number) => self.load(&namespace, row),
                    _ => Err(row::corrupt(namespace.as_str(), "n")),
                });
                // A profile that is damaged is dropped with its tables, or without them: they hold nothing else.
                let entry = loaded.or_else(|error| damaged(&namespace, row, error, true))?;
                if let Entry::Collection(state) = &entry {
                    tables.extend(tables_of(state, &state.schema()));
                }
                // One that the set has agreed on, by a program that knew no others, is in the way of it.
                let mut names = self.names.write();
                if names.get(&namespace).is_none() {
                    names.insert(namespace, entry);
                }
            }
        }
        drop(rows);
        for table in self.engine().tables()? {
            let Some(number) = own_number(table.name()) else { continue };
            own.numbers = own.numbers.max(number);
            if !tables.contains(table.name()) && !self.engine().is_read_only() {
                self.engine().drop_table(table.name())?;
            }
        }
        Ok(())
    }

    /// Whether a collection that is created is one that the member has for itself.
    pub(super) fn is_created_own(&self, namespace: &Namespace) -> bool {
        self.committer().is_some() && is_profile(namespace)
    }

    /// Creates a collection that the member has for itself, unless there is one.
    pub(super) fn create_own(&self, namespace: &Namespace, options: CollectionOptions) -> Result<Entry> {
        if options.capped.is_none() {
            let what = format!("{namespace} must be a capped collection on a member of a replica set");
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        }
        let mut own = self.own.lock();
        if let Some(entry) = self.find(namespace).filter(|entry| entry.has_options(&options)) {
            return Ok(entry);
        }
        self.check_new(namespace)?;
        let (number, index) = (own.take_number(), own.take_number());
        let options_of_tables = table_options(options.storage.layout);
        let table = self.engine().create_table(&collection_table(number), options_of_tables.clone())?;
        let index_table = self.engine().create_table(&index_table(index), options_of_tables)?;
        let spec = IndexSpec::of_id(options.collation.as_deref());
        let indexes = vec![Arc::new(Index::new(index, index_table, spec, false, true, &[]))];
        let uuid = self.new_uuid();
        let schema =
            Schema { namespace: namespace.clone(), uuid, options, indexes, damaged: Vec::new(), dropped: false };
        let state = Arc::new(CollectionState::new(number, table, schema));
        state.documents.start_empty();
        own.put_row(self.engine(), &state, &state.schema())?;
        let entry = Entry::Collection(state);
        self.names.write().insert(namespace.clone(), entry.clone());
        Ok(entry)
    }

    /// Changes options of a collection that the member has for itself.
    pub(super) fn modify_own(
        &self,
        state: &CollectionState,
        change: impl FnOnce(&mut Schema) -> Result<()>,
    ) -> Result<()> {
        let mut own = self.own.lock();
        state.change(self.change_wait(), |schema| {
            let mut changed = schema.clone();
            change(&mut changed)?;
            own.put_row(self.engine(), state, &changed)?;
            Ok((changed, ()))
        })
    }

    /// Drops a collection that the member has for itself. A transaction that writes to it does not commit.
    pub(super) fn drop_own(&self, namespace: &Namespace, state: &CollectionState) -> Result<()> {
        let mut own = self.own.lock();
        let schema = state.schema();
        if schema.dropped {
            return Ok(());
        }
        let mut txn = self.engine().begin();
        txn.delete(own.rows(self.engine())?, namespace.as_str())?;
        txn.commit_with(Durability::Sync)?;
        self.names.write().remove(namespace);
        let tables = tables_of(state, &schema);
        state.follow(Schema { dropped: true, ..Schema::clone(&schema) });
        state.capped.iter().for_each(|capped| capped.committed());
        Ok(self.engine().drop_tables(tables)?)
    }

    /// Drops a damaged collection that the member has for itself. Its tables go at the next open.
    pub(super) fn drop_own_row(&self, namespace: &Namespace) -> Result<()> {
        let mut own = self.own.lock();
        let mut txn = self.engine().begin();
        txn.delete(own.rows(self.engine())?, namespace.as_str())?;
        txn.commit_with(Durability::Sync)?;
        self.names.write().remove(namespace);
        Ok(())
    }

    /// Commits a transaction that writes to nothing but collections that the member has for itself.
    ///
    /// # Errors
    /// `WriteConflict` (112); those of the engine.
    pub fn commit_own(&self, txn: Transaction, durability: Option<Durability>) -> Result<()> {
        let committed = match durability {
            Some(durability) => txn.commit_with(durability),
            None => txn.commit(),
        };
        Ok(committed?)
    }

    /// Drops what the member has for itself of a database that another member has dropped.
    pub(super) fn drop_own_of(&self, database: &str) -> Result<()> {
        for (namespace, entry) in self.list(Some(database)) {
            match entry {
                Entry::Collection(state) if is_own_number(state.number) => self.drop_own(&namespace, &state)?,
                Entry::Damaged(damage) if damage.is_own => self.drop_own_row(&namespace)?,
                Entry::Collection(_) | Entry::View(_) | Entry::Damaged(_) => {}
            }
        }
        Ok(())
    }
}
