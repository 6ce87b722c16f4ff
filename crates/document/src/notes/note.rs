//! A note, written and read.

use super::varint::{Input, put, put_bytes};
use crate::base::num::{u64_of, unzigzag, usize_of, zigzag};
use crate::bson::{Checks, Document, DocumentBuf, Timestamp, ValueBuf};

const TIME: u8 = 1;
const SESSION: u8 = 2;
const CHANGES: u8 = 4;
const EVENTS: u8 = 8;
const POSITION: u8 = 16;
const COUNTS: u8 = 32;

/// In a change's kind: the document before follows.
const WITH_BEFORE: u8 = 16;

/// What a commit says beside its puts and deletes.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// The cluster time.
    pub time: Option<Timestamp>,
    /// The session in which it was committed.
    pub session: Option<SessionNote>,
    /// The changes of documents; nothing when all are inserts in the order of their keys.
    pub changes: Option<Vec<ChangeNote>>,
    /// Events of collections and indexes.
    pub events: Vec<DocumentBuf>,
    /// The numbers of collections that have more documents after the commit, or less, and the difference.
    pub counts: Vec<(u64, i64)>,
    /// The place of the commit among those that the members of a replica set agreed on, the same on each member.
    pub position: Option<u64>,
}

/// The session of a commit.
#[derive(Clone, Debug)]
pub struct SessionNote {
    /// The UUID.
    pub id: [u8; 16],
    /// The user; empty without one.
    pub user: String,
    /// The number of the transaction or the retryable write.
    pub txn_number: i64,
    /// Whether it is a transaction.
    pub is_transaction: bool,
    /// What became of statements: the first `stmtId`, how many statements, and what each did.
    pub outcomes: Vec<(i32, u64, Outcome)>,
}

/// What a statement did, to be told again when it is sent again.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It inserted a document.
    Inserted,
    /// It updated or deleted documents.
    Changed {
        /// How many matched, or were deleted.
        matched: u64,
        /// How many are different now.
        modified: u64,
        /// The `_id` of a document that was inserted.
        upserted: Option<ValueBuf>,
    },
    /// It returned a document.
    Returned(DocumentBuf),
}

impl Outcome {
    /// Whether two statements did the same, and what they did is small.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Inserted, Self::Inserted) => true,
            (
                Self::Changed { matched, modified, upserted: None },
                Self::Changed { matched: other_matched, modified: other_modified, upserted: None },
            ) => (matched, modified) == (other_matched, other_modified),
            _ => false,
        }
    }
}

/// What happened to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was inserted.
    Insert,
    /// Another one took its place.
    Replace,
    /// It was updated.
    Update,
    /// It was deleted.
    Delete,
}

/// A change of a document.
#[derive(Clone, Debug)]
pub struct ChangeNote {
    /// Its place among the commit's changes of collections, in the order of collection numbers and keys.
    pub place: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// Of an update the description; of a delete `{_id: ..}`.
    pub detail: Option<DocumentBuf>,
    /// The document before.
    pub before: Option<DocumentBuf>,
}

impl Note {
    /// Where the encoded note has the time, if it has one.
    pub const TIME_AT: usize = 1;

