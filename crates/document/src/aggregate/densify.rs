//! `$densify`: documents for the values of a field that are missing.

use std::sync::Arc;

use super::stage::{Parser, Rows, Run, Stage, Stages, deferred, error};
use super::unwind::{get, set};
use crate::base::num::{nearest_f64, trunc_to_i64};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::number::Number;
use crate::bson::{Document, DocumentBuf, Value, ValueBuf, compare};
use crate::collation;
use crate::expr::value::int;
use crate::path::Path;

/// `$densify`.
#[derive(Debug)]
struct Densify {
    field: Path,
    partition: Vec<Path>,
    step: Step,
    bounds: Bounds,
}

/// The distance of two values.
#[derive(Clone, Copy, Debug)]
enum Step {
    Number(f64, bool),
    Millis(i64),
    Months(i64),
}

/// Which values there are to be.
#[derive(Debug)]
enum Bounds {
    /// From the least to the greatest of all documents.
    Full,
    /// From the least to the greatest of the partition.
    Partition,
    Between(ValueBuf, ValueBuf),
}

/// The most documents that are made.
const DOCUMENTS_MAX: usize = 500_000;

impl Stage for Densify {
    fn name(&self) -> &'static str {
        "$densify"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let run = run.clone();
        Ok(deferred(move || Ok(self.densified(input, &run)?.into_iter().map(Ok))))
    }
}

/// A document with its partition and its value.
type Row = (Vec<ValueBuf>, ValueBuf, DocumentBuf);

impl Densify {
    fn densified(&self, input: Rows, run: &Run) -> Result<Vec<DocumentBuf>> {
        let (mut rows, mut out): (Vec<Row>, Vec<DocumentBuf>) = (Vec::new(), Vec::new());
        for row in input {
            let document = row?;
            run.memory.take(document.as_bytes().len(), "$densify")?;
            let value = match get(document.view(), self.field.parts()) {
                None | Some(Value::Null | Value::Undefined) => {
                    // Documents without a value pass as they are.
                    out.push(document);
                    continue;
                }
                Some(value) => value,
            };
            let fits = match self.step {
                Step::Number(..) => value.kind().is_number(),
                _ => matches!(value, Value::DateTime(_)),
            };
            if !fits {
                let code = if value.kind().is_number() { 6_053_600 } else { 5_733_201 };
                return Err(error(code, "Densify field type must be numeric, or a date with a unit"));
            }
            let null = || ValueBuf::from(Value::Null);
            let key = |path: &Path| get(document.view(), path.parts()).map_or_else(null, ValueBuf::from);
            let partition = self.partition.iter().map(key).collect();
            let value = value.into();
            rows.push((partition, value, document));
        }
        let by = run.context.collation.as_deref();
        let by_partition = |a: &Row, b: &Row| {
            a.0.iter().zip(&b.0).map(|(a, b)| collation::compare(by, &a.view(), &b.view())).find(|order| order.is_ne())
        };
        rows.sort_by(|a, b| by_partition(a, b).unwrap_or_else(|| compare(&a.1.view(), &b.1.view())));
        let least = rows.iter().map(|row| &row.1).min_by(|a, b| compare(&a.view(), &b.view())).cloned();
        let most = rows.iter().map(|row| &row.1).max_by(|a, b| compare(&a.view(), &b.view())).cloned();
        for part in rows.chunk_by(|a, b| by_partition(a, b).is_none()) {
            let (low, high, inclusive) = match (&self.bounds, &least, &most) {
                (Bounds::Between(low, high), ..) => (low.clone(), high.clone(), false),
                (Bounds::Full, Some(low), Some(high)) => (low.clone(), high.clone(), true),
                _ => (part[0].1.clone(), part[part.len() - 1].1.clone(), true),
            };
            self.fill(part, (&low, &high, inclusive), &mut out, run)?;
        }
        if let (Bounds::Between(low, high), true) = (&self.bounds, rows.is_empty() && self.partition.is_empty()) {
            self.fill(&[], (low, high, false), &mut out, run)?;
        }
        Ok(out)
    }

    /// Appends the documents of a partition and those that are missing between them.
    fn fill(
        &self,
        part: &[Row],
        (low, high, inclusive): (&ValueBuf, &ValueBuf, bool),
        out: &mut Vec<DocumentBuf>,
        run: &Run,
    ) -> Result<()> {
        let mut rows = part.iter().peekable();
        let mut made = 0_i64;
        while let Some(next) = self.step.after(&low.view(), made) {
            let order = compare(&next, &high.view());
            if order.is_gt() || order.is_eq() && !inclusive {
                break;
            }
            while let Some(row) = rows.next_if(|row| compare(&row.1.view(), &next).is_lt()) {
                out.push(row.2.clone());
            }
            let mut there = false;
            while let Some(row) = rows.next_if(|row| compare(&row.1.view(), &next).is_eq()) {
                out.push(row.2.clone());
                there = true;
            }
            if !there {
                let mut document = DocumentBuf::new();
                // Of values that are equal by a collation, those of the document that follows.
                if let Some((partition, ..)) = rows.peek().copied().or(part.last()) {
                    for (path, value) in self.partition.iter().zip(partition) {
                        document = set(document.view(), path.parts(), value.view());
                    }
                }
                let document = set(document.view(), self.field.parts(), next);
                run.memory.take(document.as_bytes().len(), "$densify")?;
                out.push(document);
                if out.len() > DOCUMENTS_MAX + part.len() {
                    return Err(error(
                        5_897_900,
                        format!(
                            "Generated {} documents in $densify, which is over the limit of {DOCUMENTS_MAX}",
                            out.len()
                        ),
                    ));
                }
            }
            made += 1;
        }
        out.extend(rows.map(|row| row.2.clone()));
        Ok(())
    }
}

