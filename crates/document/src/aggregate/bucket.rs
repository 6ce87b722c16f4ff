//! `$bucket` and `$bucketAuto`: groups of ranges.

use super::accumulator::{Accumulator, Kind};
use super::accumulator_parse;
use super::group::Group;
use super::sort::SortStage;
use super::stage::{Parser, Rows, Run, Stage, deferred, error};
use crate::base::Result;
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value, ValueBuf, compare};
use crate::expr::{Context, Expression};
use crate::path::Sort;

type Fields = Vec<(String, Accumulator)>;

/// The fields of `output`; a count without it.
fn output(value: Option<Value<'_>>, wrong: i32, context: &Context) -> Result<Fields> {
    let Some(value) = value else {
        let count = Accumulator { kind: Kind::Sum, argument: Expression::constant(Value::Int32(1)) };
        return Ok(vec![("count".to_owned(), count)]);
    };
    let Value::Document(spec) = value else {
        return Err(error(
            wrong,
            format!("The 'output' field must be an object, but found type: {}", value.kind().name()),
        ));
    };
    let mut fields = Vec::new();
    for element in spec {
        if element.name == "_id" {
            return Err(error(15948, "'_id' is a reserved output field name"));
        }
        fields.push((element.name.to_str_lossy().into_owned(), accumulator_parse::field(&element, context)?));
    }
    Ok(fields)
}

/// Whether a value is an expression as `groupBy` takes it.
fn is_expression(value: &Value<'_>) -> bool {
    match value {
        Value::String(path) => path.as_bytes().starts_with(b"$"),
        Value::Document(document) => document.first().is_some_and(|first| first.name.as_bytes().starts_with(b"$")),
        _ => false,
    }
}

