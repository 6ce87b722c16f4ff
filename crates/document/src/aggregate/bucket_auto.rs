//! `$bucketAuto`: groups of about the same size.

use std::sync::Arc;

use super::bucket::{Fields, is_expression, output};
use super::effect::{Effect, Fields as Reads};
use super::granularity::Granularity;
use super::memory::Held;
use super::sorter::{Sorted, Sorter};
use super::stage::{Parser, Rows, Run, Stage, Stages, deferred, error};
use crate::base::Result;
use crate::base::num::u64_of;
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::collation::{Collated, compare};
use crate::expr::Expression;
use crate::keys;

/// `$bucketAuto`.
#[derive(Debug)]
struct Auto {
    by: Expression,
    buckets: usize,
    fields: Fields,
    granularity: Option<Granularity>,
    /// How values are compared.
    collation: Collated,
}

impl Stage for Auto {
    fn name(&self) -> &'static str {
        "$bucketAuto"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let run = run.clone();
        Ok(deferred(move || {
            let mut buckets = self.sorted(input, &run)?;
            Ok(std::iter::from_fn(move || {
                buckets.next_bucket(&self, Held::new(&run.memory, "$bucketAuto")).transpose()
            }))
        }))
    }

    fn effect(&self) -> Option<Effect> {
        let mut reads = Reads::none();
        reads.add_expression(&self.by);
        self.fields.iter().for_each(|(_, accumulator)| accumulator.add_fields(&mut reads));
        Some(Effect::making(reads))
    }
}

/// The rows in order, as they are put into buckets.
struct Buckets {
    rows: Sorted,
    /// The row that begins the next bucket.
    next: Option<(ValueBuf, DocumentBuf)>,
    /// How many rows a bucket has, but for rows of equal values.
    size: u64,
    /// How many buckets there were.
    made: usize,
    /// Where the bucket before ends.
    end: Option<ValueBuf>,
}

impl Auto {
    fn key_of(&self, document: Document<'_>) -> Result<ValueBuf> {
        let key = self.by.of(document)?.into_buf().unwrap_or_else(|| Value::Null.into());
        if self.granularity.is_some() {
            Granularity::check(&key.view())?;
        }
        Ok(key)
    }

    fn sorted(&self, input: Rows, run: &Run) -> Result<Buckets> {
        let mut sorter = Sorter::new(self.name(), Arc::clone(&run.memory), None);
        for row in input {
            let document = row?;
            let mut key = Vec::with_capacity(16);
            keys::encode_id(&mut key, &self.key_of(document.view())?.view(), self.collation.as_deref());
            sorter.push(key, document)?;
        }
        let (count, buckets) = (sorter.pushed(), u64_of(self.buckets));
        // Rounded to the nearest.
        let size = (count.saturating_mul(2).saturating_add(buckets) / buckets.saturating_mul(2)).max(1);
        Ok(Buckets { rows: sorter.finish()?, next: None, size, made: 0, end: None })
    }
}

/// A bucket that is being filled.
struct Bucket {
    low: ValueBuf,
    high: ValueBuf,
    states: Vec<super::accumulator::State>,
    /// What the states take.
    held: Held,
}

impl Bucket {
    fn add(&mut self, stage: &Auto, (key, document): (ValueBuf, DocumentBuf)) -> Result<()> {
        for ((_, accumulator), state) in stage.fields.iter().zip(&mut self.states) {
            self.held.take(accumulator.add(state, document.view())?)?;
        }
        self.high = key;
        Ok(())
    }

    fn finish(self, stage: &Auto) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.open_document("_id").append("min", self.low.view()).append("max", self.high.view()).close();
        for ((name, accumulator), state) in stage.fields.iter().zip(self.states) {
            builder.append(name, accumulator.finish(state).view());
        }
        builder.finish()
    }
}

impl Buckets {
    fn row(&mut self, stage: &Auto) -> Result<Option<(ValueBuf, DocumentBuf)>> {
        let Some((_, document)) = self.rows.next().transpose()? else { return Ok(None) };
        Ok(Some((stage.key_of(document.view())?, document)))
    }

