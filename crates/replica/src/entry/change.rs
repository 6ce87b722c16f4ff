//! What an entry changes in the database.
//!
//! # Format
//! A byte for the kind, then its fields: strings with their lengths, numbers as varints; the names of tables that are
//! dropped, to the end. Of commits: the identity, 8 bytes; how many tables, and of each the id and the name; then to
//! the end of each commit the difference of its number to that of the commit before, in zigzag encoding (0, -1, 1, -2
//! and so on are 0, 1, 2, 3), and its record with its length. The number before the first one is 0.

use std::collections::BTreeMap;

use spinney::Layout;
use spinney::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use spinney::base::num::u64_of;
use spinney_document::base::num::{unzigzag, zigzag};

/// Commits in one entry, at the most.
pub(crate) const COMMITS_MAX: usize = 1 << 10;

/// A change of the database. The numbers are stored; never reuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// Commits, in their order.
    Commits(Commits<'a>),
    /// A table is created.
    CreateTable(&'a str, Layout),
    /// Tables are dropped.
    DropTables(Vec<&'a str>),
}

/// Commits of one primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commits<'a> {
    /// The identity of the primary's copy of the log.
    pub(crate) identity: u64,
    /// The ids that the records use, with the names of the tables. Ids differ between members.
    pub(crate) tables: Vec<(u32, &'a str)>,
    /// Up to [`COMMITS_MAX`].
    pub(crate) commits: Vec<Commit<'a>>,
}

/// A commit as it was prepared on the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit<'a> {
    /// A number that no other commit of the same identity has.
    pub(crate) number: u64,
    /// The changes and the note, as the engine encodes them.
    pub(crate) record: &'a [u8],
    /// Where the record begins in the bytes of the change.
    pub(crate) record_at: usize,
}

/// Makes the bytes of commits.
#[derive(Debug)]
pub(crate) struct CommitsBuilder {
    identity: u64,
    tables: BTreeMap<u32, String>,
    /// The number of the last commit.
    number: u64,
    commits: Vec<u8>,
}

/// 1 was that of commits with whole numbers.
const COMMITS: u8 = 4;
const CREATE_TABLE: u8 = 2;
/// One table, by its name: written before several were dropped together, and read.
const DROP_TABLE: u8 = 3;
const DROP_TABLES: u8 = 5;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

impl<'a> Change<'a> {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Commits(Commits { identity, tables, commits }) => {
                let mut builder = CommitsBuilder::new(*identity);
                commits.iter().for_each(|commit| builder.push(commit.number, tables.iter().copied(), commit.record));
                return builder.finish();
            }
            Self::CreateTable(name, layout) => {
                out.push(CREATE_TABLE);
                put_len_prefixed(&mut out, layout.name().as_bytes());
                put_len_prefixed(&mut out, name.as_bytes());
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
            COMMITS => {
                let (identity, mut tables, mut commits) = (input.u64()?, Vec::new(), Vec::new());
                for _ in 0..input.varint()? {
                    let id = u32::try_from(input.varint()?).map_err(|_| Malformed)?;
                    tables.push((id, name(&mut input)?));
                }
                let mut number = 0_u64;
                while !input.is_empty() {
                    number = number.wrapping_add_signed(unzigzag(input.varint()?));
                    let record = input.len_prefixed()?;
                    commits.push(Commit { number, record, record_at: bytes.len() - input.rest().len() - record.len() });
                }
                let few = commits.len() <= COMMITS_MAX;
                if few { Ok(Self::Commits(Commits { identity, tables, commits })) } else { Err(Malformed) }
            }
            CREATE_TABLE => {
                let layout = name(&mut input)?;
                let layout = LAYOUTS.into_iter().find(|known| known.name() == layout).ok_or(Malformed)?;
                Ok(Self::CreateTable(name(&mut input)?, layout))
            }
            DROP_TABLE => Ok(Self::DropTables(vec![name(&mut input)?])),
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

impl CommitsBuilder {
    /// No commits of the primary whose copy of the log is `identity`.
    pub(crate) fn new(identity: u64) -> Self {
        Self { identity, tables: BTreeMap::new(), number: 0, commits: Vec::new() }
    }

    /// The bytes of the commits that there are, more or less.
    pub(crate) fn bytes(&self) -> usize {
        self.commits.len()
    }

    /// Appends a commit, whose record uses these ids of tables.
    pub(crate) fn push<'n>(&mut self, number: u64, tables: impl IntoIterator<Item = (u32, &'n str)>, record: &[u8]) {
        for (id, name) in tables {
            self.tables.entry(id).or_insert_with(|| name.to_owned());
        }
        put_varint(&mut self.commits, zigzag(number.wrapping_sub(self.number).cast_signed()));
        self.number = number;
        put_len_prefixed(&mut self.commits, record);
    }

    /// The bytes of [`Change::Commits`].
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.commits.len() + 16 + 24 * self.tables.len());
        out.push(COMMITS);
        out.extend_from_slice(&self.identity.to_le_bytes());
        put_varint(&mut out, u64_of(self.tables.len()));
        for (id, name) in &self.tables {
            put_varint(&mut out, u64::from(*id));
            put_len_prefixed(&mut out, name.as_bytes());
        }
        out.extend_from_slice(&self.commits);
        out
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
        let commit = |number, record_at| Commit { number, record: b"record", record_at };
        let tables = vec![(7, "c1"), (900, "catalog")];
        let commits = vec![commit(5, 26), commit(u64::MAX, 34), commit(6, 42)];
        let changes = [
            Change::Commits(Commits { identity: u64::MAX, tables, commits }),
            Change::CreateTable("a", Layout::Lsm),
            Change::DropTables(Vec::new()),
            Change::DropTables(vec!["a", "", "c-17"]),
        ];
        for change in changes {
            let bytes = change.encode();
            assert_eq!(Change::decode(&bytes).unwrap(), change);
            (0..bytes.len()).for_each(|len| drop(Change::decode(&bytes[..len])));
        }
        assert_eq!(Change::decode(b"\x03\x01a").unwrap(), Change::DropTables(vec!["a"]));
        assert!(Change::decode(b"\x09").is_err());
    }
}
