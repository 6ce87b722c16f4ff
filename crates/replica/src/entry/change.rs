//! What an entry changes in the database.
//!
//! # Format
//! A byte for the kind, then its fields: strings with their lengths, numbers as varints. The record ends the entry.

use spinney::Layout;
use spinney::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use spinney::base::num::u64_of;

/// Which call of which process proposed an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Proposal {
    /// The identity of the member's copy of the log.
    pub(crate) identity: u64,
    /// A number that no other proposal of it has.
    pub(crate) number: u64,
}

/// A change of the database. The numbers are stored; never reuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// A commit.
    Commit(Commit<'a>),
    /// A table is created.
    CreateTable(&'a str, Layout),
    /// A table is dropped.
    DropTable(&'a str),
}

/// A commit as it was prepared on the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit<'a> {
    pub(crate) proposal: Proposal,
    /// The ids that the record uses, with the names of the tables. Ids differ between members.
    pub(crate) tables: Vec<(u32, &'a str)>,
    /// The changes and the note, as the engine encodes them.
    pub(crate) record: &'a [u8],
}

const COMMIT: u8 = 1;
const CREATE_TABLE: u8 = 2;
const DROP_TABLE: u8 = 3;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

impl<'a> Change<'a> {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Commit(Commit { proposal, tables, record }) => {
                out.reserve(record.len() + 32 + 24 * tables.len());
                out.push(COMMIT);
                out.extend_from_slice(&proposal.identity.to_le_bytes());
                out.extend_from_slice(&proposal.number.to_le_bytes());
                put_varint(&mut out, u64_of(tables.len()));
                for (id, name) in tables {
                    put_varint(&mut out, u64::from(*id));
                    put_len_prefixed(&mut out, name.as_bytes());
                }
                out.extend_from_slice(record);
            }
            Self::CreateTable(name, layout) => {
                out.push(CREATE_TABLE);
                put_len_prefixed(&mut out, layout.name().as_bytes());
                put_len_prefixed(&mut out, name.as_bytes());
            }
            Self::DropTable(name) => {
                out.push(DROP_TABLE);
                put_len_prefixed(&mut out, name.as_bytes());
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
                let proposal = Proposal { identity: input.u64()?, number: input.u64()? };
                let mut tables = Vec::new();
                for _ in 0..input.varint()? {
                    let id = u32::try_from(input.varint()?).map_err(|_| Malformed)?;
                    tables.push((id, name(&mut input)?));
                }
                Ok(Self::Commit(Commit { proposal, tables, record: input.rest() }))
            }
            CREATE_TABLE => {
                let layout = name(&mut input)?;
                let layout = LAYOUTS.into_iter().find(|known| known.name() == layout).ok_or(Malformed)?;
                Ok(Self::CreateTable(name(&mut input)?, layout))
            }
            DROP_TABLE => Ok(Self::DropTable(name(&mut input)?)),
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
        let proposal = Proposal { identity: u64::MAX, number: 5 };
        let changes = [
            Change::Commit(Commit { proposal, tables: vec![(7, "c1"), (900, "catalog")], record: b"record" }),
            Change::CreateTable("a", Layout::Lsm),
            Change::DropTable("a"),
        ];
        for change in changes {
            let bytes = change.encode();
            assert_eq!(Change::decode(&bytes).unwrap(), change);
            (0..bytes.len()).for_each(|len| drop(Change::decode(&bytes[..len])));
        }
        assert!(Change::decode(b"\x09").is_err());
    }
}
