//! How the parts of a table's record are laid down in the manifest.

use std::sync::Arc;
use std::time::Duration;

use crate::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use crate::base::num::u64_of;
use crate::base::{FileId, Lsn, SeqNum};
use crate::block::Compression;
use crate::tree::btree::TreeMeta;
use crate::tree::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::tree::run::RunMeta;
use crate::tree::{Limits, Prefix};

use super::files::FILE_ID_MAX;
use super::level::{LEVELS, LevelId};
use super::options::{Layout, TableOptions};
use super::record::{RunRecord, TableRecord, check_disjoint};
use super::seqnum_to_time::{SeqnumToTime, TimeSample};

/// A varint that must fit a narrower type.
pub(super) fn narrow<T: TryFrom<u64>>(decoder: &mut Decoder<'_>) -> Result<T, Malformed> {
    T::try_from(decoder.varint()?).map_err(|_| Malformed)
}

/// A seqnum that leaves room for those of many more opens.
pub(super) fn seqnum(decoder: &mut Decoder<'_>) -> Result<SeqNum, Malformed> {
    Some(SeqNum(decoder.varint()?)).filter(|seqnum| *seqnum <= SeqNum::MAX).ok_or(Malformed)
}

/// A position of the log that leaves room for many more.
pub(super) fn lsn(decoder: &mut Decoder<'_>) -> Result<Lsn, Malformed> {
    Some(Lsn(decoder.varint()?)).filter(|lsn| *lsn <= Lsn::MAX).ok_or(Malformed)
}

/// The id of a file.
pub(super) fn file(decoder: &mut Decoder<'_>) -> Result<FileId, Malformed> {
    Some(FileId(decoder.varint()?)).filter(|id| *id <= FILE_ID_MAX).ok_or(Malformed)
}

/// The code of L0 where a level's index would be. Stored; never reuse.
const L0: u64 = 127;

pub(super) fn put_place(out: &mut Vec<u8>, place: LevelId) {
    put_varint(
        out,
        match place {
            LevelId::L0 => L0,
            LevelId::Level(index) => u64_of(index),
        },
    );
}

/// The place of a run.
pub(super) fn place(decoder: &mut Decoder<'_>) -> Result<LevelId, Malformed> {
    match decoder.varint()? {
        L0 => Ok(LevelId::L0),
        index => usize::try_from(index).ok().filter(|index| *index < LEVELS).map(LevelId::Level).ok_or(Malformed),
    }
}

/// An absolute path.
pub(super) fn path(decoder: &mut Decoder<'_>) -> Result<String, Malformed> {
    let text = std::str::from_utf8(decoder.len_prefixed()?).map_err(|_| Malformed)?;
    Some(text.to_owned()).filter(|text| !text.is_empty()).ok_or(Malformed)
}

/// The flags of a table's options: set in all of them, and means nothing. Stored; never reuse the bit.
const ALWAYS: u8 = 1;
/// Changes do not go to the redo log. Stored; never reuse the bit.
const UNLOGGED: u8 = 2;
/// The name of a merge operator follows. Stored; never reuse the bit.
const MERGES: u8 = 4;
/// The name of a compaction filter follows. Stored; never reuse the bit.
const COMPACTION_FILTERS: u8 = 8;
/// The size in bytes from which on values are separated follows. Stored; never reuse the bit.
const APART: u8 = 16;
// Bit 32 once said that the last level has no filter: no longer set, ignored where it is. Never reuse the bit.
/// The rule of the filters' prefixes follows. Stored; never reuse the bit.
const KNOWS_PREFIXES: u8 = 64;
/// How many milliseconds entries live follows, and the table's record has marks. Stored; never reuse the bit.
const EXPIRES: u8 = 128;

