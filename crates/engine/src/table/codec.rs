//! How the parts of a table's record are laid down in the manifest.

use std::sync::Arc;
use std::time::Duration;

use crate::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use crate::base::num::u64_of;
use crate::base::{FileId, Lsn, SeqNum, TableId};
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

/// A part of an edit or of the catalog, as it is stored. Numbers are varints, a text has its length first, a list its
/// count; an optional part is preceded by a byte 0 or 1.
pub(super) trait Stored: Sized {
    /// Appends it to `out`.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it.
    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed>;
}

/// A varint that must fit a narrower type.
fn narrow<T: TryFrom<u64>>(decoder: &mut Decoder<'_>) -> Result<T, Malformed> {
    T::try_from(decoder.varint()?).map_err(|_| Malformed)
}

/// Ids and positions, up to a largest one that leaves room for those of many more opens.
macro_rules! numbers {
    ($($type:ident => $max:expr;)*) => {$(
        impl Stored for $type {
            fn put(&self, out: &mut Vec<u8>) {
                put_varint(out, u64::from(self.0));
            }

            fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Some(Self(narrow(decoder)?)).filter(|number| *number <= $max).ok_or(Malformed)
            }
        }
    )*};
}

numbers! {
    TableId => Self(u32::MAX);
    FileId => FILE_ID_MAX;
    SeqNum => Self::MAX;
    Lsn => Self::MAX;
}

impl<T: Stored> Stored for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        self.iter().for_each(|value| value.put(out));
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match decoder.u8()? {
            0 => Ok(None),
            1 => T::take(decoder).map(Some),
            _ => Err(Malformed),
        }
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64_of(self.len()));
        self.iter().for_each(|value| value.put(out));
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let count = decoder.varint()?;
        (0..count).map(|_| T::take(decoder)).collect()
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok((A::take(decoder)?, B::take(decoder)?))
    }
}

impl Stored for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_len_prefixed(out, self.as_bytes());
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Self::from_utf8(decoder.len_prefixed()?.to_vec()).map_err(|_| Malformed)
    }
}

/// The absolute path that a text is.
pub(super) fn path(text: String) -> Result<String, Malformed> {
    Some(text).filter(|text| !text.is_empty()).ok_or(Malformed)
}

/// The code of L0 where a level's index would be. Stored; never reuse.
const L0: u64 = 127;

impl Stored for LevelId {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(
            out,
            match self {
                Self::L0 => L0,
                Self::Level(index) => u64_of(*index),
            },
        );
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match decoder.varint()? {
            L0 => Ok(Self::L0),
            index => usize::try_from(index).ok().filter(|index| *index < LEVELS).map(Self::Level).ok_or(Malformed),
        }
    }
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

impl Stored for TableOptions {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.layout.to_byte());
        out.push(self.compression as u8);
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let merges = flag(self.merge.is_some(), MERGES);
        let filters = flag(self.compaction_filter.is_some(), COMPACTION_FILTERS);
        let apart = flag(self.large_value_bytes > 0, APART);
        let prefixes = flag(self.prefix_filter.is_some(), KNOWS_PREFIXES);
        let expires = flag(self.time_to_live.is_some(), EXPIRES);
        let flags = ALWAYS | flag(!self.logged, UNLOGGED);
        out.push(flags | merges | filters | apart | prefixes | expires);
        put_varint(out, u64::from(self.block_bytes));
        put_varint(out, u64::from(self.filter_bits_per_key));
        put_varint(out, self.run_bytes_max);
        put_varint(out, u64::from(self.fanout));
        for name in [&self.merge, &self.compaction_filter].into_iter().flatten() {
            name.put(out);
        }
        if self.large_value_bytes > 0 {
            put_varint(out, u64::from(self.large_value_bytes));
        }
        if let Some(prefix) = self.prefix_filter {
            put_varint(out, u64::from(prefix.to_code()));
        }
        if let Some(time) = self.time_to_live {
            put_varint(out, u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        }
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let layout = Layout::from_byte(decoder.u8()?).ok_or(Malformed)?;
        let compression = Compression::from_byte(decoder.u8()?).ok_or(Malformed)?;
        let flags = decoder.u8()?;
        let options = Self {
            layout,
            compression,
            logged: flags & UNLOGGED == 0,
            block_bytes: narrow(decoder)?,
            filter_bits_per_key: narrow(decoder)?,
            run_bytes_max: decoder.varint()?,
            fanout: narrow(decoder)?,
            merge: if flags & MERGES == 0 { None } else { Some(String::take(decoder)?) },
            compaction_filter: if flags & COMPACTION_FILTERS == 0 { None } else { Some(String::take(decoder)?) },
            large_value_bytes: if flags & APART == 0 { 0 } else { narrow(decoder)? },
            prefix_filter: if flags & KNOWS_PREFIXES == 0 { None } else { Some(Prefix::from_code(narrow(decoder)?)?) },
            time_to_live: if flags & EXPIRES == 0 { None } else { Some(Duration::from_millis(decoder.varint()?)) },
        };
        options.check().map_err(|_| Malformed)?;
        Ok(options)
    }
}

