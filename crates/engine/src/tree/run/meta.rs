//! What the manifest keeps of a run: enough to open it, to place it, and to notice another file in its place.

use crate::base::codec::{Decoder, Malformed, put_len_prefixed, put_varint};
use crate::base::num::u64_of;
use crate::base::{FileId, SeqNum};
use crate::tree::values::ValuePointer;

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
    /// The run is clean up to here: see [`crate::tree::range_tombstone`]. The file does not tell it.
    pub clean_to: SeqNum,
    /// The first key.
    pub smallest: Vec<u8>,
    /// The last key.
    pub largest: Vec<u8>,
    /// The value files that entries point into, by ascending id.
    pub references: Vec<Reference>,
}

/// What the entries of a run use of a value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The file.
    pub file: FileId,
    /// Bytes of the values on disk, at least one.
    pub bytes: u64,
}

impl RunMeta {
    /// Appends the numbers as varints in the order of the fields, then the two keys with their lengths, then the number
    /// of references and of each its id and its bytes, as varints.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let counts = [self.bytes, self.entries, self.tombstones, self.raw_bytes];
        for number in counts.into_iter().chain([self.seqnum_max.0, self.clean_to.0]) {
            put_varint(out, number);
        }
        put_len_prefixed(out, &self.smallest);
        put_len_prefixed(out, &self.largest);
        put_varint(out, u64_of(self.references.len()));
        for reference in &self.references {
            put_varint(out, reference.file.0);
            put_varint(out, reference.bytes);
        }
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
            clean_to: SeqNum(decoder.varint()?),
            smallest: decoder.len_prefixed()?.to_vec(),
            largest: decoder.len_prefixed()?.to_vec(),
            references: references(decoder)?,
        };
        let sound = meta.entries > 0
            && meta.tombstones <= meta.entries
            && meta.seqnum_max.max(meta.clean_to) <= SeqNum::MAX
            && meta.smallest <= meta.largest;
        if sound { Ok(meta) } else { Err(Malformed) }
    }

    /// Counts a value that an entry points to.
    pub(super) fn refer(&mut self, pointer: &ValuePointer) {
        let bytes = u64::from(pointer.block.bytes);
        match self.references.binary_search_by_key(&pointer.file, |reference| reference.file) {
            Ok(at) => self.references[at].bytes += bytes,
            Err(at) => self.references.insert(at, Reference { file: pointer.file, bytes }),
        }
    }

    /// Whether some key from `smallest` to `largest` may be in the run.
    #[must_use]
    pub fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        *self.smallest <= *largest && *smallest <= *self.largest
    }
}

fn references(decoder: &mut Decoder<'_>) -> Result<Vec<Reference>, Malformed> {
    let count = decoder.varint()?;
    let one = |_| Ok(Reference { file: FileId(decoder.varint()?), bytes: decoder.varint()? });
    let references = (0..count).map(one).collect::<Result<Vec<_>, _>>()?;
    let ascend = references.is_sorted_by(|a, b| a.file < b.file);
    if ascend && references.iter().all(|reference| reference.bytes > 0) { Ok(references) } else { Err(Malformed) }
}
