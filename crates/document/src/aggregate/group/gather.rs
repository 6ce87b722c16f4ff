//! Documents put to their groups, in memory as long as there is room.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::spec::{Gathered, Group};
use crate::aggregate::accumulator::Key;
use crate::aggregate::effect::Fields;
use crate::aggregate::memory::Held;
use crate::aggregate::sorter::{Row, Sorted, Sorter};
use crate::aggregate::stage::Run;
use crate::base::Result;
use crate::bson::{Document, DocumentBuf, DocumentBuilder, ValueBuf};
use crate::keys;

/// Gathers groups. When there is no room for another one, the documents of all further groups go to a table, in the
/// order of their groups.
pub(super) struct Gathering<'g> {
    group: &'g Group,
    run: &'g Run,
    reads: Fields,
    groups: Vec<Gathered>,
    known: HashMap<Key, usize>,
    others: Option<Sorter>,
    kept: usize,
    last: usize,
}

/// The groups in memory, the bytes that are kept for them, and the rows of all others, if there was no room for them.
pub(super) type Groups = (Vec<Gathered>, usize, Option<Sorter>);

impl<'g> Gathering<'g> {
    pub(super) fn new(group: &'g Group, run: &'g Run) -> Self {
        let (groups, known) = (Vec::new(), HashMap::new());
        Self { group, run, reads: group.reads(), groups, known, others: None, kept: 0, last: 0 }
    }

    /// Finds the group of an id, which then is the last one; false when there was no room for it, and `document` went
    /// to the others.
    pub(super) fn place(&mut self, id: ValueBuf, document: &dyn Fn() -> Result<DocumentBuf>) -> Result<bool> {
        // Rows of one group often come together, as those that an index has in its order.
        if self.groups.get(self.last).is_some_and(|(group, _)| is_same(group, &id)) {
            return Ok(true);
        }
        let (key, id) = Key::of_owned(id, self.group.collation.as_deref());
        self.last = match self.known.entry(key) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                if let Some(others) = &mut self.others {
                    others.push(encoded(entry.key().value()), document()?)?;
                    return Ok(false);
                }
                let id = id.unwrap_or_else(|| entry.key().value().clone());
                let bytes = self.group.bytes_of(&id);
                self.kept += bytes;
                if !self.run.memory.try_take(bytes) {
                    self.others = Some(overflow(self.run)?);
                }
                self.groups.push(self.group.start(id)?);
                *entry.insert(self.groups.len() - 1)
            }
        };
        Ok(true)
    }

    /// The last group.
    pub(super) fn last(&mut self) -> Option<&mut Gathered> {
        self.groups.get_mut(self.last)
    }

    /// Takes note of bytes that are kept for the last group.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<()> {
        self.kept += bytes;
        if bytes > 0 && !self.run.memory.try_take(bytes) {
            if self.others.is_none() {
                self.others = Some(overflow(self.run)?);
            }
            if self.run.memory.is_far_exceeded() {
                return Err(self.run.memory.exceeded("$group"));
            }
        }
        Ok(())
    }

    /// Puts a document to its group.
    pub(super) fn take(&mut self, document: Document<'_>) -> Result<()> {
        let id = self.group.id_of(document)?;
        let reads = std::mem::replace(&mut self.reads, Fields::All);
        let placed = self.place(id, &|| Ok(with_fields(document, &reads)));
        self.reads = reads;
        if placed? {
            let group = self.group;
            let bytes = self.last().map_or(Ok(0), |last| group.add(last, document))?;
            self.keep(bytes)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Groups {
        (self.groups, self.kept, self.others)
    }
}

/// A copy of those fields of a document that a group reads.
pub(super) fn with_fields(document: Document<'_>, fields: &Fields) -> DocumentBuf {
    let Fields::Some(names) = fields else { return document.into() };
    let mut builder = DocumentBuilder::new();
    for element in document {
        if names.contains(element.name.as_bytes()) {
            builder.append(element.name, element.value);
        }
    }
    builder.finish()
}

fn overflow(run: &Run) -> Result<Sorter> {
    let mut sorter = Sorter::new("$group", Arc::clone(&run.memory), None);
    sorter.spill()?;
    Ok(sorter)
}

/// The next group of rows that come in the order of their groups. `next` is the row that begins it; `held` counts what
/// one group takes, which cannot be spilled.
pub(super) fn next_group(
    group: &Group,
    rows: &mut Sorted,
    next: &mut Option<Row>,
    mut held: Held,
) -> Result<Option<DocumentBuf>> {
    let first = match next.take() {
        Some(row) => row,
        None => match rows.next().transpose()? {
            Some(row) => row,
            None => return Ok(None),
        },
    };
    let mut gathered = group.start(group.id_of(first.1.view())?)?;
    held.take(group.add(&mut gathered, first.1.view())?)?;
    while let Some((key, document)) = rows.next().transpose()? {
        if key != first.0 {
            *next = Some((key, document));
            break;
        }
        held.take(group.add(&mut gathered, document.view())?)?;
    }
    Ok(Some(group.finish(gathered)))
}

/// Whether two ids have the same bytes, and so are equal; others may be equal too.
fn is_same(one: &ValueBuf, other: &ValueBuf) -> bool {
    one.kind() == other.kind() && one.payload() == other.payload()
}

/// The key by which the rows of a group come together, of the id with sort keys.
fn encoded(id: &ValueBuf) -> Vec<u8> {
    let mut key = Vec::with_capacity(16);
    keys::encode_id(&mut key, &id.view(), None);
    key
}
