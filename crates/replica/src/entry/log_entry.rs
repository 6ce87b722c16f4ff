//! An entry of the replicated log, and the note of the redo log that holds entries.
//!
//! # Format
//!
//! | what | bytes |
//! |---|---|
//! | [`NOTE`] | 1 |
//! | of each entry: term, index | two varints |
//! | kind | 1 |
//! | payload | with its length, a varint |
//!
//! # Invariants
//! 1. The entries of all notes, in the order of the redo log, are the replicated log when each entry takes the place of
//!    the one that had its index, and of all behind that.

use std::fmt;
use std::sync::Arc;

use spinney::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};

/// The first byte of a note that holds entries. No note of the document database begins with it, so that change streams
/// pass over such commits. Stored; never reuse.
pub(crate) const NOTE: u8 = 0xF5;

/// An entry's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogId {
    /// The term of the primary that wrote it.
    pub(crate) term: u64,
    /// Its index; the first entry of a set has 0.
    pub(crate) index: u64,
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} of term {}", self.index, self.term)
    }
}

impl LogId {
    /// Appends the bytes.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.term);
        put_varint(out, self.index);
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self { term: input.varint()?, index: input.varint()? })
    }

    /// Appends the bytes of a place that may be missing.
    pub(crate) fn encode_option(id: Option<Self>, out: &mut Vec<u8>) {
        match id {
            None => out.push(0),
            Some(id) => {
                out.push(1);
                id.encode(out);
            }
        }
    }

    /// Reads what [`Self::encode_option`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode_option(input: &mut Decoder<'_>) -> Result<Option<Self>, Malformed> {
        match input.u8()? {
            0 => Ok(None),
            1 => Self::decode(input).map(Some),
            _ => Err(Malformed),
        }
    }
}

/// What an entry is. The numbers are stored; never reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// Nothing: a primary begins its term with one.
    Blank = 0,
    /// A change of the database.
    Change = 1,
    /// The members of the set.
    Members = 2,
}

/// An entry of the replicated log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    /// Its place.
    pub(crate) id: LogId,
    /// What it is.
    pub(crate) kind: EntryKind,
    /// The change or the members, encoded.
    pub(crate) payload: Arc<[u8]>,
}

impl LogEntry {
    /// Appends the bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.id.encode(out);
        out.push(match self.kind {
            EntryKind::Blank => 0,
            EntryKind::Change => 1,
            EntryKind::Members => 2,
        });
        put_len_prefixed(out, &self.payload);
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let id = LogId::decode(input)?;
        let kind = match input.u8()? {
            0 => EntryKind::Blank,
            1 => EntryKind::Change,
            2 => EntryKind::Members,
            _ => return Err(Malformed),
        };
        Ok(Self { id, kind, payload: input.len_prefixed()?.into() })
    }

    /// An upper bound of the bytes that it takes, in the log and in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + 64
    }
}

/// The note that holds entries, and where in it the payload of each begins.
pub(crate) fn encode_note<'a>(entries: impl IntoIterator<Item = &'a LogEntry>) -> (Vec<u8>, Vec<usize>) {
    let mut note = vec![NOTE];
    let payload_at = |entry: &LogEntry| {
        entry.encode(&mut note);
        note.len() - entry.payload.len()
    };
    let payloads = entries.into_iter().map(payload_at).collect();
    (note, payloads)
}

/// The entries of a note; none of a note of another kind.
///
/// # Errors
/// When the bytes make no sense.
pub(crate) fn decode_note(note: &[u8]) -> Result<Vec<LogEntry>, Malformed> {
    let Some((&NOTE, rest)) = note.split_first() else { return Ok(Vec::new()) };
    decode_all(&mut Decoder::new(rest))
}

/// Entries up to the end of the bytes.
///
/// # Errors
/// When the bytes make no sense.
pub(crate) fn decode_all(input: &mut Decoder<'_>) -> Result<Vec<LogEntry>, Malformed> {
    let mut entries = Vec::new();
    while !input.is_empty() {
        entries.push(LogEntry::decode(input)?);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_gives_its_entries_back_and_damaged_bytes_are_refused() {
        let entry =
            |index, kind, payload: &[u8]| LogEntry { id: LogId { term: 3, index }, kind, payload: payload.into() };
        let entries = [
            entry(7, EntryKind::Blank, b""),
            entry(8, EntryKind::Change, b"put"),
            entry(300, EntryKind::Members, b"m"),
        ];
        let (note, payloads) = encode_note(&entries);
        assert_eq!(note[payloads[1]..][..3], *b"put");
        assert_eq!(decode_note(&note).unwrap(), entries);
        assert_eq!(decode_note(b"\x03a document's note").unwrap(), []);
        for len in 1..note.len() {
            // A cut may fall between two entries.
            assert!(decode_note(&note[..len]).is_ok_and(|some| some.len() < 3) || decode_note(&note[..len]).is_err());
        }
    }
}
