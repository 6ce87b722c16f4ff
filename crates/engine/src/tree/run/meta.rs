//! What the manifest keeps of a run: enough to open it, to place it, and to notice another file in its place.

use crate::base::SeqNum;
use crate::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};

/// What a run holds, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunMeta {
    /// Length of the file.
    pub bytes: u64,
    /// Entries: puts and tombstones, each version of a key for itself.
    pub entries: u64,
    /// How many of the entries are tombstones.
    pub tombstones: u64,
    /// Bytes of all keys and values.
    pub raw_bytes: u64,
    /// The largest seqnum.
    pub seqnum_max: SeqNum,
    /// The first key.
    pub smallest: Vec<u8>,
    /// The last key.
    pub largest: Vec<u8>,
}

impl RunMeta {
    /// Appends the numbers as varints in the order of the fields, then the two keys with their lengths.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.bytes, self.entries, self.tombstones, self.raw_bytes, self.seqnum_max.0] {
            put_varint(out, number);
        }
        put_len_prefixed(out, &self.smallest);
        put_len_prefixed(out, &self.largest);
    }

    /// Reads what [`RunMeta::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes end early, or describe no run.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let meta = Self {
            bytes: decoder.varint()?,
            entries: decoder.varint()?,
            tombstones: decoder.varint()?,
            raw_bytes: decoder.varint()?,
            seqnum_max: SeqNum(decoder.varint()?),
            smallest: decoder.len_prefixed()?.to_vec(),
            largest: decoder.len_prefixed()?.to_vec(),
        };
        let sound = meta.entries > 0
            && meta.tombstones <= meta.entries
            && meta.seqnum_max <= SeqNum::MAX
            && meta.smallest <= meta.largest;
        if sound { Ok(meta) } else { Err(Malformed) }
    }

    /// Whether `key` lies between the first and the last key.
    #[inline]
    #[must_use]
    pub fn spans(&self, key: &[u8]) -> bool {
        *self.smallest <= *key && *key <= *self.largest
    }

    /// Whether some key from `smallest` to `largest` may be in the run.
    #[must_use]
    pub fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        *self.smallest <= *largest && *smallest <= *self.largest
    }
}
