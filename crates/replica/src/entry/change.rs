//! What an entry changes in the database.
//!
//! # Format
//! A byte for the kind, then its fields: strings and records with their lengths, counts as varints.

use spinney::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};

/// A change of the database. The numbers are stored; never reuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// A commit.
    Commit {
        /// The ids that the record uses, with the names of the tables. Ids differ between members.
        tables: Vec<(u32, &'a str)>,
        /// The changes and the note, as the engine encodes them.
        record: &'a [u8],
    },
    /// Tables are created: of each the name, and the options as the engine encodes them.
    CreateTables(Vec<(&'a str, &'a [u8])>),
    /// Tables are dropped.
    DropTables(Vec<&'a str>),
}

const COMMIT: u8 = 1;
const CREATE_TABLES: u8 = 2;
const DROP_TABLES: u8 = 3;

impl<'a> Change<'a> {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Commit { tables, record } => {
                out.reserve(record.len() + 16 + 24 * tables.len());
                out.push(COMMIT);
                put_varint(&mut out, spinney::base::num::u64_of(tables.len()));
                for (id, name) in tables {
                    put_varint(&mut out, u64::from(*id));
                    put_len_prefixed(&mut out, name.as_bytes());
                }
                out.extend_from_slice(record);
            }
            Self::CreateTables(tables) => {
                out.push(CREATE_TABLES);
                for (name, options) in tables {
                    put_len_prefixed(&mut out, name.as_bytes());
                    put_len_prefixed(&mut out, options);
                }
            }
            Self::DropTables(names) => {
                out.push(DROP_TABLES);
                names.iter().for_each(|name| put_len_prefixed(&mut out, name.as_bytes()));
            }
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes make no sense.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        match input.u8()? {
            COMMIT => {
                let mut tables = Vec::new();
                for _ in 0..input.varint()? {
                    let id = u32::try_from(input.varint()?).map_err(|_| Malformed)?;
                    tables.push((id, name(&mut input)?));
                }
                Ok(Self::Commit { tables, record: input.rest() })
            }
            CREATE_TABLES => {
                let mut tables = Vec::new();
                while !input.is_empty() {
                    tables.push((name(&mut input)?, input.len_prefixed()?));
                }
                Ok(Self::CreateTables(tables))
            }
            DROP_TABLES => {
                let mut names = Vec::new();
                while !input.is_empty() {
                    names.push(name(&mut input)?);
                }
                Ok(Self::DropTables(names))
            }
            _ => Err(Malformed),
        }
    }
}

fn name<'a>(input: &mut Decoder<'a>) -> Result<&'a str, Malformed> {
    std::str::from_utf8(input.len_prefixed()?).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_from_their_bytes_and_no_prefix_of_them_panics() {
        let changes = [
            Change::Commit { tables: vec![(7, "c1"), (900, "catalog")], record: b"record" },
            Change::CreateTables(vec![("a", b"options"), ("b", b"")]),
            Change::DropTables(vec!["a", "b"]),
        ];
        for change in changes {
            let bytes = change.encode();
            assert_eq!(Change::decode(&bytes).unwrap(), change);
            (0..bytes.len()).for_each(|len| drop(Change::decode(&bytes[..len])));
        }
        assert!(Change::decode(b"\x09").is_err());
    }
}
