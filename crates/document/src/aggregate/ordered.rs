//! Values in the order of their keys: the first or last of many, and the values of windows that move on.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::bson::{Value, ValueBuf};
use crate::collation::Collation;
use crate::keys::encode_id;

/// A key whose order as bytes is that of what it stands for.
pub(super) type OrderKey = Arc<[u8]>;

/// Values in the order of their keys, those of one key in the order in which they came. To add or remove one takes the
/// logarithm of how many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct OrderedValues {
    by_key: BTreeMap<OrderKey, VecDeque<ValueBuf>>,
    len: usize,
}

/// The key of a value, which is that of all that are equal to it.
pub(super) fn key_of_value(value: &Value<'_>, collation: Option<&Collation>) -> Vec<u8> {
    let mut key = Vec::with_capacity(16);
    encode_id(&mut key, value, collation);
    key
}

impl OrderedValues {
    /// Adds the value that `value` makes, and removes one when there are more than `most` then: the last of the
    /// greatest key. How many bytes more they take, at the least 0.
    pub(super) fn add_to_least(&mut self, most: usize, key: Vec<u8>, value: impl FnOnce() -> ValueBuf) -> usize {
        if self.len >= most && self.by_key.last_key_value().is_none_or(|(greatest, _)| **greatest <= *key) {
            return 0;
        }
        let added = self.add(key.into(), value());
        let removed = if self.len > most { self.remove_newest(true) } else { 0 };
        added.saturating_sub(removed)
    }

    /// As [`Self::add_to_least`], of the greatest keys: the first or the last of the least key is removed.
    pub(super) fn add_to_greatest(
        &mut self,
        most: usize,
        keeps_older: bool,
        key: Vec<u8>,
        value: impl FnOnce() -> ValueBuf,
    ) -> usize {
        let is_full = self.len >= most;
        if is_full
            && self.by_key.first_key_value().is_none_or(|(least, _)| {
                let order = key.as_slice().cmp(least);
                order.is_lt() || keeps_older && order.is_eq()
            })
        {
            return 0;
        }
        let added = self.add(key.into(), value());
        let removed = match (self.len > most, keeps_older) {
            (false, _) => 0,
            (true, true) => self.remove_newest(false),
            (true, false) => self.remove_first(),
        };
        added.saturating_sub(removed)
    }

    /// Adds a value behind all of its key. How many bytes it takes.
    pub(super) fn add(&mut self, key: OrderKey, value: ValueBuf) -> usize {
        let bytes = bytes_of(&key, &value);
        self.by_key.entry(key).or_default().push_back(value);
        self.len += 1;
        bytes
    }

    /// Removes the first value of a key. How many bytes it took.
    pub(super) fn remove(&mut self, key: &OrderKey) -> usize {
        let Entry::Occupied(mut entry) = self.by_key.entry(Arc::clone(key)) else { return 0 };
        let removed = entry.get_mut().pop_front();
        if entry.get().is_empty() {
            entry.remove();
        }
        self.removed(key, removed)
    }

    /// Removes the first value, of the least key. How many bytes it took.
    pub(super) fn remove_first(&mut self) -> usize {
        let Some(mut entry) = self.by_key.first_entry() else { return 0 };
        let (key, removed) = (Arc::clone(entry.key()), entry.get_mut().pop_front());
        if entry.get().is_empty() {
            entry.remove();
        }
        self.removed(&key, removed)
    }

    /// Removes the newest value of the least or greatest key. How many bytes it took.
    pub(super) fn remove_newest(&mut self, of_greatest: bool) -> usize {
        let entry = if of_greatest { self.by_key.last_entry() } else { self.by_key.first_entry() };
        let Some(mut entry) = entry else { return 0 };
        let (key, removed) = (Arc::clone(entry.key()), entry.get_mut().pop_back());
        if entry.get().is_empty() {
            entry.remove();
        }
        self.removed(&key, removed)
    }

    fn removed(&mut self, key: &OrderKey, removed: Option<ValueBuf>) -> usize {
        let Some(removed) = removed else { return 0 };
        self.len -= 1;
        bytes_of(key, &removed)
    }

    /// The values from the least key to the greatest.
    pub(super) fn ascending(&self) -> impl DoubleEndedIterator<Item = &ValueBuf> {
        self.by_key.values().flatten()
    }

    /// The values from the greatest key to the least, those of one key in the order in which they came.
    pub(super) fn descending(&self) -> impl Iterator<Item = &ValueBuf> {
        self.by_key.values().rev().flatten()
    }

    /// The first value of each key.
    pub(super) fn distinct(&self) -> impl Iterator<Item = &ValueBuf> {
        self.by_key.values().filter_map(VecDeque::front)
    }
}

/// The bytes that a value takes with its key, once in the map and once beside it.
fn bytes_of(key: &OrderKey, value: &ValueBuf) -> usize {
    2 * size_of::<OrderKey>()
        + key.len()
        + size_of::<VecDeque<ValueBuf>>()
        + size_of::<ValueBuf>()
        + value.payload().len()
}