pub(super) fn put_options(out: &mut Vec<u8>, options: &TableOptions) {
    out.push(options.layout.to_byte());
    out.push(options.compression as u8);
    let flag = |is_set, bit| if is_set { bit } else { 0 };
    let merges = flag(options.merge.is_some(), MERGES);
    let filters = flag(options.compaction_filter.is_some(), COMPACTION_FILTERS);
    let apart = flag(options.large_value_bytes > 0, APART);
    let prefixes = flag(options.prefix_filter.is_some(), KNOWS_PREFIXES);
    let expires = flag(options.time_to_live.is_some(), EXPIRES);
    let flags = ALWAYS | flag(!options.logged, UNLOGGED);
    out.push(flags | merges | filters | apart | prefixes | expires);
    put_varint(out, u64::from(options.block_bytes));
    put_varint(out, u64::from(options.filter_bits_per_key));
    put_varint(out, options.run_bytes_max);
    put_varint(out, u64::from(options.fanout));
    for name in [&options.merge, &options.compaction_filter].into_iter().flatten() {
        put_len_prefixed(out, name.as_bytes());
    }
    if options.large_value_bytes > 0 {
        put_varint(out, u64::from(options.large_value_bytes));
    }
    if let Some(prefix) = options.prefix_filter {
        put_varint(out, u64::from(prefix.to_code()));
    }
    if let Some(time) = options.time_to_live {
        put_varint(out, u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }
}

pub(super) fn options(decoder: &mut Decoder<'_>) -> Result<TableOptions, Malformed> {
    let layout = Layout::from_byte(decoder.u8()?).ok_or(Malformed)?;
    let compression = Compression::from_byte(decoder.u8()?).ok_or(Malformed)?;
    let flags = decoder.u8()?;
    let options = TableOptions {
        layout,
        compression,
        logged: flags & UNLOGGED == 0,
        block_bytes: narrow(decoder)?,
        filter_bits_per_key: narrow(decoder)?,
        run_bytes_max: decoder.varint()?,
        fanout: narrow(decoder)?,
        merge: if flags & MERGES == 0 { None } else { Some(name(decoder)?) },
        compaction_filter: if flags & COMPACTION_FILTERS == 0 { None } else { Some(name(decoder)?) },
        large_value_bytes: if flags & APART == 0 { 0 } else { narrow(decoder)? },
        prefix_filter: if flags & KNOWS_PREFIXES == 0 { None } else { Some(Prefix::from_code(narrow(decoder)?)?) },
        time_to_live: if flags & EXPIRES == 0 { None } else { Some(Duration::from_millis(decoder.varint()?)) },
    };
    options.check().map_err(|_| Malformed)?;
    Ok(options)
}

pub(super) fn put_run(out: &mut Vec<u8>, run: &RunRecord) {
    put_varint(out, run.id.0);
    run.meta.encode(out);
}

pub(super) fn run(decoder: &mut Decoder<'_>) -> Result<RunRecord, Malformed> {
    let record = RunRecord { id: file(decoder)?, meta: RunMeta::decode(decoder)? };
    let last = record.meta.references.last().map_or(FileId(0), |reference| reference.file);
    if last <= FILE_ID_MAX { Ok(record) } else { Err(Malformed) }
}

pub(super) fn put_tree(out: &mut Vec<u8>, id: FileId, meta: &TreeMeta) {
    put_varint(out, id.0);
    meta.encode(out);
}

pub(super) fn tree(decoder: &mut Decoder<'_>) -> Result<(FileId, TreeMeta), Malformed> {
    Ok((file(decoder)?, TreeMeta::decode(decoder)?))
}

pub(super) fn put_runs(out: &mut Vec<u8>, runs: &[RunRecord]) {
    put_varint(out, u64_of(runs.len()));
    for run in runs {
        put_run(out, run);
    }
}

pub(super) fn runs(decoder: &mut Decoder<'_>) -> Result<Vec<RunRecord>, Malformed> {
    let count = decoder.varint()?;
    (0..count).map(|_| run(decoder)).collect()
}

/// A range tombstone: its seqnum, its first key with length, and the key behind its last with length: an empty one
/// stands for none.
fn put_range_tombstone(out: &mut Vec<u8>, range_tombstone: &RangeTombstone) {
    put_varint(out, range_tombstone.seqnum.0);
    put_len_prefixed(out, &range_tombstone.range.low);
    put_len_prefixed(out, range_tombstone.range.high.as_deref().unwrap_or_default());
}

fn range_tombstone(decoder: &mut Decoder<'_>) -> Result<RangeTombstone, Malformed> {
    let seqnum = seqnum(decoder)?;
    let low = decoder.len_prefixed()?.to_vec();
    let high = Some(decoder.len_prefixed()?.to_vec()).filter(|high| !high.is_empty());
    if high.as_ref().is_some_and(|high| *high <= low) {
        return Err(Malformed);
    }
    Ok(RangeTombstone { range: Limits::new(low, high, None), seqnum })
}

pub(super) fn put_range_tombstones(out: &mut Vec<u8>, range_tombstones: &RangeTombstones) {
    let range_tombstones: Vec<_> = range_tombstones.iter().collect();
    put_varint(out, u64_of(range_tombstones.len()));
    for range_tombstone in &range_tombstones {
        put_range_tombstone(out, range_tombstone);
    }
}

/// A number of range tombstones, then each.
pub(super) fn range_tombstones(decoder: &mut Decoder<'_>) -> Result<Arc<RangeTombstones>, Malformed> {
    let count = decoder.varint()?;
    (0..count).map(|_| range_tombstone(decoder)).collect::<Result<RangeTombstones, _>>().map(Arc::new)
}

/// The number of marks, then of each its seqnum, its time, and by how much the clock that told it was ahead.
pub(super) fn put_seqnum_to_time(out: &mut Vec<u8>, seqnum_to_time: &SeqnumToTime) {
    put_varint(out, u64_of(seqnum_to_time.as_slice().len()));
    for mark in seqnum_to_time.as_slice() {
        put_varint(out, mark.seqnum.0);
        put_varint(out, mark.at_ms);
        put_varint(out, mark.ahead_ms);
    }
}

pub(super) fn seqnum_to_time(decoder: &mut Decoder<'_>) -> Result<SeqnumToTime, Malformed> {
    let count = decoder.varint()?;
    let mark = |_| Ok(TimeSample { seqnum: seqnum(decoder)?, at_ms: decoder.varint()?, ahead_ms: decoder.varint()? });
    SeqnumToTime::new((0..count).map(mark).collect::<Result<_, _>>()?).ok_or(Malformed)
}

pub(super) fn put_table(out: &mut Vec<u8>, table: &TableRecord) {
    put_len_prefixed(out, table.name.as_bytes());
    put_options(out, &table.options);
    put_varint(out, table.replay_from.0);
    put_runs(out, &table.l0);
    for level in &table.levels {
        put_runs(out, level);
    }
    match &table.tree {
        None => out.push(0),
        Some((id, meta)) => {
            out.push(1);
            put_tree(out, *id, meta);
        }
    }
    put_range_tombstones(out, &table.range_tombstones);
    if table.options.time_to_live.is_some() {
        put_seqnum_to_time(out, &table.seqnum_to_time);
    }
}

pub(super) fn name(decoder: &mut Decoder<'_>) -> Result<String, Malformed> {
    String::from_utf8(decoder.len_prefixed()?.to_vec()).map_err(|_| Malformed)
}

pub(super) fn table(decoder: &mut Decoder<'_>) -> Result<TableRecord, Malformed> {
    let mut table = TableRecord::new(name(decoder)?, options(decoder)?, lsn(decoder)?);
    table.l0 = runs(decoder)?;
    for level in 0..LEVELS {
        table.levels[level] = runs(decoder)?;
        check_disjoint(&table.levels[level])?;
    }
    table.tree = match decoder.u8()? {
        0 => None,
        1 => Some(tree(decoder)?),
        _ => return Err(Malformed),
    };
    table.range_tombstones = range_tombstones(decoder)?;
    if table.options.time_to_live.is_some() {
        table.seqnum_to_time = seqnum_to_time(decoder)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_whose_last_level_was_to_have_no_filter_is_one_like_others() {
        let mut bytes = Vec::new();
        put_options(&mut bytes, &TableOptions::default());
        bytes[2] |= 32;
        assert_eq!(options(&mut Decoder::new(&bytes)).ok(), Some(TableOptions::default()));
    }
}
