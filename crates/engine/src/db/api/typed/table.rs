//! A table with a type of keys and a type of values.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::base::{Error, Result, Value};
use crate::db::api::range::Range;
use crate::db::api::table_handle::Table;

use super::codec::{KeyCodec, KeyFor, ValueCodec, ValueFor};

/// A [`Table`] with keys of type `K` and values of type `V`, which are encoded on the way in and decoded on the way
/// out. Keys are in the order of their type: integers, strings, and tuples of them field by field.
///
/// It is a thin layer: in transactions, snapshots and batches use [`TypedTable::table`] with [`TypedTable::key`] and
/// [`TypedTable::value`]. What the types are is not stored; a table is to be opened with the same ones always.
///
/// ```
/// # use spinney::{Database, Options, TableOptions, TypedTable};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// let table = db.open_or_create_table("temperatures", TableOptions::default())?;
/// let temperatures = TypedTable::<(String, u32), i32>::new(table);
/// temperatures.put(&("Oslo", 2024), &-17)?;
/// temperatures.put(&("Oslo", 2025), &-9)?;
/// temperatures.put(&("Rome", 2024), &2)?;
/// assert_eq!(temperatures.get(&("Oslo", 2025))?, Some(-9));
/// let from = ("Oslo".to_owned(), 2025);
/// let later = temperatures.range(from..).collect::<spinney::Result<Vec<_>>>()?;
/// assert_eq!(later, [(("Oslo".into(), 2025), -9), (("Rome".into(), 2024), 2)]);
///
/// let mut txn = db.begin();
/// txn.put(temperatures.table(), temperatures.key(&("Rome", 2025)), temperatures.value(&4))?;
/// txn.commit()?;
/// assert_eq!(temperatures.last()?, Some((("Rome".into(), 2025), 4)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedTable<K, V> {
    table: Table,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: KeyCodec, V: ValueCodec> TypedTable<K, V> {
    /// The table with these types.
    #[must_use]
    pub fn new(table: Table) -> Self {
        Self { table, types: PhantomData }
    }

    /// The table without types.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The bytes of a key.
    #[must_use]
    pub fn key(&self, key: &(impl KeyFor<K> + ?Sized)) -> Vec<u8> {
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        bytes
    }

    /// The bytes of a value.
    #[must_use]
    pub fn value(&self, value: &(impl ValueFor<V> + ?Sized)) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        bytes
    }

    /// The key and value of an entry of the table.
    ///
    /// # Errors
    /// `Invalid` when the bytes are not of the table's types.
    pub fn decode(&self, mut key: &[u8], value: &[u8]) -> Result<(K, V)> {
        let shown = key;
        let decoded = K::decode(&mut key).filter(|_| key.is_empty()).zip(V::decode(value));
        decoded.ok_or_else(|| self.mistyped(shown))
    }

    fn mistyped(&self, key: &[u8]) -> Error {
        let (name, types) = (self.table.name(), std::any::type_name::<(K, V)>());
        let message = format!("table '{name}': the entry of key {} is not of the types {types}", key.escape_ascii());
        Error::invalid(message)
    }

    /// The value of a key, as it is now.
    ///
    /// # Errors
    /// As [`Table::get`]; `Invalid` when the value is not of the table's type.
    pub fn get(&self, key: &(impl KeyFor<K> + ?Sized)) -> Result<Option<V>> {
        let key = self.key(key);
        let value = self.table.get(&key)?;
        value.map(|value| V::decode(&value).ok_or_else(|| self.mistyped(&key))).transpose()
    }

    /// Whether a key has a value now.
    ///
    /// # Errors
    /// As [`Table::contains`].
    pub fn contains(&self, key: &(impl KeyFor<K> + ?Sized)) -> Result<bool> {
        self.table.contains(self.key(key))
    }

    /// Sets a key's value, as a commit of its own.
    ///
    /// # Errors
    /// As [`Table::put`].
    pub fn put(&self, key: &(impl KeyFor<K> + ?Sized), value: &(impl ValueFor<V> + ?Sized)) -> Result<()> {
        self.table.put(self.key(key), self.value(value))
    }

    /// Removes a key, as a commit of its own.
    ///
    /// # Errors
    /// As [`Table::delete`].
    pub fn delete(&self, key: &(impl KeyFor<K> + ?Sized)) -> Result<()> {
        self.table.delete(self.key(key))
    }

    /// The entries of a range of keys as they are now, ascending; `.rev()` makes them descend.
    pub fn range(&self, range: impl RangeBounds<K>) -> TypedRange<K, V> {
        let encoded = |bound: Bound<&K>| bound.map(|key| self.key(key));
        let range = self.table.range((encoded(range.start_bound()), encoded(range.end_bound())));
        TypedRange { range, table: self.clone() }
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As [`Table::first`]; `Invalid` when it is not of the table's types.
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.range(..).next().transpose()
    }

    /// The entry with the largest key.
    ///
    /// # Errors
    /// As [`TypedTable::first`].
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.range(..).next_back().transpose()
    }
}

impl<K, V> Clone for TypedTable<K, V> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for TypedTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedTable").field(&self.table.name()).finish()
    }
}

/// The entries of a range of a [`TypedTable`], from both ends.
#[must_use = "a range does nothing until it is walked"]
#[derive(Debug)]
pub struct TypedRange<K, V> {
    range: Range,
    table: TypedTable<K, V>,
}

impl<K: KeyCodec, V: ValueCodec> TypedRange<K, V> {
    fn typed(&self, entry: Result<(Vec<u8>, Value)>) -> Result<(K, V)> {
        let (key, value) = entry?;
        self.table.decode(&key, &value)
    }
}

impl<K: KeyCodec, V: ValueCodec> Iterator for TypedRange<K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.range.next()?;
        Some(self.typed(entry))
    }
}

impl<K: KeyCodec, V: ValueCodec> DoubleEndedIterator for TypedRange<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.range.next_back()?;
        Some(self.typed(entry))
    }
}

#[cfg(test)]
mod tests {
    use crate::db::api::typed::TypedTable;
    use crate::db::{Database, Options};
    use crate::env::sim::SimEnv;
    use crate::table::TableOptions;

    #[test]
    fn a_range_of_types_is_walked_from_both_ends() {
        let db = Database::builder("/db").env(SimEnv::new(1).env()).options(Options::default()).open().unwrap();
        let typed = TypedTable::<u32, String>::new(db.create_table("t", TableOptions::default()).unwrap());
        assert_eq!((typed.first().unwrap(), typed.last().unwrap()), (None, None));
        (1..=4).for_each(|number| typed.put(&number, &number.to_string()).unwrap());
        let row = |number: u32| Some((number, number.to_string()));
        assert_eq!((typed.first().unwrap(), typed.last().unwrap()), (row(1), row(4)));
        let mut range = typed.range(2..);
        assert_eq!(range.next_back().transpose().unwrap(), row(4));
        assert_eq!(range.next().transpose().unwrap(), row(2));
        assert_eq!(range.next_back().transpose().unwrap(), row(3));
        assert!(range.next_back().is_none() && range.next().is_none());
    }
}
