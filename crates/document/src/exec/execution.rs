//! Running a query.

use std::sync::Arc;

use spinney::Table;

use super::covered::{Covered, Input};
use super::fetch::Fetch;
use super::merge::{MergeByKey, Union};
use super::operator::{Counts, Operator, Run};
use super::reader::Reader;
use super::row::Row;
use super::scan::{CollectionScan, IdLookup, IndexScan};
use super::sort::SortAll;
use super::stored::StoredDocument;
use crate::aggregate::lend::{Lent, Take};
use crate::base::{Result, Summary, interrupt};
use crate::bson::{DocumentBuf, DocumentBuilder, Value};
use crate::catalog::{CollectionState, Index};
use crate::keys::{Direction, TypeReader, decode_field};
use crate::path::Path;
use crate::plan::{Plan, Query, Scan, Subject, plan};

/// A document that a query found.
#[derive(Clone, Debug)]
pub struct Match {
    /// The key under which the document is stored.
    pub key: Vec<u8>,
    /// The document.
    pub document: StoredDocument,
    /// Where in an array the filter matched.
    pub position: Option<usize>,
}

/// A query that runs. As an iterator it gives the projected documents; [`Self::next_match`] gives them as they are
/// stored.
#[derive(Debug)]
pub struct Execution<'r> {
    reader: Box<dyn Reader + 'r>,
    table: Table,
    query: Arc<Query>,
    /// Whether the collection has a collation.
    collated: bool,
    plan: Arc<Plan>,
    root: Box<dyn Operator>,
    counts: Counts,
    row: Row,
    skip: u64,
    left: u64,
}

impl<'r> Execution<'r> {
    /// Plans a query and begins it.
    ///
    /// # Errors
    /// Those of [`plan`].
    pub fn open(reader: Box<dyn Reader + 'r>, collection: &CollectionState, query: Arc<Query>) -> Result<Self> {
        // After the reader: what its snapshot has of arrays is in the schema by now.
        let schema = collection.schema();
        let subject = Subject { collection, schema: &schema, seqnum: reader.seqnum() };
        let chosen = plan(subject, &query, &|table, bounds| Ok(reader.estimate(table, bounds)?.entries))?;
        Ok(Self::with_plan(reader, collection, query, Arc::new(chosen)))
    }

    /// Begins a query with a plan that was made for it.
    pub fn with_plan(
        reader: Box<dyn Reader + 'r>,
        collection: &CollectionState,
        query: Arc<Query>,
        plan: Arc<Plan>,
    ) -> Self {
        let (skip, left) = (query.skip, query.limit.unwrap_or(u64::MAX));
        let counts = Counts::default();
        let table = collection.table.clone();
        let collated = collection.collation().is_some();
        let run = Run { reader: &*reader, table: &table, query: &query, collated, counts: &counts };
        note_uses(&plan, collection);
        note(&plan);
        let root = operator(&run, &plan, query.limit.map(|limit| limit.saturating_add(skip)));
        Self { reader, table, query, collated, plan, root, counts, row: Row::default(), skip, left }
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The query.
    #[must_use]
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// What was looked at so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The next document as it is stored; of a query that an index covers, with what was asked for.
    ///
    /// # Errors
    /// Those of the engine and of the filter.
    pub fn next_match(&mut self) -> Result<Option<Match>> {
        if !self.step()? {
            return Ok(None);
        }
        let position = self.row.position;
        let key = std::mem::take(&mut self.row.id);
        Ok(self.row.document.take().map(|document| Match { key, document, position }))
    }

    /// The next document as the projection shows it.
    ///
    /// # Errors
    /// As [`Self::next_match`], and those of the projection.
    pub fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        Ok(self.next_shown()?.map(StoredDocument::into_buf))
    }

