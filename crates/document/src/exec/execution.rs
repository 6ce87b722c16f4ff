//! Running a query.

use std::ops::Bound;
use std::sync::Arc;

use super::reader::Reader;
use super::stored::StoredDocument;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf};
use crate::catalog::CollectionState;
use crate::path::SortKey;
use crate::plan::Query;

/// A document that a query found.
#[derive(Clone, Debug)]
pub struct Match {
    /// The document.
    pub document: StoredDocument,
    /// Where in an array the filter matched.
    pub position: Option<usize>,
}

/// A query that runs. As an iterator it gives the projected documents; [`Self::next_match`] gives them as they are
/// stored.
#[derive(Debug)]
pub struct Execution<'r> {
    _reader: Box<dyn Reader + 'r>,
    query: Arc<Query>,
    source: Source,
    skip: u64,
    left: u64,
}

#[derive(Debug)]
enum Source {
    Scan(spinney::Range),
    Sorted(std::vec::IntoIter<Match>),
}

impl<'r> Execution<'r> {
    /// Begins a query.
    ///
    /// # Errors
    /// Those of the engine and of the filter.
    pub fn open(reader: Box<dyn Reader + 'r>, collection: &CollectionState, query: Arc<Query>) -> Result<Self> {
        let range = reader.range(&collection.table, (Bound::Unbounded, Bound::Unbounded), false);
        let (skip, left) = (query.skip, query.limit.unwrap_or(u64::MAX));
        let mut this = Self { _reader: reader, query, source: Source::Scan(range), skip, left };
        if let Some(sort) = this.query.sort.clone() {
            let mut found: Vec<(SortKey, Match)> = Vec::new();
            while let Some(matched) = this.pull()? {
                found.push((sort.key(matched.document.view())?, matched));
            }
            found.sort_by(|a, b| sort.compare(&a.0, &b.0));
            this.source = Source::Sorted(found.into_iter().map(|(_, found)| found).collect::<Vec<_>>().into_iter());
        }
        Ok(this)
    }

    /// The next document as it is stored.
    ///
    /// # Errors
    /// Those of the engine and of the filter.
    pub fn next_match(&mut self) -> Result<Option<Match>> {
        while self.skip > 0 {
            self.skip -= 1;
            if self.pull()?.is_none() {
                return Ok(None);
            }
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.pull()
    }

    /// The next document as the projection shows it.
    ///
    /// # Errors
    /// As [`Self::next_match`], and those of the projection.
    pub fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        let Some(found) = self.next_match()? else { return Ok(None) };
        Ok(Some(match &self.query.projection {
            Some(projection) => projection.apply(found.document.view(), found.position)?,
            None => found.document.to_buf(),
        }))
    }

    fn pull(&mut self) -> Result<Option<Match>> {
        let range = match &mut self.source {
            Source::Sorted(found) => return Ok(found.next()),
            Source::Scan(range) => range,
        };
        for entry in range {
            let document = StoredDocument::new(entry?.1);
            if Document::from_checked_bytes(document.bytes()).is_none() {
                return Err(Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, "a document is no BSON"));
            }
            let (matched, position) = self.query.filter.matches_at(document.view())?;
            if matched {
                return Ok(Some(Match { document, position }));
            }
        }
        Ok(None)
    }
}

impl Iterator for Execution<'_> {
    type Item = Result<DocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}
