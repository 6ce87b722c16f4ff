//! Scans: of the collection, and of an index.

use std::sync::Arc;

use smallvec::SmallVec;
use spinney::{Range, Ranges, Table};

use super::met::Met;
use super::operator::{Operator, Run, count_rows, damaged, dangling};
use super::row::Row;
use super::stored::StoredDocument;
use crate::aggregate::lend::Take;
use crate::aggregate::{KeyRow, Lent};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Document;
use crate::catalog::index_entry::EntryParts;
use crate::keys::{Direction, field_len};
use crate::plan::{Group, KeyBounds, KeyFilter, Scan};

/// How many ranges the engine is given at a time, so that those of a long filter are not all copied to its form at
/// once.
const RANGES_AT_ONCE: usize = 1024;

/// A walk over ranges of a table, which ascend and are apart.
#[derive(Debug)]
struct Walk {
    table: Table,
    ranges: Arc<[KeyBounds]>,
    /// Which of the ranges the engine has not been given yet.
    left: std::ops::Range<usize>,
    reverse: bool,
    /// Those that it walks over.
    current: Option<Walked>,
}

#[derive(Debug)]
enum Walked {
    One(Range),
    Many(Ranges),
}

impl Walk {
    fn new(table: &Table, ranges: Arc<[KeyBounds]>, reverse: bool) -> Self {
        let left = 0..ranges.len();
        Self { table: table.clone(), ranges, left, reverse, current: None }
    }

    /// Goes on to the next ranges; false when there are no more.
    fn go_on(&mut self, run: &Run<'_>) -> bool {
        let std::ops::Range { start, end } = self.left;
        let next = if self.reverse {
            end.saturating_sub(RANGES_AT_ONCE).max(start)..end
        } else {
            start..end.min(start + RANGES_AT_ONCE)
        };
        self.left = if self.reverse { start..next.start } else { next.end..end };
        self.current = match &self.ranges[next] {
            [] => None,
            [only] => Some(Walked::One(run.reader.range(&self.table, only.clone(), self.reverse))),
            many => Some(Walked::Many(run.reader.ranges(&self.table, many, self.reverse))),
        };
        self.current.is_some()
    }

    /// Gives the next entries to `take`, until that wants no more; whether it is so that it ended.
    #[inline]
    fn each(&mut self, run: &Run<'_>, mut take: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<bool> {
        loop {
            let is_enough = match &mut self.current {
                None => false,
                Some(Walked::One(range)) => range.each(&mut take)?,
                Some(Walked::Many(ranges)) => each_of(ranges, &mut take)?,
            };
            if is_enough {
                return Ok(true);
            }
            if !self.go_on(run) {
                return Ok(false);
            }
        }
    }
}

#[inline]
fn each_of(ranges: &mut Ranges, take: &mut impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<bool> {
    while let Some((key, value)) = ranges.advance()? {
        if !take(key, value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The documents of a collection that match, in the order of `_id`.
#[derive(Debug)]
pub(super) struct CollectionScan(Walk);

impl CollectionScan {
    pub(super) fn new(run: &Run<'_>, scan: &Scan) -> Self {
        let ranges = match &scan.groups[..] {
            [only] => Arc::clone(&only.ranges),
            groups => groups.iter().flat_map(|group| group.ranges.iter().cloned()).collect(),
        };
        Self(Walk::new(run.table, ranges, scan.reverse))
    }
}

impl Operator for CollectionScan {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        row.reset();
        self.0.each(run, |id, bytes| {
            run.count_document(bytes.len())?;
            // Asked in place: only a document that matches is copied.
            let document = Document::from_checked_bytes(bytes).ok_or_else(damaged)?;
            let (matched, position) = run.query.filter.matches_at(document)?;
            if matched {
                row.id.extend_from_slice(id);
                row.document = Some(StoredDocument::copied(bytes));
                row.position = position;
            }
            Ok(!matched)
        })
    }

    /// Documents are lent from where they are.
    fn lend(&mut self, run: &Run<'_>, _: &mut Row, take: &mut Take<'_>) -> Result<bool> {
        self.0.each(run, |_, bytes| {
            run.count_document(bytes.len())?;
            let document = Document::from_checked_bytes(bytes).ok_or_else(damaged)?;
            Ok(!run.query.filter.matches_at(document)?.0 || take(Lent::Document(document))?)
        })
    }
}

/// The document with one `_id`, if it matches.
#[derive(Debug)]
pub(super) struct IdLookup(pub(super) Option<Vec<u8>>);

impl Operator for IdLookup {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        row.reset();
        let Some(key) = self.0.take() else { return Ok(false) };
        run.count_key()?;
        let Some(document) = run.reader.get(run.table, &key)? else { return Ok(false) };
        row.id = key;
        row.document = Some(StoredDocument::new(document));
        run.matches(row)
    }
}

/// The entries of an index.
#[derive(Debug)]
pub(super) struct IndexScan {
    walks: Vec<Group>,
    walk: Option<Walk>,
    table: Table,
    unique: bool,
    reverse: bool,
    directions: SmallVec<[Direction; 4]>,
    filters: Vec<KeyFilter>,
    /// The documents that were met, when one may be met several times.
    met: Option<Met>,
}

impl IndexScan {
    /// The scan of some groups of ranges; nothing for a scan of the collection.
    pub(super) fn new(run: &Run<'_>, scan: &Scan, groups: Vec<Group>) -> Option<Self> {
        let index = scan.index.as_ref()?;
        let directions = index.spec.pattern.directions().collect();
        let mut walks = groups;
        if !scan.reverse {
            walks.reverse();
        }
        Some(Self {
            walks,
            walk: None,
            table: index.table.clone(),
            unique: index.spec.unique,
            reverse: scan.reverse,
            directions,
            filters: scan.filters.clone(),
            met: scan.multikey.then(|| Met::new(run.query.memory())),
        })
    }
}

/// Whether the fields of a key are within the bounds that the ranges of a scan do not have.
fn takes(filters: &[KeyFilter], directions: &[Direction], fields: &[u8]) -> bool {
    if filters.is_empty() {
        return true;
    }
    let (mut at, mut filters) = (0, filters.iter().peekable());
    for (field, direction) in directions.iter().enumerate() {
        let Some(len) = fields.get(at..).and_then(|rest| field_len(rest, *direction)) else { return true };
        match filters.peek() {
            Some(filter) if filter.field == field => {
                if !filter.takes(&fields[at..at + len]) {
                    return false;
                }
                filters.next();
            }
            Some(_) => {}
            None => return true,
        }
        at += len;
    }
    true
}

fn malformed() -> Error {
    Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, "an entry of an index is malformed")
}

/// An entry of an index, where it is.
#[derive(Clone, Copy)]
pub(super) struct IndexEntry<'e> {
    pub(super) key: &'e [u8],
    pub(super) value: &'e [u8],
    directions: &'e [Direction],
    unique: bool,
}

