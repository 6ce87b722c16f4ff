//! `$sort`: all documents in order, or the first ones.

use std::sync::Arc;

use super::effect::{Effect, Fields};
use super::sorter::{Sorted, Sorter};
use super::stage::{Parser, Rows, Run, Stage, Stages, deferred, error};
use crate::base::Result;
use crate::bson::Value;
use crate::path::Sort;

/// `$sort`.
#[derive(Debug)]
pub(super) struct SortStage {
    pattern: Sort,
    limit: Option<u64>,
}

impl SortStage {
    pub(super) const fn new(pattern: Sort) -> Self {
        Self { pattern, limit: None }
    }

    fn sorted(&self, input: Rows, run: &Run) -> Result<Sorted> {
        let mut sorter = Sorter::new("$sort", Arc::clone(&run.memory), self.limit);
        for row in input {
            let row = row?;
            sorter.push(self.pattern.encoded(row.view())?, row)?;
        }
        sorter.finish()
    }
}

impl Stage for SortStage {
    fn name(&self) -> &'static str {
        "$sort"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let run = run.clone();
        Ok(deferred(move || Ok(self.sorted(input, &run)?.map(|row| row.map(|(_, document)| document)))))
    }

    fn effect(&self) -> Option<Effect> {
        let mut reads = Fields::none();
        self.pattern.fields().iter().for_each(|(path, _)| reads.add(path));
        Some(Effect::passing(reads, self.limit.is_none()))
    }

    fn as_sort(&self) -> Option<&Sort> {
        self.limit.is_none().then_some(&self.pattern)
    }

    fn with_limit(&self, count: u64) -> Option<Arc<dyn Stage>> {
        let limit = Some(self.limit.map_or(count, |limit| limit.min(count)));
        Some(Arc::new(Self { pattern: self.pattern.clone(), limit }))
    }
}

pub(super) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(pattern) = value else {
        return Err(error(15973, "the $sort key specification must be an object"));
    };
    if pattern.is_empty() {
        return Err(error(15976, "$sort stage must have at least one sort key"));
    }
    Ok(vec![Arc::new(SortStage::new(Sort::parse(pattern, parser.context.collation.as_ref())?))])
}