pub(super) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Result<Vec<Box<dyn Stage>>> {
    let Value::Document(spec) = value else {
        return Err(error(
            40201,
            format!("Argument to $bucket stage must be an object, but found type: {}", value.kind().name()),
        ));
    };
    let (mut by, mut boundaries, mut default) = (None, None, None);
    for element in spec {
        match element.name.as_bytes() {
            b"groupBy" => {
                if !is_expression(&element.value) {
                    return Err(error(
                        40202,
                        format!(
                            "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but found: {}",
                            element.value.to_json()
                        ),
                    ));
                }
                by = Some(element.value);
            }
            b"boundaries" => boundaries = Some(boundaries_of(element.value, parser.context)?),
            b"default" => {
                let constant = crate::expr::parse(element.value, parser.context)?;
                if !constant.is_constant() {
                    return Err(error(
                        40195,
                        format!(
                            "The $bucket 'default' field must be a constant expression, but found: {}",
                            element.value.to_json()
                        ),
                    ));
                }
                default = constant.of(Document::empty())?.into_buf();
            }
            b"output" => {}
            _ => return Err(error(40197, format!("Unrecognized option to $bucket: {}.", element.name))),
        }
    }
    let fields = output(spec.get("output"), 40196, parser.context)?;
    let (Some(by), Some(boundaries)) = (by, boundaries) else {
        return Err(error(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified."));
    };
    if let (Some(default), Some(low), Some(high)) = (&default, boundaries.first(), boundaries.last()) {
        let within = compare(&default.view(), &low.view()).is_ge() && compare(&default.view(), &high.view()).is_lt();
        if within {
            return Err(error(
                40199,
                "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest boundary.",
            ));
        }
    }
    let group = Group::new(bucket_expression(by, &boundaries, default.as_ref(), parser.context)?, fields);
    Ok(vec![Box::new(group), Box::new(SortStage::new(Sort::by("_id", false)))])
}

/// The lower boundary of the bucket of a value, as a `$switch`.
fn bucket_expression(
    by: Value<'_>,
    boundaries: &[ValueBuf],
    default: Option<&ValueBuf>,
    context: &Context,
) -> Result<Expression> {
    let literal = |value: &ValueBuf| {
        let mut builder = DocumentBuilder::new();
        builder.append("$literal", value.view());
        builder.finish()
    };
    let mut builder = DocumentBuilder::new();
    builder.open_document("$switch").open_array("branches");
    for pair in boundaries.windows(2) {
        let (low, high) = (literal(&pair[0]), literal(&pair[1]));
        builder.push_document().open_document("case").open_array("$and");
        builder.push_document().open_array("$gte").push(by).push(&low).close().close();
        builder.push_document().open_array("$lt").push(by).push(&high).close().close();
        builder.close().close().append("then", &low).close();
    }
    builder.close();
    if let Some(default) = default {
        builder.append("default", &literal(default));
    }
    builder.close();
    let switch = builder.finish();
    crate::expr::parse(Value::Document(switch.view()), context)
}

fn boundaries_of(value: Value<'_>, context: &Context) -> Result<Vec<ValueBuf>> {
    let Value::Array(array) = value else {
        return Err(error(
            40200,
            format!("The $bucket 'boundaries' field must be an array, but found type: {}.", value.kind().name()),
        ));
    };
    let mut boundaries: Vec<ValueBuf> = Vec::new();
    for value in array {
        let constant = crate::expr::parse(value, context)?;
        if !constant.is_constant() {
            return Err(error(
                40191,
                format!(
                    "The $bucket 'boundaries' field must be an array of constant values, but found value: {}.",
                    value.to_json()
                ),
            ));
        }
        boundaries.push(constant.of(Document::empty())?.into_buf().unwrap_or_else(|| Value::Null.into()));
    }
    if boundaries.len() < 2 {
        return Err(error(
            40192,
            format!(
                "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
                boundaries.len()
            ),
        ));
    }
    for pair in boundaries.windows(2) {
        let (low, high) = (pair[0].view(), pair[1].view());
        if low.class() != high.class() {
            return Err(error(40193, "All values in the 'boundaries' option to $bucket must have the same type."));
        }
        if compare(&low, &high).is_ge() {
            return Err(error(40194, "The 'boundaries' option to $bucket must be sorted in ascending order."));
        }
    }
    Ok(boundaries)
}

/// `$bucketAuto`.
#[derive(Debug)]
struct Auto {
    by: Expression,
    buckets: usize,
    fields: Fields,
    granularity: Option<Granularity>,
}

/// The series of numbers that boundaries are taken from.
#[derive(Clone, Copy, Debug)]
enum Granularity {
    Powers,
    Series(&'static [f64]),
}

fn granularity(name: &str) -> Option<Granularity> {
    Some(match name {
        "POWERSOF2" => Granularity::Powers,
        "R5" => Granularity::Series(&[10.0, 16.0, 25.0, 40.0, 63.0]),
        "R10" => Granularity::Series(&[100.0, 125.0, 160.0, 200.0, 250.0, 315.0, 400.0, 500.0, 630.0, 800.0]),
        "R20" => Granularity::Series(&[
            100.0, 112.0, 125.0, 140.0, 160.0, 180.0, 200.0, 224.0, 250.0, 280.0, 315.0, 355.0, 400.0, 450.0, 500.0,
            560.0, 630.0, 710.0, 800.0, 900.0,
        ]),
        "1-2-5" => Granularity::Series(&[10.0, 20.0, 50.0]),
        "E6" => Granularity::Series(&[10.0, 15.0, 22.0, 33.0, 47.0, 68.0]),
        "E12" => Granularity::Series(&[10.0, 12.0, 15.0, 18.0, 22.0, 27.0, 33.0, 39.0, 47.0, 56.0, 68.0, 82.0]),
        "E24" => Granularity::Series(&[
            10.0, 11.0, 12.0, 13.0, 15.0, 16.0, 18.0, 20.0, 22.0, 24.0, 27.0, 30.0, 33.0, 36.0, 39.0, 43.0, 47.0, 51.0,
            56.0, 62.0, 68.0, 75.0, 82.0, 91.0,
        ]),
        "R40" | "R80" | "E48" | "E96" | "E192" => return None,
        _ => return None,
    })
}

impl Granularity {
    /// The least number of the series above a number.
    fn above(self, number: f64) -> f64 {
        if number == 0.0 {
            return 0.0;
        }
        match self {
            Self::Powers => {
                let power = number.log2().floor().exp2();
                if power > number { power } else { power * 2.0 }
            }
            Self::Series(series) => {
                let mut scale = 1.0;
                while number >= series[series.len() - 1] * scale {
                    scale *= 10.0;
                }
                while number < series[0] * scale {
                    let lower = scale / 10.0;
                    if number >= series[series.len() - 1] * lower {
                        return series[0] * scale;
                    }
                    scale = lower;
                }
                series.iter().map(|step| step * scale).find(|step| *step > number).unwrap_or(number)
            }
        }
    }

    /// The greatest number of the series below a number.
    fn below(self, number: f64) -> f64 {
        if number == 0.0 {
            return 0.0;
        }
        match self {
            Self::Powers => {
                let power = number.log2().ceil().exp2();
                if power < number { power } else { power / 2.0 }
            }
            Self::Series(series) => {
                let mut scale = 1.0;
                while number > series[series.len() - 1] * scale * 10.0 {
                    scale *= 10.0;
                }
                while number <= series[0] * scale {
                    scale /= 10.0;
                }
                let all = series.iter().map(|step| step * scale).chain(series.iter().map(|step| step * scale * 10.0));
                all.rev().find(|step| *step < number).unwrap_or(number)
            }
        }
    }
}

impl Stage for Auto {
    fn name(&self) -> &'static str {
        "$bucketAuto"
    }

    fn run<'a>(&'a self, input: Rows<'a>, run: Run<'a>) -> Result<Rows<'a>> {
        Ok(deferred(move || Ok(self.bucketed(input, run)?.into_iter().map(Ok))))
    }
}