    /// Whether there is nothing in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.time.is_none()
            && self.session.is_none()
            && self.changes.is_none()
            && self.events.is_empty()
            && self.counts.is_empty()
            && self.position.is_none()
    }

    /// The bytes; none of an empty note.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut out = vec![0];
        let mut flags = 0;
        if let Some(time) = self.time {
            flags |= TIME;
            out.extend_from_slice(&time.bits().to_le_bytes());
        }
        if let Some(session) = &self.session {
            flags |= SESSION;
            session.encode(&mut out);
        }
        if let Some(changes) = &self.changes {
            flags |= CHANGES;
            put(&mut out, u64_of(changes.len()));
            changes.iter().for_each(|change| change.encode(&mut out));
        }
        if !self.events.is_empty() {
            flags |= EVENTS;
            put(&mut out, u64_of(self.events.len()));
            self.events.iter().for_each(|event| put_bytes(&mut out, event.as_bytes()));
        }
        if !self.counts.is_empty() {
            flags |= COUNTS;
            put(&mut out, u64_of(self.counts.len()));
            for (number, difference) in &self.counts {
                put(&mut out, *number);
                put(&mut out, zigzag(*difference));
            }
        }
        if let Some(position) = self.position {
            flags |= POSITION;
            out.extend_from_slice(&position.to_le_bytes());
        }
        out[0] = flags;
        out
    }

    /// The bytes of a note that has no position, which may be empty, with one.
    #[must_use]
    pub fn with_position(bytes: &[u8], position: u64) -> Vec<u8> {
        let (flags, rest) = bytes.split_first().unwrap_or((&0, &[]));
        let mut out = Vec::with_capacity(rest.len() + 9);
        out.push(flags | POSITION);
        out.extend_from_slice(rest);
        out.extend_from_slice(&position.to_le_bytes());
        out
    }

    /// The note in bytes; nothing when they make no sense, as those that other programs have written.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut note = Self::default();
        let mut input = Input(bytes);
        let flags = input.byte()?;
        if flags & TIME != 0 {
            note.time = Some(Timestamp::from_bits(u64::from_le_bytes(input.array()?)));
        }
        if flags & SESSION != 0 {
            note.session = Some(SessionNote::decode(&mut input)?);
        }
        if flags & CHANGES != 0 {
            let count = input.number()?;
            note.changes = Some((0..count).map(|_| ChangeNote::decode(&mut input)).collect::<Option<_>>()?);
        }
        if flags & EVENTS != 0 {
            let count = input.number()?;
            note.events = (0..count).map(|_| document(&mut input)).collect::<Option<_>>()?;
        }
        if flags & COUNTS != 0 {
            let counts = (0..input.number()?).map(|_| Some((input.number()?, unzigzag(input.number()?))));
            note.counts = counts.collect::<Option<_>>()?;
        }
        if flags & POSITION != 0 {
            note.position = Some(u64::from_le_bytes(input.array()?));
        }
        (input.0.is_empty() && flags & !(TIME | SESSION | CHANGES | EVENTS | COUNTS | POSITION) == 0).then_some(note)
    }
}

/// A document within a note: of an event, or what a command has returned.
fn document(input: &mut Input<'_>) -> Option<DocumentBuf> {
    Document::parse_with(input.bytes()?, Checks::STORED).ok().map(DocumentBuf::from)
}

fn put_optional(out: &mut Vec<u8>, document: Option<&DocumentBuf>) {
    put_bytes(out, document.map_or(&[], |document| document.as_bytes()));
}

fn optional(input: &mut Input<'_>) -> Option<Option<DocumentBuf>> {
    let bytes = input.bytes()?;
    if bytes.is_empty() {
        return Some(None);
    }
    Document::from_checked_bytes(bytes).map(|document| Some(document.into()))
}

impl SessionNote {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id);
        put_bytes(out, self.user.as_bytes());
        out.extend_from_slice(&self.txn_number.to_le_bytes());
        out.push(self.is_transaction.into());
        put(out, u64_of(self.outcomes.len()));
        for (first, count, outcome) in &self.outcomes {
            out.extend_from_slice(&first.to_le_bytes());
            put(out, *count);
            match outcome {
                Outcome::Inserted => out.push(0),
                Outcome::Changed { matched, modified, upserted } => {
                    out.push(1);
                    put(out, *matched);
                    put(out, *modified);
                    put_optional(out, upserted.as_ref().map(|id| doc! {"": id.view()}).as_ref());
                }
                Outcome::Returned(document) => {
                    out.push(2);
                    put_bytes(out, document.as_bytes());
                }
            }
        }
    }

    fn decode(input: &mut Input<'_>) -> Option<Self> {
        let id = input.array()?;
        let user = String::from_utf8(input.bytes()?.to_vec()).ok()?;
        let txn_number = i64::from_le_bytes(input.array()?);
        let is_transaction = input.byte()? != 0;
        let mut outcomes = Vec::new();
        for _ in 0..input.number()? {
            let (first, count) = (i32::from_le_bytes(input.array()?), input.number()?);
            let outcome = match input.byte()? {
                0 => Outcome::Inserted,
                1 => {
                    let (matched, modified) = (input.number()?, input.number()?);
                    let upserted = optional(input)?;
                    let upserted = upserted.and_then(|document| document.view().get("").map(ValueBuf::from));
                    Outcome::Changed { matched, modified, upserted }
                }
                2 => Outcome::Returned(document(input)?),
                _ => return None,
            };
            outcomes.push((first, count, outcome));
        }
        Some(Self { id, user, txn_number, is_transaction, outcomes })
    }
}

