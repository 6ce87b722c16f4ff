//! `$sort`: all documents in order, within the limit of memory.

use super::stage::{Parser, Rows, Run, Stage, deferred, error};
use crate::base::Result;
use crate::bson::{DocumentBuf, Value};
use crate::path::{Sort, SortKey};

/// `$sort`.
#[derive(Debug)]
pub(super) struct SortStage(Sort);

impl SortStage {
    pub(super) fn new(pattern: Sort) -> Self {
        Self(pattern)
    }

    fn sorted(&self, input: Rows<'_>, run: Run<'_>) -> Result<Vec<(SortKey, DocumentBuf)>> {
        let mut rows = Vec::new();
        for row in input {
            let row = row?;
            let key = self.0.key(row.view())?;
            let key_bytes: usize =
                key.iter().map(|value| value.payload().len() + size_of::<crate::bson::ValueBuf>()).sum();
            run.memory.take(row.as_bytes().len() + key_bytes, "$sort")?;
            rows.push((key, row));
        }
        // Stable, so that equal documents stay in the order in which they came.
        rows.sort_by(|(a, _), (b, _)| self.0.compare(a, b));
        Ok(rows)
    }
}

impl Stage for SortStage {
    fn name(&self) -> &'static str {
        "$sort"
    }

    fn run<'a>(&'a self, input: Rows<'a>, run: Run<'a>) -> Result<Rows<'a>> {
        Ok(deferred(move || {
            Ok(self.sorted(input, run)?.into_iter().map(move |(_, row)| {
                run.memory.give(row.as_bytes().len());
                Ok(row)
            }))
        }))
    }

    fn as_sort(&self) -> Option<&Sort> {
        Some(&self.0)
    }
}

pub(super) fn read(_: &Parser<'_>, _: &'static str, value: Value<'_>) -> Result<Vec<Box<dyn Stage>>> {
    let Value::Document(pattern) = value else {
        return Err(error(15973, "the $sort key specification must be an object"));
    };
    if pattern.is_empty() {
        return Err(error(15976, "$sort stage must have at least one sort key"));
    }
    Ok(vec![Box::new(SortStage(Sort::parse(pattern)?))])
}