    /// As [`Self::advance`], without a copy of a document that is shown as it is stored.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub fn next_shown(&mut self) -> Result<Option<StoredDocument>> {
        if !self.step()? {
            return Ok(None);
        }
        let Some(document) = self.row.document.take() else { return Ok(None) };
        if self.query.return_key {
            return Ok(Some(StoredDocument::built(self.index_key())));
        }
        Ok(Some(match self.query.kept() {
            Some(projection) if !self.row.projected => {
                StoredDocument::built(projection.apply(document.view(), self.row.position)?)
            }
            _ => document,
        }))
    }

    /// The fields of the index by which the row was found; none without an index.
    fn index_key(&self) -> DocumentBuf {
        let mut shown = DocumentBuilder::new();
        let index = self.plan.scan().and_then(|scan| scan.index.as_ref());
        let (mut rest, mut types) = (&self.row.key[..], TypeReader::new(&self.row.types));
        for field in index.into_iter().flat_map(|index| index.spec.pattern.fields()) {
            let Some((value, behind)) = decode_field(rest, field.direction(), &mut types) else { break };
            match value.view() {
                // A sort key is no text.
                Value::String(key) if index.is_some_and(|index| index.spec.pattern.collation().is_some()) => {
                    shown.append(&field.path, Value::Binary(0, key.as_bytes()));
                }
                value => {
                    shown.append(&field.path, value);
                }
            }
            rest = behind;
        }
        shown.finish()
    }

    /// The fields of the index whose keys [`Self::lend`] can lend: the plan is a scan of that index alone, all of its
    /// entries are of documents that match, and it has all that the query asks for.
    #[must_use]
    pub fn key_fields(&self) -> Option<Vec<(Path, Direction)>> {
        let index = self.index_of_keys()?;
        Some(index.paths.iter().cloned().zip(index.spec.pattern.directions()).collect())
    }

    fn index_of_keys(&self) -> Option<&Arc<Index>> {
        // A key is no document of which something is shown.
        let (Plan::Covered(scan), None) = (&*self.plan, &self.query.projection) else { return None };
        scan.index.as_ref().filter(|_| scan.exact && scan.groups.len() == 1)
    }

    /// Lends the next documents as the projection shows them, and as they are stored where there is none; with `keys`,
    /// the keys of the index where there are [`Self::key_fields`]. It stops when `take` wants no more, and says whether
    /// there may be more.
    ///
    /// # Errors
    /// As [`Self::next_match`], and those of `take`.
    pub fn lend(&mut self, keys: bool, take: &mut Take<'_>) -> Result<bool> {
        if self.query.projection.is_some() || self.query.return_key {
            return self.lend_shown(take);
        }
        note(&self.plan);
        let keys = keys && self.index_of_keys().is_some();
        let (query, collated) = (&*self.query, self.collated);
        let run = Run { reader: &*self.reader, table: &self.table, query, collated, counts: &self.counts };
        let skipped = std::mem::take(&mut self.skip);
        if self.left == 0 || self.root.count(&run, &mut self.row, skipped)? < skipped {
            self.left = 0;
            return Ok(false);
        }
        let left = &mut self.left;
        let (root, row) = (&mut self.root, &mut self.row);
        let mut lend = |take: &mut Take<'_>| match keys {
            true => root.lend_keys(&run, row, take),
            false => root.lend(&run, row, take),
        };
        let more = match self.query.limit {
            None => lend(take),
            Some(_) => lend(&mut |row| {
                *left -= 1;
                Ok(take(row)? && *left > 0)
            }),
        };
        self.counts.tell();
        if !matches!(more, Ok(true)) {
            self.left = 0;
        }
        Ok(more? && self.left > 0)
    }

    /// Lends the next documents as [`Self::next_shown`] has them.
    fn lend_shown(&mut self, take: &mut Take<'_>) -> Result<bool> {
        while let Some(shown) = self.next_shown()? {
            if !take(Lent::Document(shown.view()))? {
                return Ok(self.left > 0);
            }
        }
        Ok(false)
    }

    /// How many documents there are.
    ///
    /// # Errors
    /// As [`Self::next_match`].
    pub fn count(mut self) -> Result<u64> {
        let (query, collated) = (&*self.query, self.collated);
        let run = Run { reader: &*self.reader, table: &self.table, query, collated, counts: &self.counts };
        let mut count = |most| self.root.count(&run, &mut self.row, most);
        let counted = count(self.skip).and_then(|skipped| if skipped < self.skip { Ok(0) } else { count(self.left) });
        self.counts.tell();
        counted
    }

    /// Goes to the next row.
    fn step(&mut self) -> Result<bool> {
        note(&self.plan);
        let found = self.next_row();
        self.counts.tell();
        found
    }

    fn next_row(&mut self) -> Result<bool> {
        let (query, collated) = (&*self.query, self.collated);
        let run = Run { reader: &*self.reader, table: &self.table, query, collated, counts: &self.counts };
        while self.skip > 0 {
            self.skip -= 1;
            if !self.root.next(&run, &mut self.row)? {
                // No later row is there either.
                (self.skip, self.left) = (0, 0);
            }
        }
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let found = self.root.next(&run, &mut self.row)?;
        if !found {
            self.left = 0;
        }
        Ok(found)
    }
}