impl ChangeNote {
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.place);
        let kind = match self.kind {
            ChangeKind::Insert => 0,
            ChangeKind::Replace => 1,
            ChangeKind::Update => 2,
            ChangeKind::Delete => 3,
        };
        out.push(kind | if self.before.is_some() { WITH_BEFORE } else { 0 });
        if matches!(self.kind, ChangeKind::Update | ChangeKind::Delete) {
            put_optional(out, self.detail.as_ref());
        }
        if let Some(before) = &self.before {
            put_bytes(out, before.as_bytes());
        }
    }

    fn decode(input: &mut Input<'_>) -> Option<Self> {
        let (place, kind) = (input.number()?, input.byte()?);
        let with_before = kind & WITH_BEFORE != 0;
        let kind = match kind & !WITH_BEFORE {
            0 => ChangeKind::Insert,
            1 => ChangeKind::Replace,
            2 => ChangeKind::Update,
            3 => ChangeKind::Delete,
            _ => return None,
        };
        let has_detail = matches!(kind, ChangeKind::Update | ChangeKind::Delete);
        let detail = if has_detail { optional(input)? } else { None };
        let before = if with_before { optional(input)? } else { None };
        Some(Self { place, kind, detail, before })
    }
}

/// The place of a change as an index.
impl ChangeNote {
    /// The place as an index.
    #[must_use]
    pub const fn index(&self) -> usize {
        usize_of(self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_and_deepest_documents_come_back() {
        let mut deep = doc! {"a": 1};
        for _ in 0..=crate::bson::DEPTH_MAX {
            deep = doc! {"a": &deep};
        }
        let large = doc! {"name": &"x".repeat(crate::bson::DOCUMENT_BYTES_MAX)};
        let mut bytes = doc! {"name": "xyz"}.into_bytes();
        *bytes.iter_mut().find(|byte| **byte == b'x').unwrap() = 0xFF;
        let no_text = DocumentBuf::from(Document::from_checked_bytes(&bytes).unwrap());
        for document in [deep, large, no_text] {
            let note = Note { events: vec![document], ..Note::default() };
            assert_eq!(Note::decode(&note.encode()).unwrap().events, note.events);
        }
    }

    #[test]
    fn notes_come_back() {
        let outcomes = vec![
            (0, 5, Outcome::Inserted),
            (
                7,
                1,
                Outcome::Changed {
                    matched: 1,
                    modified: 0,
                    upserted: Some(ValueBuf::from(crate::bson::Value::Int32(7))),
                },
            ),
            (8, 1, Outcome::Returned(doc! {"value": 1})),
        ];
        let session =
            SessionNote { id: [7; 16], user: "app.ann".into(), txn_number: 5, is_transaction: false, outcomes };
        let changes = vec![
            ChangeNote { place: 1, kind: ChangeKind::Insert, detail: None, before: None },
            ChangeNote { place: 0, kind: ChangeKind::Update, detail: Some(doc! {"u": 1}), before: Some(doc! {"a": 1}) },
            ChangeNote { place: 2, kind: ChangeKind::Delete, detail: Some(doc! {"_id": 1}), before: None },
            ChangeNote { place: 3, kind: ChangeKind::Replace, detail: None, before: Some(doc! {"_id": 1}) },
        ];
        let note = Note {
            time: Some(Timestamp { time: 5, increment: 6 }),
            session: Some(session),
            changes: Some(changes),
            events: vec![doc! {"drop": "a.b"}],
            counts: vec![(7, 1), (300, -1), (1, i64::MAX), (2, i64::MIN)],
            position: None,
        };
        let with_position = Note::decode(&Note::with_position(&note.encode(), 77)).unwrap();
        assert_eq!(format!("{with_position:?}"), format!("{:?}", Note { position: Some(77), ..note.clone() }));
        assert_eq!(Note::decode(&Note::with_position(&[], 7)).unwrap().position, Some(7));
        let note = Note { position: Some(1 << 40), ..note };
        let bytes = note.encode();
        assert_eq!(format!("{:?}", Note::decode(&bytes).unwrap()), format!("{note:?}"));
        for len in 0..bytes.len() {
            assert!(Note::decode(&bytes[..len]).is_none(), "{len}");
        }
        // The note of an insert.
        let insert = Note { time: note.time, counts: vec![(17, 1)], ..Note::default() };
        assert_eq!(insert.encode().len(), 12);
        assert!(Note::default().encode().is_empty());
        assert!(Note::decode(b"request 4711").is_none());
    }
}