    fn next_bucket(&mut self, stage: &Auto, held: Held) -> Result<Option<DocumentBuf>> {
        let first = match self.next.take() {
            Some(row) => row,
            None if self.made > 0 => return Ok(None),
            None => match self.row(stage)? {
                Some(row) => row,
                None => return Ok(None),
            },
        };
        self.made += 1;
        let low = match (stage.granularity, self.end.take()) {
            (Some(_), Some(end)) => end,
            (Some(granularity), None) => granularity.below(&first.0.view()),
            (None, _) => first.0.clone(),
        };
        let states = stage.fields.iter().map(|(_, accumulator)| accumulator.start(Document::empty()));
        let mut bucket = Bucket { low, high: first.0.clone(), states: states.collect::<Result<_>>()?, held };
        bucket.add(stage, first)?;
        let (is_last, mut count) = (self.made == stage.buckets, 1);
        while count < self.size || is_last {
            let Some(row) = self.row(stage)? else { break };
            bucket.add(stage, row)?;
            count += 1;
        }
        self.close(&mut bucket, stage)?;
        Ok(Some(bucket.finish(stage)))
    }

    /// Adds the rows that belong to the bucket because of its end, and sets the end.
    fn close(&mut self, bucket: &mut Bucket, stage: &Auto) -> Result<()> {
        let end = match stage.granularity {
            Some(granularity) => granularity.above(&bucket.high.view()),
            None => bucket.high.clone(),
        };
        let mut next = self.row(stage)?;
        while let Some(row) = next.take() {
            let order = compare(stage.collation.as_deref(), &row.0.view(), &end.view());
            let belongs = if stage.granularity.is_some() { order.is_lt() } else { order.is_eq() };
            if !belongs {
                next = Some(row);
                break;
            }
            bucket.add(stage, row)?;
            next = self.row(stage)?;
        }
        bucket.high = match (stage.granularity, &next) {
            // The series have no number above zero, so the bucket of zeros ends where the next one begins.
            (Some(granularity), Some((key, _))) if end.view().as_f64() == Some(0.0) => granularity.below(&key.view()),
            (None, Some((key, _))) => key.clone(),
            _ => end,
        };
        self.end = Some(bucket.high.clone());
        self.next = next;
        Ok(())
    }
}

pub(super) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(error(
            40240,
            format!("The argument to $bucketAuto must be an object, but found type: {}.", value.kind().name()),
        ));
    };
    let (mut by, mut buckets, mut rounding) = (None, None, None);
    for element in spec {
        match (element.name.as_bytes(), element.value) {
            (b"groupBy", value) => {
                if !is_expression(&value) {
                    return Err(error(
                        40239,
                        format!(
                            "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object, but found: {}",
                            value.to_json()
                        ),
                    ));
                }
                by = Some(crate::expr::parse(value, parser.context)?);
            }
            (b"buckets", value) => {
                if value.as_number().is_none() {
                    return Err(error(
                        40241,
                        format!(
                            "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}.",
                            value.kind().name()
                        ),
                    ));
                }
                let whole = value.as_exact_i64().and_then(|number| i32::try_from(number).ok());
                let whole = whole.ok_or_else(|| {
                    error(
                        40242,
                        format!(
                            "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found {}",
                            value.to_json()
                        ),
                    )
                })?;
                let positive = usize::try_from(whole).ok().filter(|count| *count > 0);
                buckets = Some(positive.ok_or_else(|| {
                    error(40243, format!("The $bucketAuto 'buckets' field must be greater than 0, but found: {whole}"))
                })?);
            }
            (b"granularity", Value::String(name)) => {
                let unknown = || error(40257, format!("Unknown rounding granularity '{name}'"));
                rounding = Some(Granularity::of_name(&name.to_str_lossy()).ok_or_else(unknown)?);
            }
            (b"granularity", other) => {
                return Err(error(
                    40261,
                    format!(
                        "The $bucketAuto 'granularity' field must be a string, but found type: {}",
                        other.kind().name()
                    ),
                ));
            }
            (b"output", _) => {}
            _ => return Err(error(40245, format!("Unrecognized option to $bucketAuto: {}.", element.name))),
        }
    }
    let fields = output(spec.get("output"), 40244, parser.context)?;
    let (Some(by), Some(buckets)) = (by, buckets) else {
        return Err(error(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified"));
    };
    Ok(vec![Arc::new(Auto { by, buckets, fields, granularity: rounding, collation: parser.context.collation.clone() })])
}