impl<'e> IndexEntry<'e> {
    /// Its parts.
    pub(super) fn parts(&self) -> Result<EntryParts<'e>> {
        EntryParts::of(self.directions, self.unique, self.key, self.value).ok_or_else(malformed)
    }

    /// The type bits of its fields.
    #[inline]
    pub(super) fn types(&self) -> Result<&'e [u8]> {
        EntryParts::types_of(self.unique, self.value).ok_or_else(malformed)
    }
}

impl IndexScan {
    /// Gives each of the next entries to `take`, until that wants no more; whether it is so that it ended.
    #[inline]
    pub(super) fn each(&mut self, run: &Run<'_>, mut take: impl FnMut(IndexEntry<'_>) -> Result<bool>) -> Result<bool> {
        loop {
            let Some(walk) = &mut self.walk else {
                let Some(group) = self.walks.pop() else { return Ok(false) };
                self.walk = Some(Walk::new(&self.table, group.ranges, self.reverse));
                continue;
            };
            let (directions, filters, met, unique) = (&*self.directions, &*self.filters, &mut self.met, self.unique);
            let is_enough = if filters.is_empty() && met.is_none() {
                walk.each(run, |key, value| {
                    run.count_key()?;
                    take(IndexEntry { key, value, directions, unique })
                })?
            } else {
                walk.each(run, |key, value| {
                    run.count_key()?;
                    let entry = IndexEntry { key, value, directions, unique };
                    let is_row = takes(filters, directions, key)
                        && match met {
                            None => true,
                            Some(met) => met.insert(entry.parts()?.id)?,
                        };
                    Ok(!is_row || take(entry)?)
                })?
            };
            if is_enough {
                return Ok(true);
            }
            self.walk = None;
        }
    }
}

impl Operator for IndexScan {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        self.each(run, |entry| {
            row.set(&entry.parts()?);
            Ok(false)
        })
    }

    /// Entries of which all are rows are not taken apart.
    fn count(&mut self, run: &Run<'_>, row: &mut Row, most: u64) -> Result<u64> {
        if !self.filters.is_empty() || self.met.is_some() {
            return count_rows(self, run, row, most);
        }
        let mut count = 0;
        if most > 0 {
            self.each(run, |_| {
                count += 1;
                Ok(count < most)
            })?;
        }
        Ok(count)
    }

    /// Entries are lent as they are, each of them once.
    fn lend(&mut self, run: &Run<'_>, _: &mut Row, take: &mut Take<'_>) -> Result<bool> {
        self.each(run, |entry| {
            let document = || {
                let found = run.reader.get(run.table, entry.parts()?.id)?.ok_or_else(dangling)?;
                run.count_document(found.len())?;
                Ok(StoredDocument::new(found).into_buf())
            };
            take(Lent::Key(KeyRow { fields: entry.key, types: entry.types()?, document: &document }))
        })
    }
}
