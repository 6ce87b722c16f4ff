//! Messages by which a copy of the primary's database goes to a member whose log ends too early.
//!
//! # Format
//! Numbers are varints, strings and bytes have their lengths before them; the checksum has 8 bytes.

use spinney::base::checksum::checksum;
use spinney::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use spinney::base::num::u64_of;

use super::log_entry::LogId;

/// A file of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopiedFile {
    /// Its name, or that of the folder, a slash and its name.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A step of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyStep {
    /// A copy begins; an earlier one that did not end is forgotten.
    Begin {
        /// Its number, which the other steps repeat.
        copy: u64,
        /// The term of the primary.
        term: u64,
        /// The place of the last entry that is applied in the copy, at the least.
        applied: LogId,
        files: Vec<CopiedFile>,
    },
    /// A part of a file.
    Part {
        copy: u64,
        /// Which of the files.
        file: u64,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// All parts were sent.
    End { copy: u64 },
}

const BEGIN: u8 = 1;
const PART: u8 = 2;
const END: u8 = 3;

impl CopyStep {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Begin { copy, term, applied, files } => {
                out.push(BEGIN);
                put_varint(&mut out, *copy);
                put_varint(&mut out, *term);
                applied.encode(&mut out);
                put_varint(&mut out, u64_of(files.len()));
                for file in files {
                    put_len_prefixed(&mut out, file.name.as_bytes());
                    put_varint(&mut out, file.bytes);
                }
            }
            Self::Part { copy, file, offset, bytes } => {
                out.push(PART);
                [*copy, *file, *offset].into_iter().for_each(|number| put_varint(&mut out, number));
                out.extend_from_slice(&checksum(*copy ^ *file, *offset, bytes).to_le_bytes());
                put_len_prefixed(&mut out, bytes);
            }
            Self::End { copy } => {
                out.push(END);
                put_varint(&mut out, *copy);
            }
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense, or a part is not as it was sent.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        match input.u8()? {
            BEGIN => {
                let (copy, term, applied) = (input.varint()?, input.varint()?, LogId::decode(&mut input)?);
                let mut files = Vec::new();
                for _ in 0..input.varint()? {
                    let name = String::from_utf8(input.len_prefixed()?.to_vec()).map_err(|_| Malformed)?;
                    files.push(CopiedFile { name, bytes: input.varint()? });
                }
                Ok(Self::Begin { copy, term, applied, files })
            }
            PART => {
                let (copy, file, offset) = (input.varint()?, input.varint()?, input.varint()?);
                let (sum, bytes) = (input.u64()?, input.len_prefixed()?);
                let is_sound = sum == checksum(copy ^ file, offset, bytes);
                if is_sound { Ok(Self::Part { copy, file, offset, bytes: bytes.to_vec() }) } else { Err(Malformed) }
            }
            END => Ok(Self::End { copy: input.varint()? }),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back_and_a_part_that_was_changed_is_refused() {
        let file = CopiedFile { name: "log/1".to_owned(), bytes: 300 };
        let begin = CopyStep::Begin { copy: 7, term: 3, applied: LogId { term: 2, index: 9 }, files: vec![file] };
        let part = CopyStep::Part { copy: 7, file: 0, offset: 200, bytes: b"bytes".to_vec() };
        for step in [begin, part.clone(), CopyStep::End { copy: 7 }] {
            let bytes = step.encode();
            assert_eq!(CopyStep::decode(&bytes).unwrap(), step);
            (0..bytes.len()).for_each(|len| assert!(CopyStep::decode(&bytes[..len]).is_err()));
        }
        let mut changed = part.encode();
        *changed.last_mut().unwrap() ^= 1;
        assert!(CopyStep::decode(&changed).is_err());
    }
}
