//! The drop of a database: of many collections and views by one commit.

use super::names::Entry;
use super::namespace::Namespace;
use super::own::is_own_number;
use super::record::event;
use super::registry::{Catalog, past_of, tables_of};
use super::row::Expected;
use super::state::AtRestAlone;
use crate::base::Result;

/// The most names of one commit: what it writes and the tables that it ends stay small.
const NAMES_MAX: usize = 1000;

impl Catalog {
    /// Drops all collections and views of a database. Those that no transaction writes to go together, by one commit
    /// and one change of the engine's tables for each thousand of them; the others one by one, as
    /// [`Self::drop_namespace`] drops them. A transaction that writes to some of them and waits for others is not in
    /// the way of the first: the commit waits for none.
    ///
    /// # Errors
    /// As [`Self::drop_namespace`]; some may be dropped then.
    pub fn drop_database(&self, database: &str) -> Result<()> {
        let names = self.list(Some(database));
        for part in names.chunks(NAMES_MAX) {
            for namespace in self.drop_together(part)? {
                self.drop_namespace(namespace)?;
            }
        }
        if names.is_empty() { Ok(()) } else { self.database_dropped(database) }
    }

    /// Drops those that no transaction writes to; which are left.
    fn drop_together<'n>(&self, part: &'n [(Namespace, Entry)]) -> Result<Vec<&'n Namespace>> {
        let (mut alone, mut views, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for (namespace, entry) in part {
            match entry {
                Entry::View(_) => views.push((namespace, entry)),
                Entry::Collection(state) if !is_own_number(state.number) => match AtRestAlone::of(state)? {
                    Some(held) if held.schema.namespace == *namespace => alone.push((namespace, held)),
                    _ => left.push(namespace),
                },
                Entry::Collection(_) | Entry::Damaged(_) => left.push(namespace),
            }
        }
        if alone.is_empty() && views.is_empty() {
            return Ok(left);
        }
        let changing = self.begin_change()?;
        views.retain(|(namespace, entry)| self.is_still(namespace, entry));
        let events: Vec<_> = alone
            .iter()
            .map(|(namespace, held)| event("drop", namespace.as_str(), held.schema.uuid).finish())
            .collect();
        let until = self.commit_events(&events, |txn, until| {
            let txn = txn.makes_room();
            for (namespace, held) in &alone {
                self.put_past(txn, held.state, &held.schema, until)?;
                let expected = Expected::Collection(held.state.number, &held.schema.uuid);
                self.remove_row(txn, namespace, expected)?;
            }
            views.iter().try_for_each(|(namespace, _)| self.remove_row(txn, namespace, Expected::View))
        })?;
        let mut tables = Vec::new();
        let mut names = self.names.write();
        alone.iter().map(|(namespace, _)| *namespace).chain(views.iter().map(|(namespace, _)| *namespace)).for_each(
            |namespace| {
                names.remove(namespace);
            },
        );
        drop((names, changing));
        for (_, held) in alone {
            self.recorder().ended(past_of(held.state, &held.schema, until));
            tables.extend(tables_of(held.state, &held.schema));
            held.dropped();
        }
        self.drop_tables(&tables)?;
        Ok(left)
    }
}
