//! `OP_MSG`: a command or a reply.
//!
//! # Format
//!
//! | size | field |
//! |---|---|
//! | 4 | flags: bit 0 a checksum follows, bit 1 more messages come without a request, bit 16 the reply may be several |
//! | .. | sections: a byte 0 and a document; or a byte 1, a length, a name, and documents |
//! | 4 | CRC-32C of all bytes before it, header included, when bit 0 is set |
//!
//! A message has one section of kind 0. Flags of the lower half that are not known are refused, those of the upper half
//! ignored.

use spinney_document::bson::Document;
use spinney_document::{Error, ErrorCode, Result};

use super::checksum::crc32c;
use super::header::{HEADER_BYTES, Header, OpCode};
use super::reader::{Reader, malformed};

/// The most documents of a section, which is the most writes of a batch.
pub const BATCH_MAX: usize = 100_000;

const CHECKSUM: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;

/// Flags that must be understood.
const REQUIRED: u32 = 0xFFFF;

/// The documents of a section of kind 1, with their name.
pub type Sequence<'a> = (&'a str, Vec<Document<'a>>);

/// The body of an `OP_MSG`.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// No reply is wanted, or, in a reply, another reply follows.
    pub more_to_come: bool,
    /// The request may be answered by several replies.
    pub exhaust_allowed: bool,
    /// Whether the message had a checksum, so that its reply has one too.
    pub checksum: bool,
    /// The document of the section of kind 0.
    pub body: Document<'a>,
    /// The sections of kind 1.
    pub sequences: Vec<Sequence<'a>>,
}

impl<'a> Message<'a> {
    /// The message with a header and a body.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the body is malformed, and those of [`Reader::document`].
    pub fn parse(header: &Header, body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let flags = reader.u32()?;
        if flags & REQUIRED & !(CHECKSUM | MORE_TO_COME) != 0 {
            return Err(malformed("a required flag is not known"));
        }
        let mut sections = body.get(4..).unwrap_or_default();
        if flags & CHECKSUM != 0 {
            let end = body.len().checked_sub(4).filter(|end| *end >= 4).ok_or_else(|| malformed("no checksum"))?;
            let (checked, sum) = body.split_at(end);
            if sum != crc32c(&[&header.to_bytes(), checked]).to_le_bytes() {
                return Err(Error::new(ErrorCode::new(50_981), "the checksum of the message is wrong"));
            }
            sections = &checked[4..];
        }
        let (document, sequences) = parse_sections(sections)?;
        Ok(Self {
            more_to_come: flags & MORE_TO_COME != 0,
            exhaust_allowed: flags & EXHAUST_ALLOWED != 0,
            checksum: flags & CHECKSUM != 0,
            body: document,
            sequences,
        })
    }

    /// The bytes of the whole message with a header.
    #[must_use]
    pub fn to_bytes(&self, request_id: i32, response_to: i32) -> Vec<u8> {
        let mut flags = 0;
        for (is, flag) in [(self.more_to_come, MORE_TO_COME), (self.exhaust_allowed, EXHAUST_ALLOWED)] {
            flags |= if is { flag } else { 0 };
        }
        let mut body = vec![0];
        body.extend_from_slice(self.body.as_bytes());
        for (name, documents) in &self.sequences {
            let len = 4 + name.len() + 1 + documents.iter().map(|document| document.as_bytes().len()).sum::<usize>();
            body.push(1);
            body.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
            body.extend_from_slice(name.as_bytes());
            body.push(0);
            documents.iter().for_each(|document| body.extend_from_slice(document.as_bytes()));
        }
        finish(request_id, response_to, flags, self.checksum, body)
    }
}