impl Iterator for Execution<'_> {
    type Item = Result<DocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            self.left = 0;
        }
        next
    }
}

/// Notes the plan as that of the thread's operation, if that has none yet: a cursor is read by several operations.
fn note(plan: &Arc<Plan>) {
    interrupt::note_plan(|| Arc::clone(plan) as Summary);
}

/// Counts the use of each index of a plan, and the scans of all documents.
fn note_uses(plan: &Plan, collection: &CollectionState) {
    match plan {
        Plan::Nothing => {}
        Plan::Id(_) => collection.id_uses.add(),
        Plan::Scan(scan) | Plan::Covered(scan) => match &scan.index {
            Some(index) => index.uses.add(),
            None if scan.is_whole() => collection.scans.add(),
            None => collection.id_uses.add(),
        },
        Plan::Union(plans) => plans.iter().for_each(|plan| note_uses(plan, collection)),
        Plan::Sort(input) => note_uses(input, collection),
    }
}

/// The operators of a plan. `wanted` is how many documents are asked for.
fn operator(run: &Run<'_>, plan: &Plan, wanted: Option<u64>) -> Box<dyn Operator> {
    match plan {
        Plan::Nothing => Box::new(Union::new(run, Vec::new())),
        Plan::Id(key) => Box::new(IdLookup(Some(key.clone()))),
        Plan::Scan(scan) => match entries(run, scan) {
            None => Box::new(CollectionScan::new(run, scan)),
            Some(Input::Scan(entries)) => Box::new(Fetch::new(entries, wanted, scan.exact)),
            Some(Input::Merged(entries)) => Box::new(Fetch::new(Box::new(entries), wanted, scan.exact)),
        },
        Plan::Covered(scan) => match (entries(run, scan), &scan.index) {
            (Some(entries), Some(index)) => Box::new(Covered::new(entries, index, run, scan.exact)),
            _ => Box::new(CollectionScan::new(run, scan)),
        },
        Plan::Union(plans) => Box::new(Union::new(run, plans.iter().map(|plan| operator(run, plan, wanted)).collect())),
        Plan::Sort(input) => {
            let input = operator(run, input, None);
            match &run.query.sort {
                Some(sort) => Box::new(SortAll::new(input, sort.clone(), run.query.memory(), wanted)),
                None => input,
            }
        }
    }
}

/// The entries of a scan of an index.
fn entries(run: &Run<'_>, scan: &Scan) -> Option<Input> {
    if scan.groups.len() < 2 {
        return IndexScan::new(run, scan, scan.groups.clone()).map(|scan| Input::Scan(Box::new(scan)));
    }
    let inputs = scan.groups.iter().map(|group| {
        let input: Box<dyn Operator> = Box::new(IndexScan::new(run, scan, vec![group.clone()])?);
        Some((input, group.prefix.len()))
    });
    let inputs: Option<Vec<_>> = inputs.collect();
    Some(Input::Merged(MergeByKey::new(run, inputs?, scan.reverse, scan.multikey)))
}
