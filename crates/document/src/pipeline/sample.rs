//! Documents at random positions of a collection, for a `$sample` of few documents of many.
//!
//! A position is found by halving the key space, as the engine's estimates tell how much is in either half, until a
//! cell of some leaves is left; of the documents there, each is as likely. So a document is drawn about as often as any
//! other: the less exact the estimates are, the less so.

use std::collections::HashSet;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use spinney::Table;

use crate::aggregate::Run;
use crate::base::num::{trunc_to_i64, u64_of, usize_of};
use crate::base::{Result, interrupt};
use crate::bson::{Document, DocumentBuf};
use crate::exec::{Reader, damaged};
use crate::expr::{self, Expression};
use crate::plan::KeyBounds;

/// Leaves of a cell: estimates are as exact as a leaf at either end.
const CELL_LEAVES: u64 = 16;

/// Documents of a cell, at the least and at the most.
const CELL_DOCUMENTS: (u64, u64) = (64, 4096);

/// What finding a cell takes, in documents that a scan would come over meanwhile.
const SEARCH_DOCUMENTS: u64 = 300;

/// The parts of the key space of which it is known from the beginning how many documents they have.
const PARTS: u64 = 128;

/// The most parts, however many the estimates ask for.
const PARTS_MAX: usize = 4096;

/// The most steps of a search for a cell.
const STEPS_MAX: usize = 256;

/// Draws in a row that find nothing new before the rest is taken from a scan.
const TRIES_MAX: usize = 100;

/// Draws documents of a collection, each at most once.
pub(super) struct Draws {
    keys: KeySpace,
    run: Run,
    random: Expression,
    /// Parts of the keys, each with how many documents are in it and those before.
    parts: Vec<(Part, u64)>,
    /// About how many documents a cell has.
    cell: u64,
    drawn: HashSet<Vec<u8>>,
    left: usize,
    /// What a scan has found, when drawing was of no use any more.
    rest: Option<Vec<DocumentBuf>>,
}

/// The keys of a table.
struct KeySpace {
    reader: Arc<dyn Reader>,
    table: Table,
    /// The first key and the last one.
    ends: (Vec<u8>, Vec<u8>),
}

/// The keys between two, and about how many documents they have.
#[derive(Clone)]
struct Part {
    low: Vec<u8>,
    high: Vec<u8>,
    documents: u64,
}

impl KeySpace {
    fn bounds(&self, low: &[u8], high: &[u8]) -> KeyBounds {
        let low = if low == self.ends.0 { Bound::Unbounded } else { Bound::Included(low.to_vec()) };
        (low, if high == self.ends.1 { Bound::Unbounded } else { Bound::Excluded(high.to_vec()) })
    }

    fn part(&self, low: &[u8], high: &[u8]) -> Result<Part> {
        let documents = self.reader.estimate(&self.table, &self.bounds(low, high))?.entries;
        Ok(Part { low: low.to_vec(), high: high.to_vec(), documents })
    }

    /// The halves of a part that has more than some documents.
    fn halves(&self, part: &Part, most: u64) -> Result<Option<(Part, Part)>> {
        let middle = between(&part.low, &part.high).filter(|_| part.documents > most);
        let Some(middle) = middle else { return Ok(None) };
        Ok(Some((self.part(&part.low, &middle)?, self.part(&middle, &part.high)?)))
    }

    /// Parts of a size, in the order of their keys. The estimates of these add up better than that of the whole: where
    /// several trees have a part each, it is not known whether they have the same keys.
    fn parts(&self, whole: Part, most: u64) -> Result<Vec<(Part, u64)>> {
        let (mut open, mut parts, mut sum) = (vec![whole], Vec::new(), 0);
        while let Some(part) = open.pop() {
            let may_split = parts.len() + open.len() < PARTS_MAX;
            match if may_split { self.halves(&part, most)? } else { None } {
                Some((below, above)) => open.extend([above, below]),
                None => {
                    sum += part.documents;
                    parts.push((part, sum));
                }
            }
        }
        Ok(parts)
    }
}

impl fmt::Debug for Draws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draws").field("cell", &self.cell).field("left", &self.left).finish_non_exhaustive()
    }
}