/// A message of flags and sections.
fn finish(request_id: i32, response_to: i32, flags: u32, checksum: bool, sections: Vec<u8>) -> Vec<u8> {
    let len = HEADER_BYTES + 4 + sections.len() + if checksum { 4 } else { 0 };
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&Header { len, request_id, response_to, opcode: OpCode::Message }.to_bytes());
    bytes.extend_from_slice(&(flags | u32::from(checksum)).to_le_bytes());
    bytes.extend_from_slice(&sections);
    if checksum {
        let sum = crc32c(&[&bytes]);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// The beginning of a reply without a checksum, up to its document: header, flags, section kind.
#[must_use]
pub fn reply_head(request_id: i32, response_to: i32, more_to_come: bool, document_len: usize) -> [u8; 21] {
    let header = Header { len: 21 + document_len, request_id, response_to, opcode: OpCode::Message };
    let mut head = [0; 21];
    head[..16].copy_from_slice(&header.to_bytes());
    head[16..20].copy_from_slice(&(if more_to_come { MORE_TO_COME } else { 0 }).to_le_bytes());
    head
}

fn parse_sections(sections: &[u8]) -> Result<(Document<'_>, Vec<Sequence<'_>>)> {
    let mut reader = Reader::new(sections);
    let (mut body, mut sequences): (_, Vec<Sequence<'_>>) = (None, Vec::new());
    while !reader.is_done() {
        match reader.u8()? {
            0 if body.is_some() => return Err(malformed("it has two bodies")),
            0 => body = Some(reader.document()?),
            1 => {
                let len = usize::try_from(reader.i32()?).ok().and_then(|len| len.checked_sub(4));
                let section = reader.take(len.ok_or_else(|| malformed("a section is too short"))?)?;
                let mut section = Reader::new(section);
                let name = section.text()?;
                if sequences.iter().any(|(other, _)| *other == name) {
                    return Err(malformed("two sections have one name"));
                }
                sequences.push((name, section.documents(BATCH_MAX)?));
            }
            _ => return Err(malformed("no such kind of section")),
        }
    }
    let body = body.ok_or_else(|| malformed("it has no body"))?;
    if let Some((name, _)) = sequences.iter().find(|(name, _)| body.element(name).is_some()) {
        return Err(malformed(&format!("the body has a field '{name}' like a section")));
    }
    Ok((body, sequences))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::doc;

    fn split(bytes: &[u8]) -> (Header, &[u8]) {
        let (head, body) = bytes.split_first_chunk().unwrap();
        (Header::parse(head).unwrap(), body)
    }

    fn example(checksum: bool) -> Vec<u8> {
        let (body, one) = (doc! {"insert": "c", "$db": "d"}, doc! {"_id": 1});
        let message = Message {
            more_to_come: true,
            exhaust_allowed: true,
            checksum,
            body: body.view(),
            sequences: vec![("documents", vec![one.view(), one.view()])],
        };
        message.to_bytes(5, 6)
    }

    #[test]
    fn a_message_survives_its_bytes() {
        for checksum in [false, true] {
            let bytes = example(checksum);
            let (header, body) = split(&bytes);
            assert_eq!((header.len, header.request_id, header.response_to), (bytes.len(), 5, 6));
            let read = Message::parse(&header, body).unwrap();
            assert!(read.more_to_come && read.exhaust_allowed && read.checksum == checksum);
            assert_eq!(read.body.to_json(), r#"{"insert":"c","$db":"d"}"#);
            assert_eq!(read.sequences[0].0, "documents");
            assert_eq!(read.sequences[0].1.len(), 2);
            assert_eq!(read.to_bytes(5, 6), bytes);
        }
    }

    #[test]
    fn a_head_is_the_beginning_of_a_reply() {
        let document = doc! {"ok": 1.0};
        let bytes = Message {
            more_to_come: false,
            exhaust_allowed: false,
            checksum: false,
            body: document.view(),
            sequences: vec![],
        }
        .to_bytes(1, 2);
        assert_eq!(bytes[..21], reply_head(1, 2, false, document.as_bytes().len()));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_refused_or_read_without_a_panic() {
        let body_len = doc! {"insert": "c", "$db": "d"}.as_bytes().len();
        for checksum in [false, true] {
            let bytes = example(checksum);
            let (header, body) = split(&bytes);
            for at in 0..body.len() {
                // Between two sections a cut cannot be told, but the length in the header says where a message ends.
                let between = !checksum && at == 5 + body_len;
                assert_eq!(Message::parse(&header, &body[..at]).is_ok(), between);
                for byte in 0..=255 {
                    let mut changed = body.to_vec();
                    changed[at] = byte;
                    if let Ok(message) = Message::parse(&header, &changed) {
                        assert!(!message.checksum || byte == body[at]);
                    }
                }
            }
        }
    }

    #[test]
    fn bodies_and_sections_are_single() {
        let (header, document) = (split(&example(false)).0, doc! {"a": 1});
        let body = |sections: &[&[u8]]| [&[0; 4][..], &sections.concat()].concat();
        let kind0 = [&[0][..], document.as_bytes()].concat();
        let named = [&[1, 6, 0, 0, 0, b'a', 0][..]].concat();
        let other = [&[1, 6, 0, 0, 0, b'b', 0][..]].concat();
        assert!(Message::parse(&header, &body(&[&kind0, &other])).is_ok());
        for sections in [&[&kind0[..], &kind0][..], &[&kind0, &other, &other], &[&kind0, &named], &[&other], &[&[2]]] {
            let error = Message::parse(&header, &body(sections)).unwrap_err();
            assert_eq!(error.code(), ErrorCode::PROTOCOL_ERROR);
        }
    }

    #[test]
    fn nesting_of_a_thousand_levels_is_refused() {
        let mut nested = vec![5, 0, 0, 0, 0];
        for _ in 0..1000 {
            let len = u32::try_from(nested.len() + 8).unwrap().to_le_bytes();
            nested = [&len[..], &[3, b'a', 0], &nested, &[0]].concat();
        }
        let body = [&[0; 5][..], &nested].concat();
        let header = Header { len: body.len() + 16, request_id: 0, response_to: 0, opcode: OpCode::Message };
        assert_eq!(Message::parse(&header, &body).unwrap_err().code(), ErrorCode::OVERFLOW);
    }

    #[test]
    fn required_flags_must_be_known() {
        let bytes = example(false);
        let (header, body) = split(&bytes);
        let mut changed = body.to_vec();
        changed[0] |= 4;
        assert!(Message::parse(&header, &changed).is_err());
        changed[0] &= !4;
        changed[3] |= 0x80;
        assert!(Message::parse(&header, &changed).is_ok());
    }
}
