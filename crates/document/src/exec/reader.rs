//! Where an execution reads: a snapshot, or a transaction with its own writes.

use std::fmt;
use std::sync::Arc;

use spinney::{Estimate, Range, Ranges, SeqNum, Snapshot, Table, Transaction, Value};

use crate::base::Result;
use crate::catalog::{CollectionState, Namespace};
use crate::plan::KeyBounds;

/// A consistent view of the engine's tables.
pub trait Reader: fmt::Debug + Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// Those of the engine.
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>>;

    /// The values of keys, in their order.
    ///
    /// # Errors
    /// Those of the engine.
    fn multi_get(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>>;

    /// The entries of a range, from its end when `reverse`.
    fn range(&self, table: &Table, bounds: KeyBounds, reverse: bool) -> Range;

    /// The entries of several ranges, which ascend and are apart; with `reverse` from the last key to the first.
    fn ranges(&self, table: &Table, ranges: &[KeyBounds], reverse: bool) -> Ranges;

    /// The newest change that is seen.
    fn seqnum(&self) -> SeqNum;

    /// About how many entries a range has.
    ///
    /// # Errors
    /// Those of the engine.
    fn estimate(&self, table: &Table, bounds: &KeyBounds) -> Result<Estimate>;

    /// The collection with a name that this reader alone sees: one that its transaction has created.
    fn created(&self, _namespace: &Namespace) -> Option<Arc<CollectionState>> {
        None
    }
}

impl Reader for Snapshot {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        Ok(Self::get(self, table, key)?)
    }

    fn multi_get(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        Ok(Self::multi_get(self, table, keys)?)
    }

    fn range(&self, table: &Table, bounds: KeyBounds, reverse: bool) -> Range {
        if reverse { self.range_rev(table, bounds) } else { Self::range(self, table, bounds) }
    }

    fn ranges(&self, table: &Table, ranges: &[KeyBounds], reverse: bool) -> Ranges {
        if reverse { self.ranges_rev(table, ranges.iter().rev()) } else { Self::ranges(self, table, ranges) }
    }

    fn estimate(&self, table: &Table, bounds: &KeyBounds) -> Result<Estimate> {
        Ok(Self::estimate(self, table, bounds)?)
    }

    fn seqnum(&self) -> SeqNum {
        Self::seqnum(self)
    }
}

impl Reader for Arc<dyn Reader> {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        (**self).get(table, key)
    }

    fn multi_get(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        (**self).multi_get(table, keys)
    }

    fn range(&self, table: &Table, bounds: KeyBounds, reverse: bool) -> Range {
        (**self).range(table, bounds, reverse)
    }

    fn ranges(&self, table: &Table, ranges: &[KeyBounds], reverse: bool) -> Ranges {
        (**self).ranges(table, ranges, reverse)
    }

    fn estimate(&self, table: &Table, bounds: &KeyBounds) -> Result<Estimate> {
        (**self).estimate(table, bounds)
    }

    fn seqnum(&self) -> SeqNum {
        (**self).seqnum()
    }

    fn created(&self, namespace: &Namespace) -> Option<Arc<CollectionState>> {
        (**self).created(namespace)
    }
}

impl Reader for &Transaction {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        Ok(Transaction::get(self, table, key)?)
    }

    fn multi_get(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        Ok(Transaction::multi_get(self, table, keys)?)
    }

    fn range(&self, table: &Table, bounds: KeyBounds, reverse: bool) -> Range {
        if reverse { self.range_rev(table, bounds) } else { Transaction::range(self, table, bounds) }
    }

    fn ranges(&self, table: &Table, ranges: &[KeyBounds], reverse: bool) -> Ranges {
        if reverse { self.ranges_rev(table, ranges.iter().rev()) } else { Transaction::ranges(self, table, ranges) }
    }

    fn estimate(&self, table: &Table, bounds: &KeyBounds) -> Result<Estimate> {
        Ok(self.snapshot().estimate(table, bounds)?)
    }

    fn seqnum(&self) -> SeqNum {
        self.snapshot().seqnum()
    }
}