impl Stored for RunRecord {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.meta.encode(out);
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let record = Self { id: Stored::take(decoder)?, meta: RunMeta::decode(decoder)? };
        let last = record.meta.references.last().map_or(FileId(0), |reference| reference.file);
        if last <= FILE_ID_MAX { Ok(record) } else { Err(Malformed) }
    }
}

impl Stored for TreeMeta {
    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Self::decode(decoder)
    }
}

/// A range tombstone: its seqnum, its first key with length, and the key behind its last with length: an empty one
/// stands for none.
impl Stored for RangeTombstone {
    fn put(&self, out: &mut Vec<u8>) {
        self.seqnum.put(out);
        put_len_prefixed(out, &self.range.low);
        put_len_prefixed(out, self.range.high.as_deref().unwrap_or_default());
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let seqnum = Stored::take(decoder)?;
        let low = decoder.len_prefixed()?.to_vec();
        let high = Some(decoder.len_prefixed()?.to_vec()).filter(|high| !high.is_empty());
        if high.as_ref().is_some_and(|high| *high <= low) {
            return Err(Malformed);
        }
        Ok(Self { range: Limits::new(low, high, None), seqnum })
    }
}

impl Stored for Arc<RangeTombstones> {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().collect::<Vec<_>>().put(out);
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self::new(Vec::take(decoder)?.into_iter().collect()))
    }
}

/// Its seqnum, its time, and by how much the clock that told it was ahead.
impl Stored for TimeSample {
    fn put(&self, out: &mut Vec<u8>) {
        self.seqnum.put(out);
        put_varint(out, self.at_ms);
        put_varint(out, self.ahead_ms);
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self { seqnum: Stored::take(decoder)?, at_ms: decoder.varint()?, ahead_ms: decoder.varint()? })
    }
}

impl Stored for SeqnumToTime {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_slice().to_vec().put(out);
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Self::new(Stored::take(decoder)?).ok_or(Malformed)
    }
}

impl Stored for TableRecord {
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        self.options.put(out);
        self.replay_from.put(out);
        self.l0.put(out);
        self.levels.iter().for_each(|level| level.put(out));
        self.tree.put(out);
        self.range_tombstones.put(out);
        if self.options.time_to_live.is_some() {
            self.seqnum_to_time.put(out);
        }
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mut table = Self::new(Stored::take(decoder)?, Stored::take(decoder)?, Stored::take(decoder)?);
        table.l0 = Stored::take(decoder)?;
        for level in &mut table.levels {
            *level = Stored::take(decoder)?;
            check_disjoint(level)?;
        }
        table.tree = Stored::take(decoder)?;
        table.range_tombstones = Stored::take(decoder)?;
        if table.options.time_to_live.is_some() {
            table.seqnum_to_time = Stored::take(decoder)?;
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_whose_last_level_was_to_have_no_filter_is_one_like_others() {
        let mut bytes = Vec::new();
        TableOptions::default().put(&mut bytes);
        bytes[2] |= 32;
        assert_eq!(TableOptions::take(&mut Decoder::new(&bytes)).ok(), Some(TableOptions::default()));
    }
}
