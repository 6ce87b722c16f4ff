//! What changes in the entries of an index when a document does.

use std::cmp::Ordering;

use crate::keys::{Key, KeySet};

/// What becomes of a key when a document is replaced.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'k> {
    /// Only the old document has it.
    Removed(Key<'k>),
    /// Only the new document has it.
    Added(Key<'k>),
    /// Both have it, with other types.
    Retyped(Key<'k>),
}

/// The keys that differ between two sets, both in order.
pub(super) fn differences<'k>(old: &'k KeySet, new: &'k KeySet) -> impl Iterator<Item = Change<'k>> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.fields.cmp(new.fields),
            };
            match order {
                Ordering::Less => return old.next().map(Change::Removed),
                Ordering::Greater => return new.next().map(Change::Added),
                Ordering::Equal => match (old.next(), new.next()) {
                    (Some(old), Some(new)) if old.types != new.types => return Some(Change::Retyped(new)),
                    _ => {}
                },
            }
        }
    })
}
