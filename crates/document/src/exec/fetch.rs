//! Fetches: the documents that entries of an index lead to.

use std::collections::VecDeque;

use super::operator::{Operator, Run, dangling};
use super::row::Row;
use super::stored::StoredDocument;
use crate::base::Result;
use crate::base::num::usize_of;

/// The most documents that are read at once.
const TOGETHER_MAX: usize = 64;

/// The documents of rows, those that match. It reads several at once, more each time, so that their reads overlap and a
/// short query does not read many for nothing.
#[derive(Debug)]
pub(super) struct Fetch {
    input: Box<dyn Operator>,
    together: usize,
    rows: VecDeque<Row>,
    /// Whether all rows match.
    exact: bool,
}

impl Fetch {
    pub(super) fn new(input: Box<dyn Operator>, wanted: Option<u64>, exact: bool) -> Self {
        let together = wanted.map_or(8, |wanted| usize_of(wanted).clamp(1, TOGETHER_MAX));
        Self { input, together, rows: VecDeque::new(), exact }
    }

    fn fill(&mut self, run: &Run<'_>) -> Result<()> {
        let mut rows = Vec::with_capacity(self.together);
        while rows.len() < self.together {
            let mut row = Row::default();
            if !self.input.next(run, &mut row)? {
                break;
            }
            rows.push(row);
        }
        self.together = (self.together * 2).clamp(8, TOGETHER_MAX);
        match &mut rows[..] {
            [] => {}
            [only] => only.document = run.reader.get(run.table, &only.id)?.map(StoredDocument::new),
            _ => {
                let ids: Vec<&[u8]> = rows.iter().map(|row| &row.id[..]).collect();
                let found = run.reader.multi_get(run.table, &ids)?;
                for (row, document) in rows.iter_mut().zip(found) {
                    row.document = document.map(StoredDocument::new);
                }
            }
        }
        self.rows.extend(rows);
        Ok(())
    }
}

impl Operator for Fetch {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        loop {
            let Some(mut next) = self.rows.pop_front() else {
                self.fill(run)?;
                if self.rows.is_empty() {
                    return Ok(false);
                }
                continue;
            };
            let Some(document) = &next.document else { return Err(dangling()) };
            if self.exact {
                run.count_document(document.bytes().len())?;
            }
            if self.exact || run.matches(&mut next)? {
                *row = next;
                return Ok(true);
            }
        }
    }
}
