//! Sorts in memory.

use super::operator::{Operator, Run};
use super::row::Row;
use crate::base::num::usize_of;
use crate::base::{Error, ErrorCode, Result};
use crate::path::{Sort, SortKey};

/// The most bytes of documents that a sort keeps.
const BYTES_MAX: usize = 100 << 20;

/// The rows of an input in the order of a sort, or the first of them.
#[derive(Debug)]
pub(super) struct SortAll {
    input: Option<Box<dyn Operator>>,
    sort: Sort,
    /// How many are asked for.
    wanted: Option<usize>,
    sorted: std::vec::IntoIter<Row>,
}

impl SortAll {
    pub(super) fn new(input: Box<dyn Operator>, sort: Sort, wanted: Option<u64>) -> Self {
        let wanted = wanted.map(usize_of);
        Self { input: Some(input), sort, wanted, sorted: Vec::new().into_iter() }
    }

    fn collect(&self, mut input: Box<dyn Operator>, run: &Run<'_>) -> Result<Vec<Row>> {
        let (mut rows, mut bytes): (Vec<(SortKey, Row)>, usize) = (Vec::new(), 0);
        let mut row = Row::default();
        while input.next(run, &mut row)? {
            let Some(document) = &row.document else { continue };
            bytes = bytes.saturating_add(document.bytes().len());
            rows.push((self.sort.key(document.view())?, std::mem::take(&mut row)));
            if let Some(wanted) = self.wanted
                && rows.len() >= wanted.saturating_mul(2).max(64)
            {
                self.order(&mut rows);
                rows.truncate(wanted);
                bytes = rows.iter().filter_map(|(_, row)| row.document.as_ref()).map(|one| one.bytes().len()).sum();
            }
            if bytes > BYTES_MAX {
                let what = format!(
                    "Executor error during find command :: caused by :: Sort exceeded memory limit of {BYTES_MAX} \
                     bytes, but did not opt in to external sorting."
                );
                return Err(Error::new(ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT, what));
            }
        }
        self.order(&mut rows);
        rows.truncate(self.wanted.unwrap_or(usize::MAX));
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    fn order(&self, rows: &mut [(SortKey, Row)]) {
        rows.sort_by(|a, b| self.sort.compare(&a.0, &b.0));
    }
}

impl Operator for SortAll {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        if let Some(input) = self.input.take() {
            self.sorted = self.collect(input, run)?.into_iter();
        }
        match self.sorted.next() {
            Some(next) => {
                *row = next;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