impl Auto {
    fn bucketed(&self, input: Rows<'_>, run: Run<'_>) -> Result<Vec<DocumentBuf>> {
        let mut rows: Vec<(ValueBuf, DocumentBuf)> = Vec::new();
        for row in input {
            let document = row?;
            let key = self.by.of(document.view())?.into_buf().unwrap_or_else(|| Value::Null.into());
            if self.granularity.is_some() {
                let Some(number) = key.view().as_f64() else {
                    return Err(error(
                        40258,
                        format!(
                            "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with type: {}",
                            key.kind().name()
                        ),
                    ));
                };
                if number.is_nan() {
                    return Err(error(
                        40259,
                        "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN",
                    ));
                }
                if number < 0.0 {
                    return Err(error(
                        40260,
                        "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a negative number",
                    ));
                }
            }
            run.memory.take(document.as_bytes().len() + size_of::<ValueBuf>(), "$bucketAuto")?;
            rows.push((key, document));
        }
        rows.sort_by(|(a, _), (b, _)| compare(&a.view(), &b.view()));
        self.cut(&rows)
    }

    /// Cuts the rows, which are in order, into buckets of about the same size.
    fn cut(&self, rows: &[(ValueBuf, DocumentBuf)]) -> Result<Vec<DocumentBuf>> {
        let size = rows.len().div_euclid(self.buckets).max(1);
        let round_up = !rows.len().is_multiple_of(self.buckets) && (rows.len() % self.buckets) * 2 >= self.buckets;
        let size = if rows.len() > self.buckets && round_up { size + 1 } else { size };
        let (mut out, mut start) = (Vec::new(), 0);
        let mut lower = rows.first().map(|(key, _)| self.rounded(key, false));
        while start < rows.len() && out.len() < self.buckets {
            let last = out.len() + 1 == self.buckets;
            let mut end = if last { rows.len() } else { (start + size).min(rows.len()) };
            // Equal values stay together.
            while end < rows.len() && compare(&rows[end].0.view(), &rows[end - 1].0.view()).is_eq() {
                end += 1;
            }
            let mut upper = rows.get(end).map_or_else(|| rows[rows.len() - 1].0.clone(), |(key, _)| key.clone());
            if self.granularity.is_some() {
                upper = self.rounded(&rows[end - 1].0, true);
                while end < rows.len() && compare(&rows[end].0.view(), &upper.view()).is_lt() {
                    end += 1;
                }
            }
            out.push(self.bucket(&rows[start..end], lower.as_ref(), &upper)?);
            lower = Some(upper);
            start = end;
        }
        Ok(out)
    }

    fn rounded(&self, key: &ValueBuf, up: bool) -> ValueBuf {
        match (self.granularity, key.view().as_f64()) {
            (Some(granularity), Some(number)) => {
                Value::Double(if up { granularity.above(number) } else { granularity.below(number) }).into()
            }
            _ => key.clone(),
        }
    }

    fn bucket(&self, rows: &[(ValueBuf, DocumentBuf)], low: Option<&ValueBuf>, high: &ValueBuf) -> Result<DocumentBuf> {
        let mut builder = DocumentBuilder::new();
        builder
            .open_document("_id")
            .append("min", low.map_or(Value::Null, ValueBuf::view))
            .append("max", high.view())
            .close();
        for (name, accumulator) in &self.fields {
            let mut state = accumulator.start(Document::empty())?;
            for (_, document) in rows {
                accumulator.add(&mut state, document.view())?;
            }
            builder.append(name, accumulator.finish(state).view());
        }
        Ok(builder.finish())
    }
}

pub(super) fn read_auto(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Result<Vec<Box<dyn Stage>>> {
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
                rounding = Some(granularity(&name.to_str_lossy()).ok_or_else(unknown)?);
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
    Ok(vec![Box::new(Auto { by, buckets, fields, granularity: rounding })])
}