impl Step {
    /// The value some steps after another.
    fn after(self, from: &Value<'_>, steps: i64) -> Option<Value<'static>> {
        match (self, *from) {
            (Self::Millis(step), Value::DateTime(millis)) => {
                Some(Value::DateTime(millis.checked_add(step.checked_mul(steps)?)?))
            }
            (Self::Months(step), Value::DateTime(millis)) => {
                crate::expr::add_months(millis, step.checked_mul(steps)?).map(Value::DateTime)
            }
            (Self::Number(step, whole), value) => Some(match value.as_number()? {
                Number::Int(number) if whole => {
                    let sum = number.checked_add(trunc_to_i64(step)?.checked_mul(steps)?)?;
                    if value.kind() == crate::bson::Kind::Int64 { Value::Int64(sum) } else { int(sum) }
                }
                number => Value::Double(number.to_f64() + step * nearest_f64(steps)),
            }),
            _ => None,
        }
    }
}

fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::FAILED_TO_PARSE, what)
}

pub(super) fn read(_: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(error(5_733_401, "The $densify stage specification must be an object"));
    };
    let missing = |name: &str| {
        Error::new(
            ErrorCode::IDL_FAILED_TO_PARSE,
            format!("BSON field '$densify.{name}' is missing but a required field"),
        )
    };
    if let Some(unknown) = spec
        .elements()
        .find(|element| !["field", "partitionByFields", "range"].iter().any(|known| element.name == *known))
    {
        return Err(Error::new(
            ErrorCode::IDL_UNKNOWN_FIELD,
            format!("BSON field '$densify.{}' is an unknown field.", unknown.name),
        ));
    }
    let field = spec.get("field").ok_or_else(|| missing("field"))?;
    let field = field
        .as_str()
        .ok_or_else(|| Error::new(ErrorCode::TYPE_MISMATCH, "BSON field '$densify.field' must be a string"))?;
    crate::expr::parser::check_path(field)?;
    let mut partition = Vec::new();
    for name in spec.get("partitionByFields").and_then(|value| value.as_array()).into_iter().flatten() {
        let name =
            name.as_str().ok_or_else(|| Error::new(ErrorCode::TYPE_MISMATCH, "'partitionByFields' must be strings"))?;
        crate::expr::parser::check_path(name)?;
        partition.push(Path::new(name));
    }
    let Some(Value::Document(range)) = spec.get("range") else { return Err(missing("range")) };
    let (step, bounds) = (step_of(range)?, bounds_of(range)?);
    if let Bounds::Between(low, _) = &bounds {
        let dates = matches!(low.view(), Value::DateTime(_));
        if dates == matches!(step, Step::Number(..)) {
            return Err(error(5_733_402, "Bounds of dates need a unit, and bounds of numbers have none"));
        }
    }
    Ok(vec![Arc::new(Densify { field: Path::new(field), partition, step, bounds })])
}

fn step_of(range: Document<'_>) -> Result<Step> {
    let step = range.get("step").ok_or_else(|| failed("$densify needs range.step"))?;
    let number = step.as_f64().ok_or_else(|| Error::new(ErrorCode::TYPE_MISMATCH, "'step' must be a number"))?;
    if number <= 0.0 {
        return Err(error(
            5_733_401,
            "The step parameter in a range statement must be a strictly positive numeric value",
        ));
    }
    let whole = step.as_exact_i64();
    let Some(unit) = range.get("unit") else { return Ok(Step::Number(number, whole.is_some())) };
    let whole = whole.ok_or_else(|| {
        error(6_586_400, "The step parameter in a range statement must be a whole number when densifying a date range")
    })?;
    Ok(match unit.as_str() {
        Some("year") => Step::Months(12 * whole),
        Some("quarter") => Step::Months(3 * whole),
        Some("month") => Step::Months(whole),
        Some("week") => Step::Millis(604_800_000 * whole),
        Some("day") => Step::Millis(86_400_000 * whole),
        Some("hour") => Step::Millis(3_600_000 * whole),
        Some("minute") => Step::Millis(60_000 * whole),
        Some("second") => Step::Millis(1000 * whole),
        Some("millisecond") => Step::Millis(whole),
        _ => return Err(failed("unknown time unit value")),
    })
}

fn bounds_of(range: Document<'_>) -> Result<Bounds> {
    match range.get("bounds") {
        Some(Value::String(name)) if name == "full" => Ok(Bounds::Full),
        Some(Value::String(name)) if name == "partition" => Ok(Bounds::Partition),
        Some(Value::Array(array)) => {
            let values: Vec<_> = array.values().collect();
            match &values[..] {
                [low, high]
                    if low.class() == high.class() && (low.kind().is_number() || matches!(low, Value::DateTime(_))) =>
                {
                    if compare(low, high).is_gt() {
                        return Err(error(5_733_402, "the bounds in a range statement must be in ascending order"));
                    }
                    Ok(Bounds::Between((*low).into(), (*high).into()))
                }
                _ => Err(error(5_733_402, "a bounding array in a range statement must have two numbers or two dates")),
            }
        }
        _ => Err(error(5_733_401, "range.bounds must be 'full', 'partition' or an array")),
    }
}
