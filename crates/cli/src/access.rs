//! Reading and changing tables, within a transaction or without one.

use anyhow::Result;
use spinney::{Batch, Range, Snapshot, Table, Transaction, Value};
use std::ops::Bound;

/// A range of keys.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// What is read: the database as of one moment, with the changes of the transaction if it is one.
pub(crate) trait Reader {
    /// The values of keys.
    fn values(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>>;
    /// The entries of a range, or, from the last to the first, `backward`.
    fn entries(&self, table: &Table, bounds: &Bounds, backward: bool) -> Range;
}

impl Reader for Snapshot {
    fn values(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        Ok(self.multi_get(table, keys)?)
    }

    fn entries(&self, table: &Table, bounds: &Bounds, backward: bool) -> Range {
        if backward { self.range_rev(table, bounds) } else { self.range(table, bounds) }
    }
}

impl Reader for Transaction {
    fn values(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        Ok(self.multi_get(table, keys)?)
    }

    fn entries(&self, table: &Table, bounds: &Bounds, backward: bool) -> Range {
        if backward { self.range_rev(table, bounds) } else { self.range(table, bounds) }
    }
}

/// What takes changes.
pub(crate) trait Changes {
    /// Gives a key a value.
    fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()>;
    /// Merges an operand.
    fn merge(&mut self, table: &Table, key: &[u8], operand: &[u8]) -> Result<()>;
    /// Deletes a key.
    fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()>;
    /// Deletes a key that was put at most once.
    fn single_delete(&mut self, table: &Table, key: &[u8]) -> Result<()>;
    /// Deletes the keys of a range.
    fn delete_range(&mut self, table: &Table, bounds: &Bounds) -> Result<()>;
}

impl Changes for Batch {
    fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(table, key, value);
        Ok(())
    }

    fn merge(&mut self, table: &Table, key: &[u8], operand: &[u8]) -> Result<()> {
        self.merge(table, key, operand);
        Ok(())
    }

    fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        self.delete(table, key);
        Ok(())
    }

    fn single_delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        self.single_delete(table, key);
        Ok(())
    }

    fn delete_range(&mut self, table: &Table, bounds: &Bounds) -> Result<()> {
        self.delete_range(table, bounds);
        Ok(())
    }
}

impl Changes for Transaction {
    fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.put(table, key, value)?)
    }

    fn merge(&mut self, table: &Table, key: &[u8], operand: &[u8]) -> Result<()> {
        Ok(self.merge(table, key, operand)?)
    }

    fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        Ok(self.delete(table, key)?)
    }

    fn single_delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        Ok(self.single_delete(table, key)?)
    }

    fn delete_range(&mut self, table: &Table, bounds: &Bounds) -> Result<()> {
        Ok(self.delete_range(table, bounds)?)
    }
}
