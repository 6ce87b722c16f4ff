//! The opcodes of drivers before MongoDB 2.6 and 3.2: writes without a reply, and cursors.
//!
//! # Formats
//!
//! | opcode | body |
//! |---|---|
//! | `OP_INSERT` | flags (4; bit 0: go on after an error), namespace and a zero, documents |
//! | `OP_UPDATE` | 0 (4), namespace and a zero, flags (4; bit 0: upsert, bit 1: all), filter, update |
//! | `OP_DELETE` | 0 (4), namespace and a zero, flags (4; bit 0: only one), filter |
//! | `OP_GET_MORE` | 0 (4), namespace and a zero, number of documents (4), cursor (8) |
//! | `OP_KILL_CURSORS` | 0 (4), number of cursors (4), cursors (8 each) |

use spinney_document::Result;
use spinney_document::bson::Document;

use super::header::OpCode;
use super::message::BATCH_MAX;
use super::reader::{Reader, malformed};

/// The body of one of these opcodes.
#[derive(Clone, Debug)]
pub enum Legacy<'a> {
    /// `OP_INSERT`.
    Insert {
        /// Database, dot, collection.
        namespace: &'a str,
        /// Whether an error ends the insert.
        ordered: bool,
        /// The documents.
        documents: Vec<Document<'a>>,
    },
    /// `OP_UPDATE`.
    Update {
        /// Database, dot, collection.
        namespace: &'a str,
        /// Whether a document is inserted when none matches.
        upsert: bool,
        /// Whether all that match are updated.
        multi: bool,
        /// The filter.
        filter: Document<'a>,
        /// The operators or the new document.
        update: Document<'a>,
    },
    /// `OP_DELETE`.
    Delete {
        /// Database, dot, collection.
        namespace: &'a str,
        /// Whether only one is deleted.
        single: bool,
        /// The filter.
        filter: Document<'a>,
    },
    /// `OP_GET_MORE`.
    GetMore {
        /// Database, dot, collection.
        namespace: &'a str,
        /// How many documents, or 0 for any number; below zero, no cursor is left.
        count: i32,
        /// The cursor.
        cursor: i64,
    },
    /// `OP_KILL_CURSORS`.
    KillCursors {
        /// The cursors.
        cursors: Vec<i64>,
    },
}

impl<'a> Legacy<'a> {
    /// The body of a message with one of these opcodes.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the body is malformed or the opcode another, and those of [`Reader::document`].
    pub fn parse(opcode: OpCode, body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let flags = reader.u32()?;
        if opcode == OpCode::KillCursors {
            let count = usize::try_from(reader.i32()?).ok().and_then(|count| count.checked_mul(8));
            if count != Some(reader.remaining()) {
                return Err(malformed("the number of cursors is wrong"));
            }
            let cursors = std::iter::from_fn(|| reader.i64().ok()).collect();
            return Ok(Self::KillCursors { cursors });
        }
        let namespace = reader.text()?;
        if namespace.find('.').is_none_or(|dot| dot == 0) {
            return Err(malformed("the namespace has no database"));
        }
        let read = match opcode {
            OpCode::Insert => {
                Self::Insert { namespace, ordered: flags & 1 == 0, documents: reader.documents(BATCH_MAX)? }
            }
            OpCode::Update => {
                let flags = reader.u32()?;
                let (upsert, multi) = (flags & 1 != 0, flags & 2 != 0);
                Self::Update { namespace, upsert, multi, filter: reader.document()?, update: reader.document()? }
            }
            OpCode::Delete => Self::Delete { namespace, single: reader.u32()? & 1 != 0, filter: reader.document()? },
            OpCode::GetMore => Self::GetMore { namespace, count: reader.i32()?, cursor: reader.i64()? },
            _ => return Err(malformed("a request cannot have this opcode")),
        };
        if reader.is_done() { Ok(read) } else { Err(malformed("bytes follow its end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::doc;

    fn body(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn each_opcode_is_read() {
        let (one, two) = (doc! {"_id": 1}, doc! {"_id": 2});
        let (one, two, zero) = (one.as_bytes(), two.as_bytes(), [0; 4]);
        let insert = body(&[&[1, 0, 0, 0], b"d.c\0", one, two]);
        let read = Legacy::parse(OpCode::Insert, &insert).unwrap();
        assert!(matches!(read, Legacy::Insert { namespace: "d.c", ordered: false, documents } if documents.len() == 2));
        let update = body(&[&zero, b"d.c\0", &[3, 0, 0, 0], one, two]);
        let read = Legacy::parse(OpCode::Update, &update).unwrap();
        assert!(matches!(read, Legacy::Update { upsert: true, multi: true, .. }));
        let delete = body(&[&zero, b"d.c\0", &[1, 0, 0, 0], one]);
        assert!(matches!(Legacy::parse(OpCode::Delete, &delete).unwrap(), Legacy::Delete { single: true, .. }));
        let more = body(&[&zero, b"d.c\0", &[9, 0, 0, 0], &7_i64.to_le_bytes()]);
        assert!(matches!(Legacy::parse(OpCode::GetMore, &more).unwrap(), Legacy::GetMore { count: 9, cursor: 7, .. }));
        let kill = body(&[&zero, &[2, 0, 0, 0], &7_i64.to_le_bytes(), &8_i64.to_le_bytes()]);
        let read = Legacy::parse(OpCode::KillCursors, &kill).unwrap();
        assert!(matches!(read, Legacy::KillCursors { cursors } if cursors == [7, 8]));
        for (opcode, body) in
            [(OpCode::Update, update), (OpCode::Delete, delete), (OpCode::GetMore, more), (OpCode::KillCursors, kill)]
        {
            assert!((0..body.len()).all(|at| Legacy::parse(opcode, &body[..at]).is_err()));
        }
    }

    #[test]
    fn a_number_of_cursors_that_lies_is_refused() {
        for count in [-1_i32, 0, 3, i32::MAX] {
            let kill = body(&[&[0; 4], &count.to_le_bytes(), &7_i64.to_le_bytes()]);
            assert!(Legacy::parse(OpCode::KillCursors, &kill).is_err());
        }
    }
}
