//! What a transaction has done to documents, for its note.

use std::collections::HashMap;

use super::diff::describe;
use super::note::{ChangeKind, ChangeNote};
use crate::base::num::u64_of;
use crate::bson::{Document, DocumentBuf};
use crate::keys::{Direction, TypeReader, decode_field};

/// The changes of documents, one for each that was changed, in the order in which they were first changed.
#[derive(Debug, Default)]
pub struct Journal {
    changes: Vec<Changed>,
    places: HashMap<(u64, Vec<u8>), usize>,
    /// The bytes of the keys and documents above.
    bytes: usize,
}

#[derive(Debug)]
struct Changed {
    collection: u64,
    key: Vec<u8>,
    /// The document before the transaction.
    old: Option<DocumentBuf>,
    new: New,
    /// Whether it is another document, not an updated one.
    replaced: bool,
    /// Whether the document before is kept in the note.
    keeps_before: bool,
}

/// The document after a change.
#[derive(Debug)]
enum New {
    Gone,
    /// It is there, and the log has it.
    There,
    Updated(DocumentBuf),
}

impl New {
    fn bytes(&self) -> usize {
        if let Self::Updated(document) = self { document.as_bytes().len() } else { 0 }
    }
}

/// A change as it is made.
#[derive(Clone, Copy, Debug)]
pub struct Change<'d> {
    /// The number of the collection.
    pub collection: u64,
    /// The encoded `_id`.
    pub key: &'d [u8],
    /// The document that goes.
    pub old: Option<Document<'d>>,
    /// The document that comes.
    pub new: Option<Document<'d>>,
    /// Whether the new one is an update of the old one.
    pub is_update: bool,
    /// Whether the collection keeps the documents before.
    pub keeps_before: bool,
}

impl Journal {
    /// Takes note of a change.
    pub fn add(&mut self, change: Change<'_>) {
        let new = match (change.new, change.old) {
            (None, _) => New::Gone,
            (Some(new), Some(_)) if change.is_update => New::Updated(new.into()),
            (Some(_), _) => New::There,
        };
        let place = (change.collection, change.key.to_vec());
        if let Some(at) = self.places.get(&place) {
            let known = &mut self.changes[*at];
            known.replaced |= !change.is_update;
            self.bytes = (self.bytes + new.bytes()).saturating_sub(known.new.bytes());
            known.new = new;
            return;
        }
        // Of a document that goes, and is not kept, the note has the `_id`.
        let is_update = matches!(new, New::Updated(_));
        let old = change.old.map(|old| match old.first() {
            Some(first) if !is_update && !change.keeps_before => doc! {"_id": first.value},
            _ => DocumentBuf::from(old),
        });
        self.bytes += 2 * change.key.len() + old.as_ref().map_or(0, |old| old.as_bytes().len()) + new.bytes();
        self.places.insert(place, self.changes.len());
        self.changes.push(Changed {
            collection: change.collection,
            key: change.key.to_vec(),
            old,
            new,
            replaced: !change.is_update,
            keeps_before: change.keeps_before,
        });
    }

    /// How many bytes of keys and documents it holds.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes as a note has them; nothing when they are inserts in the order of their keys.
    #[must_use]
    pub fn finish(self) -> Option<Vec<ChangeNote>> {
        let order = |a: &Changed, b: &Changed| (a.collection, &a.key).cmp(&(b.collection, &b.key));
        let is_plain = |change: &Changed| change.old.is_none() && !matches!(change.new, New::Gone);
        if self.changes.iter().all(is_plain) && self.changes.is_sorted_by(|a, b| order(a, b).is_le()) {
            return None;
        }
        let mut sorted: Vec<usize> = (0..self.changes.len()).collect();
        sorted.sort_by(|a, b| order(&self.changes[*a], &self.changes[*b]));
        let mut places = vec![0; sorted.len()];
        sorted.iter().enumerate().for_each(|(place, at)| places[*at] = u64_of(place));
        Some(self.changes.iter().zip(places).filter_map(|(change, place)| change.note(place)).collect())
    }
}

impl Changed {
    /// What became of the document; nothing when it came and went.
    fn note(&self, place: u64) -> Option<ChangeNote> {
        let before = || self.old.clone().filter(|_| self.keeps_before);
        let plain = |kind| ChangeNote { place, kind, detail: None, before: before() };
        match (&self.old, &self.new) {
            (None, New::Gone) => None,
            (None, _) => Some(plain(ChangeKind::Insert)),
            (Some(old), New::Gone) => Some(ChangeNote { detail: self.id_of(old), ..plain(ChangeKind::Delete) }),
            (Some(old), New::Updated(new)) if old == new => None,
            (Some(old), New::Updated(new)) if !self.replaced => {
                let detail = Some(describe(old.view(), new.view()));
                Some(ChangeNote { detail, ..plain(ChangeKind::Update) })
            }
            (Some(_), _) => Some(plain(ChangeKind::Replace)),
        }
    }

    /// `{_id: ..}` where the key does not tell it exactly.
    fn id_of(&self, old: &DocumentBuf) -> Option<DocumentBuf> {
        let first = old.view().first()?;
        let id = doc! {"_id": first.value};
        (id_of_key(&self.key).as_ref() != Some(&id)).then_some(id)
    }
}

/// `{_id: ..}` as far as a key tells it: numbers are doubles or int32 whatever they were.
#[must_use]
pub fn id_of_key(key: &[u8]) -> Option<DocumentBuf> {
    let (id, _) = decode_field(key, Direction::Ascending, &mut TypeReader::new(&[]))?;
    Some(doc! {"_id": &id})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change<'d>(key: &'d [u8], old: Option<&'d DocumentBuf>, new: Option<&'d DocumentBuf>) -> Change<'d> {
        let (old, new) = (old.map(DocumentBuf::view), new.map(DocumentBuf::view));
        Change { collection: 1, key, old, new, is_update: true, keeps_before: false }
    }

    #[test]
    fn the_sum_of_changes_is_told_in_their_order() {
        let (one, two) = (doc! {"_id": 1, "a": 1}, doc! {"_id": 1, "a": 2});
        let mut journal = Journal::default();
        journal.add(change(b"a", None, Some(&one)));
        journal.add(change(b"b", None, Some(&one)));
        assert!(journal.finish().is_none());
        let mut journal = Journal::default();
        journal.add(change(b"d", None, Some(&one)));
        journal.add(change(b"b", Some(&one), Some(&two)));
        let three = doc! {"_id": 1, "a": 3};
        journal.add(change(b"b", Some(&two), Some(&three)));
        journal.add(change(b"e", Some(&one), Some(&two)));
        journal.add(change(b"e", Some(&two), Some(&one)));
        journal.add(change(b"c", None, Some(&one)));
        journal.add(change(b"c", Some(&one), None));
        journal.add(change(b"a", Some(&one), Some(&two)));
        journal.add(change(b"a", Some(&two), None));
        journal.add(change(b"d", Some(&one), Some(&two)));
        let notes = journal.finish().unwrap();
        let told: Vec<_> = notes.iter().map(|note| (note.place, note.kind)).collect();
        assert_eq!(told, [(3, ChangeKind::Insert), (1, ChangeKind::Update), (0, ChangeKind::Delete)]);
        assert_eq!(notes[1].detail, Some(doc! {"u": &doc! {"a": 3}}));
        assert_eq!(notes[2].detail, Some(doc! {"_id": 1}));
    }
}
