//! An edit: one durable change of what a database consists of.
//!
//! # Format
//! One byte that names the edit, then its fields in the order of the enum (numbers are varints; an optional part is
//! preceded by a byte 0 or 1).

use std::sync::Arc;

use crate::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use crate::base::num::u64_of;
use crate::base::{FileId, Lsn, SeqNum, TableId};
use crate::tree::btree::TreeMeta;
use crate::tree::range_tombstone::RangeTombstones;

use super::codec;
use super::level::LevelId;
use super::options::TableOptions;
use super::record::RunRecord;
use super::seqnum_to_time::SeqnumToTime;

/// What [`Edit::Many`] is stored as.
const MANY: u8 = 12;

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

    /// Appends the edit's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::CreateTable { id, name, options, replay_from, tree } => {
                out.push(1);
                put_varint(out, u64::from(id.0));
                put_len_prefixed(out, name.as_bytes());
                codec::put_options(out, options);
                put_varint(out, replay_from.0);
                put_option(out, tree.as_ref(), |out, id| put_varint(out, id.0));
            }
            Self::DropTable { id, log_from } => {
                out.push(2);
                put_varint(out, u64::from(id.0));
                put_varint(out, log_from.0);
            }
            Self::Flush { table, replay_from, log_from, run, tree, range_tombstones } => {
                out.push(3);
                put_varint(out, u64::from(table.0));
                put_varint(out, replay_from.0);
                put_varint(out, log_from.0);
                put_option(out, run.as_ref(), codec::put_run);
                put_option(out, tree.as_ref(), |out, meta| meta.encode(out));
                codec::put_range_tombstones(out, range_tombstones);
            }
            Self::Compact { table, removed, added } => {
                out.push(4);
                put_varint(out, u64::from(table.0));
                put_ids(out, removed);
                put_placed(out, added);
            }
            Self::Opened { seqnum_floor, log_from } => {
                out.push(5);
                put_varint(out, seqnum_floor.0);
                put_varint(out, log_from.0);
            }
            Self::MoveLog { log_dir } => {
                out.push(6);
                put_option(out, log_dir.as_ref(), |out, dir| put_len_prefixed(out, dir.as_bytes()));
            }
            Self::Load { table, replay_from, runs } => {
                out.push(11);
                put_varint(out, u64::from(table.0));
                put_varint(out, replay_from.0);
                put_placed(out, runs);
            }
            Self::BTreeMerge { table, replay_from, log_from, removed, tree, range_tombstones } => {
                out.push(8);
                put_varint(out, u64::from(table.0));
                put_varint(out, replay_from.0);
                put_varint(out, log_from.0);
                put_ids(out, removed);
                tree.encode(out);
                codec::put_range_tombstones(out, range_tombstones);
            }
            Self::RangeDelete { table, range_tombstones } => {
                out.push(9);
                put_varint(out, u64::from(table.0));
                codec::put_range_tombstones(out, range_tombstones);
            }
            Self::Expire { table, seqnum_to_time, range_tombstones } => {
                out.push(10);
                put_varint(out, u64::from(table.0));
                codec::put_seqnum_to_time(out, seqnum_to_time);
                codec::put_range_tombstones(out, range_tombstones);
            }
            Self::Many(edits) => put_many(out, edits),
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

    /// Reads the fields of an edit that is none of several.
    fn decode_kind(kind: u8, decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match kind {
            1 => Self::CreateTable {
                id: TableId(codec::narrow(decoder)?),
                name: codec::name(decoder)?,
                options: codec::options(decoder)?,
                replay_from: codec::lsn(decoder)?,
                tree: option(decoder, codec::file)?,
            },
            2 => Self::DropTable { id: TableId(codec::narrow(decoder)?), log_from: codec::lsn(decoder)? },
            3 => Self::Flush {
                table: TableId(codec::narrow(decoder)?),
                replay_from: codec::lsn(decoder)?,
                log_from: codec::lsn(decoder)?,
                run: option(decoder, codec::run)?,
                tree: option(decoder, TreeMeta::decode)?,
                range_tombstones: codec::range_tombstones(decoder)?,
            },
            4 => Self::Compact {
                table: TableId(codec::narrow(decoder)?),
                removed: ids(decoder)?,
                added: placed(decoder)?,
            },
            5 => Self::Opened { seqnum_floor: codec::seqnum(decoder)?, log_from: codec::lsn(decoder)? },
            6 => Self::MoveLog { log_dir: option(decoder, codec::path)? },
            7 => {
                let (table, replay_from) = (TableId(codec::narrow(decoder)?), codec::lsn(decoder)?);
                let place = option(decoder, codec::place)?.unwrap_or(LevelId::L0);
                let runs = codec::runs(decoder)?.into_iter().map(|run| (place, run)).collect();
                Self::Load { table, replay_from, runs }
            }
            8 => Self::BTreeMerge {
                table: TableId(codec::narrow(decoder)?),
                replay_from: codec::lsn(decoder)?,
                log_from: codec::lsn(decoder)?,
                removed: ids(decoder)?,
                tree: TreeMeta::decode(decoder)?,
                range_tombstones: codec::range_tombstones(decoder)?,
            },
            9 => Self::RangeDelete {
                table: TableId(codec::narrow(decoder)?),
                range_tombstones: codec::range_tombstones(decoder)?,
            },
            10 => Self::Expire {
                table: TableId(codec::narrow(decoder)?),
                seqnum_to_time: codec::seqnum_to_time(decoder)?,
                range_tombstones: codec::range_tombstones(decoder)?,
            },
            11 => Self::Load {
                table: TableId(codec::narrow(decoder)?),
                replay_from: codec::lsn(decoder)?,
                runs: placed(decoder)?,
            },
            _ => return Err(Malformed),
        })
    }
}

fn put_many(out: &mut Vec<u8>, edits: &[Edit]) {
    out.push(MANY);
    put_varint(out, u64_of(edits.len()));
    for edit in edits {
        assert!(!matches!(edit, Edit::Many(_)), "edits of several are not nested");
        edit.encode(out);
    }
}

fn put_placed(out: &mut Vec<u8>, runs: &[(LevelId, RunRecord)]) {
    put_varint(out, u64_of(runs.len()));
    for (place, run) in runs {
        codec::put_place(out, *place);
        codec::put_run(out, run);
    }
}

fn placed(decoder: &mut Decoder<'_>) -> Result<Vec<(LevelId, RunRecord)>, Malformed> {
    let count = decoder.varint()?;
    (0..count).map(|_| Ok((codec::place(decoder)?, codec::run(decoder)?))).collect()
}

fn put_ids(out: &mut Vec<u8>, ids: &[FileId]) {
    put_varint(out, u64_of(ids.len()));
    ids.iter().for_each(|id| put_varint(out, id.0));
}

fn ids(decoder: &mut Decoder<'_>) -> Result<Vec<FileId>, Malformed> {
    let count = decoder.varint()?;
    (0..count).map(|_| decoder.varint().map(FileId)).collect()
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn option<'a, T>(
    decoder: &mut Decoder<'a>,
    read: impl FnOnce(&mut Decoder<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    match decoder.u8()? {
        0 => Ok(None),
        1 => read(decoder).map(Some),
        _ => Err(Malformed),
    }
}
