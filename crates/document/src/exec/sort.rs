//! Sorts, in memory and, where the query's memory has a database for the rest, in a table.

use std::sync::Arc;

use super::operator::{Operator, Run};
use super::row::Row;
use crate::aggregate::sorter::Sorted;
use crate::aggregate::{Memory, Sorter};
use crate::base::Result;
use crate::path::Sort;

/// The rows of an input in the order of a sort, or the first of them.
#[derive(Debug)]
pub(super) struct SortAll {
    input: Option<Box<dyn Operator>>,
    sort: Sort,
    memory: Arc<Memory>,
    /// How many are asked for.
    wanted: Option<u64>,
    sorted: Option<Sorted<Row>>,
}

impl SortAll {
    pub(super) fn new(input: Box<dyn Operator>, sort: Sort, memory: Arc<Memory>, wanted: Option<u64>) -> Self {
        Self { input: Some(input), sort, memory, wanted, sorted: None }
    }

    fn collect(&self, mut input: Box<dyn Operator>, run: &Run<'_>) -> Result<Sorted<Row>> {
        let mut sorter = Sorter::new("sort", Arc::clone(&self.memory), self.wanted);
        let mut row = Row::default();
        while input.next(run, &mut row)? {
            let Some(document) = &row.document else { continue };
            sorter.push(self.sort.encoded(document.view())?, std::mem::take(&mut row))?;
        }
        sorter.finish()
    }
}

impl Operator for SortAll {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        if let Some(input) = self.input.take() {
            self.sorted = Some(self.collect(input, run)?);
        }
        match self.sorted.as_mut().and_then(Iterator::next).transpose()? {
            Some((_, next)) => {
                *row = next;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
