//! An edit: one durable change of what a database consists of.
//!
//! # Format
//! One byte that names the edit, then its fields in the order of the enum (numbers are varints; an optional part is
//! preceded by a byte 0 or 1).

use std::sync::Arc;

use crate::base::codec::{Decoder, Malformed, put_varint};
use crate::base::num::u64_of;
use crate::base::{FileId, Lsn, SeqNum, TableId};
use crate::tree::btree::TreeMeta;
use crate::tree::range_tombstone::RangeTombstones;

use super::codec::Stored;
use super::level::LevelId;
use super::options::TableOptions;
use super::record::RunRecord;
use super::seqnum_to_time::SeqnumToTime;

/// What [`Edit::Many`] is stored as.
const MANY: u8 = 12;
/// What [`Edit::Load`] was stored as when its runs had one place.
const LOAD_AT_ONE_PLACE: u8 = 7;

/// A change of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// A new table. Stored as 1; never reuse.
    CreateTable {
        /// Its id.
        id: TableId,
        /// Its name.
        name: String,
        /// Its options.
        options: TableOptions,
        /// The log position of its birth.
        replay_from: Lsn,
        /// The file of its B-tree, if its layout has one.
        tree: Option<FileId>,
    },
    /// A table and its files are gone. Stored as 2; never reuse.
    DropTable {
        /// Its id.
        id: TableId,
        /// The log before this position is not needed for any other table.
        log_from: Lsn,
    },
    /// A memtable reached the disk. Stored as 3; never reuse.
    Flush {
        /// Whose memtable.
        table: TableId,
        /// The log before this position is not needed for the table any more.
        replay_from: Lsn,
        /// The log before this position is not needed for any table any more.
        log_from: Lsn,
        /// The run laid down in L0, if any.
        run: Option<RunRecord>,
        /// The new root of the B-tree, if any.
        tree: Option<TreeMeta>,
        /// The range tombstones that came with the memtable.
        range_tombstones: Arc<RangeTombstones>,
    },
    /// Runs were replaced by others. Stored as 4; never reuse.
    Compact {
        /// Whose runs.
        table: TableId,
        /// The runs replaced, in any level.
        removed: Vec<FileId>,
        /// The runs that replace them, each with its place: the index of its level (0 is level 1), or 127 for L0, where
        /// it takes the place of the newest run replaced.
        added: Vec<(LevelId, RunRecord)>,
    },
    /// The database was opened, or has given out many seqnums since. Stored as 5; never reuse.
    Opened {
        /// The next open gives out no seqnum below.
        seqnum_floor: SeqNum,
        /// The log before this position is not needed for any table.
        log_from: Lsn,
    },
    /// Runs of a bulk load came to a table. Stored as 11; never reuse. (As 7, which is read too, with one place for
    /// all: an optional level, none for L0, then the runs.)
    Load {
        /// Whose runs.
        table: TableId,
        /// The log before this position is not needed for the table any more.
        replay_from: Lsn,
        /// The runs, which do not overlap, and where they are now. Those of L0 came to its front.
        runs: Vec<(LevelId, RunRecord)>,
    },
    /// Runs of a table went into its B-tree, all that there were when the merge began; perhaps memtables too. Stored as
    /// 8; never reuse.
    BTreeMerge {
        /// Whose trees.
        table: TableId,
        /// The log before this position is not needed for the table any more.
        replay_from: Lsn,
        /// The log before this position is not needed for any table any more.
        log_from: Lsn,
        /// The runs.
        removed: Vec<FileId>,
        /// The new root of the B-tree.
        tree: TreeMeta,
        /// The range tombstones that came with the memtables, if any did.
        range_tombstones: Arc<RangeTombstones>,
    },
    /// Range tombstones of a table are not needed any more. Stored as 9; never reuse.
    RangeDelete {
        /// Whose range tombstones.
        table: TableId,
        /// What is left of them.
        range_tombstones: Arc<RangeTombstones>,
    },
    /// Entries of a table were dated, or are too old to be seen. Stored as 10; never reuse.
    Expire {
        /// Whose entries.
        table: TableId,
        /// How old those are that are left.
        seqnum_to_time: SeqnumToTime,
        /// The range tombstones, with that of the entries which are not.
        range_tombstones: Arc<RangeTombstones>,
    },
    /// The redo log was recovered from another directory than before. Stored as 6; never reuse.
    MoveLog {
        /// Its absolute path; none for `log` in the database's directory.
        log_dir: Option<String>,
    },
    /// Several edits, all made or none. None of them is of this kind. Stored as 12; never reuse.
    Many(Vec<Edit>),
}

impl Edit {
    /// Whether the change that the edit describes frees space, at once or soon: the edit may use what is reserved
    /// behind the manifest.
    #[must_use]
    pub fn gives_back(&self) -> bool {
        match self {
            Self::CreateTable { .. } | Self::Load { .. } => false,
            Self::Many(edits) => edits.iter().all(Self::gives_back),
            _ => true,
        }
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not such.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match decoder.u8()? {
            MANY => {
                let count = decoder.varint()?;
                let edits = (0..count).map(|_| decoder.u8().and_then(|kind| Self::decode_kind(kind, decoder)));
                edits.collect::<Result<_, _>>().map(Self::Many)
            }
            kind => Self::decode_kind(kind, decoder),
        }
    }
}

/// Stores edits as their number and their fields, in this order.
macro_rules! stored {
    ($($number:literal => $name:ident { $($field:ident),* };)*) => {
        impl Edit {
            /// Appends the edit to `out`.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($field),* } => {
                        out.push($number);
                        $($field.put(out);)*
                    })*
                    Self::Many(edits) => put_many(out, edits),
                }
            }

            fn decode_kind(kind: u8, decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
                match kind {
                    $($number => Ok(Self::$name { $($field: Stored::take(decoder)?),* }),)*
                    LOAD_AT_ONE_PLACE => load_at_one_place(decoder),
                    _ => Err(Malformed),
                }
            }
        }
    };
}

stored! {
    1 => CreateTable { id, name, options, replay_from, tree };
    2 => DropTable { id, log_from };
    3 => Flush { table, replay_from, log_from, run, tree, range_tombstones };
    4 => Compact { table, removed, added };
    5 => Opened { seqnum_floor, log_from };
    6 => MoveLog { log_dir };
    8 => BTreeMerge { table, replay_from, log_from, removed, tree, range_tombstones };
    9 => RangeDelete { table, range_tombstones };
    10 => Expire { table, seqnum_to_time, range_tombstones };
    11 => Load { table, replay_from, runs };
}

fn put_many(out: &mut Vec<u8>, edits: &[Edit]) {
    out.push(MANY);
    put_varint(out, u64_of(edits.len()));
    for edit in edits {
        assert!(!matches!(edit, Edit::Many(_)), "edits of several are not nested");
        edit.encode(out);
    }
}

/// An [`Edit::Load`] whose runs have one place.
fn load_at_one_place(decoder: &mut Decoder<'_>) -> Result<Edit, Malformed> {
    let (table, replay_from) = Stored::take(decoder)?;
    let (place, runs): (Option<LevelId>, Vec<RunRecord>) = Stored::take(decoder)?;
    let runs = runs.into_iter().map(|run| (place.unwrap_or(LevelId::L0), run)).collect();
    Ok(Edit::Load { table, replay_from, runs })
}