impl Draws {
    /// Draws some documents of a table; nothing when a scan of all takes less time.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn begin(reader: &Arc<dyn Reader>, table: &Table, size: usize, run: &Run) -> Result<Option<Self>> {
        let all = reader.estimate(table, &(Bound::Unbounded, Bound::Unbounded))?;
        let in_leaf = u64::from(table.options().block_bytes) * all.entries / all.bytes.max(1);
        let cell = in_leaf.saturating_mul(CELL_LEAVES).clamp(CELL_DOCUMENTS.0, CELL_DOCUMENTS.1);
        if u64_of(size).saturating_mul(cell + SEARCH_DOCUMENTS) >= all.entries {
            return Ok(None);
        }
        let end = |reverse| -> Result<Option<Vec<u8>>> {
            let mut range = reader.range(table, (Bound::Unbounded, Bound::Unbounded), reverse);
            Ok(range.advance_key()?.map(<[u8]>::to_vec))
        };
        let (Some(first), Some(last)) = (end(false)?, end(true)?) else { return Ok(None) };
        let whole = Part { low: first.clone(), high: last.clone(), documents: all.entries };
        let keys = KeySpace { reader: Arc::clone(reader), table: table.clone(), ends: (first, last) };
        Ok(Some(Self {
            parts: keys.parts(whole, cell.max(all.entries / PARTS))?,
            keys,
            run: run.clone(),
            random: expr::random(&run.context),
            cell,
            drawn: HashSet::new(),
            left: size,
            rest: None,
        }))
    }

    fn draw(&mut self) -> Result<Option<DocumentBuf>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        for _ in 0..TRIES_MAX {
            if self.rest.is_some() {
                break;
            }
            interrupt::check()?;
            interrupt::add_examined(0, 1);
            let cell = self.find_cell()?;
            if let Some((key, document)) = self.one_of(cell)?
                && !self.drawn.contains(&key)
            {
                self.run.memory.take(key.len(), "$sample")?;
                self.drawn.insert(key);
                return Ok(Some(document));
            }
        }
        if self.rest.is_none() {
            self.rest = Some(self.others()?);
        }
        Ok(self.rest.as_mut().and_then(Vec::pop))
    }

    /// A random number below another one.
    fn below(&self, bound: u64) -> Result<u64> {
        let share = self.random.of(Document::empty())?.value().as_f64().unwrap_or_default();
        let of = crate::base::num::nearest_f64(bound.min(1 << 52).cast_signed());
        let number = trunc_to_i64(share * of).unwrap_or_default().unsigned_abs();
        Ok(number.min(bound.saturating_sub(1)))
    }

    /// The keys of a cell: of two halves one is chosen as often as it has documents.
    fn find_cell(&self) -> Result<KeyBounds> {
        let position = self.below(self.parts.last().map_or(0, |(_, sum)| *sum))?;
        let at = self.parts.partition_point(|(_, sum)| *sum <= position);
        let Some((mut part, _)) = self.parts.get(at).cloned() else {
            return Ok((Bound::Unbounded, Bound::Unbounded));
        };
        for _ in 0..STEPS_MAX {
            let Some((below, above)) = self.keys.halves(&part, self.cell)? else { break };
            let is_below = self.below(below.documents + above.documents)? < below.documents;
            part = if is_below { below } else { above };
        }
        Ok(self.keys.bounds(&part.low, &part.high))
    }

    /// One of the documents of a cell, each as likely.
    fn one_of(&self, cell: KeyBounds) -> Result<Option<(Vec<u8>, DocumentBuf)>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut range = self.keys.reader.range(&self.keys.table, cell, false);
        while let Some(key) = range.advance_key()? {
            keys.push(key.to_vec());
        }
        drop(range);
        if keys.is_empty() {
            return Ok(None);
        }
        let key = keys.swap_remove(usize_of(self.below(u64_of(keys.len()))?));
        let Some(bytes) = self.keys.reader.get(&self.keys.table, &key)? else { return Ok(None) };
        Ok(Some((key, copy_of(&bytes)?)))
    }

    /// As many of the other documents as are left to draw, each as likely.
    fn others(&self) -> Result<Vec<DocumentBuf>> {
        let (mut kept, mut seen, wanted) = (Vec::new(), 0, self.left + 1);
        let (reader, table) = (&self.keys.reader, &self.keys.table);
        let mut range = reader.range(table, (Bound::Unbounded, Bound::Unbounded), false);
        while let Some((key, bytes)) = range.advance()? {
            if self.drawn.contains(key) {
                continue;
            }
            seen += 1;
            if kept.len() < wanted {
                self.run.memory.take(bytes.len(), "$sample")?;
                kept.push(copy_of(bytes)?);
            } else if let Some(place) = kept.get_mut(usize_of(self.below(seen)?)) {
                *place = copy_of(bytes)?;
            }
        }
        Ok(kept)
    }
}

impl Iterator for Draws {
    type Item = Result<DocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.draw().transpose();
        if matches!(next, Some(Err(_))) {
            self.left = 0;
        }
        next
    }
}

impl Drop for Draws {
    fn drop(&mut self) {
        self.run.memory.give(self.drawn.iter().map(Vec::len).sum());
    }
}

fn copy_of(bytes: &[u8]) -> Result<DocumentBuf> {
    Ok(Document::from_checked_bytes(bytes).ok_or_else(damaged)?.into())
}

/// The key in the middle between two, the first of which is below the other; nothing when they are too near.
fn between(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let common = low.iter().zip(high).take_while(|(low, high)| low == high).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 16];
        let rest = &key[common..];
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        u128::from_be_bytes(bytes)
    };
    let (from, to) = (number(low), number(high));
    let half = to.checked_sub(from)? / 2;
    let mut middle = high[..common].to_vec();
    middle.extend_from_slice(&(from + half).to_be_bytes());
    (half > 0 && middle.as_slice() > low && middle.as_slice() < high).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_between() {
        for (low, high) in
            [(&b"a"[..], &b"b"[..]), (b"abc", b"abd"), (b"", b"\x01"), (b"a\xFF\xFF", b"b"), (b"k1", b"k1000")]
        {
            let middle = between(low, high).unwrap();
            assert!(low < &middle[..] && &middle[..] < high, "{low:?} {middle:?} {high:?}");
        }
        for (low, high) in [(&b"a"[..], &b"a"[..]), (b"a", b"a\0"), (b"b", b"a")] {
            assert_eq!(between(low, high), None, "{low:?} {high:?}");
        }
    }

    #[test]
    fn halving_comes_to_an_end() {
        let (mut low, high) = (b"key".to_vec(), b"kez".to_vec());
        let mut steps = 0;
        while let Some(middle) = between(&low, &high) {
            low = middle;
            steps += 1;
            assert!(steps < 1000);
        }
    }
}
