//! Stages that look at one document at a time, and those that count them.

use std::sync::Arc;

use super::effect::{Effect, Fields, Passes, is_deterministic};
use super::spec::whole;
use super::stage::{Inner, Is, Namespace, Parser, Pipeline, Rows, Run, Stage, Stages, Step, deferred, error};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::expr::{Env, Expression, Val};
use crate::projection::{Projection, Use};
use crate::query::Filter;
use crate::query::parse::NO_WHERE;

/// `$match`.
#[derive(Debug)]
struct Match(Filter);

impl Stage for Match {
    fn name(&self) -> &'static str {
        "$match"
    }

    fn run(self: Arc<Self>, input: Rows, _: &Run) -> Result<Rows> {
        Ok(Box::new(input.filter_map(move |row| match row {
            Ok(document) => match self.0.matches(document.view()) {
                Ok(true) => Some(Ok(document)),
                Ok(false) => None,
                Err(wrong) => Some(Err(wrong)),
            },
            Err(wrong) => Some(Err(wrong)),
        })))
    }

    fn effect(&self) -> Option<Effect> {
        let mut reads = Fields::none();
        reads.add_filter(self.0.root());
        Some(Effect::passing(reads, is_deterministic(self.0.root())))
    }

    fn as_filter(&self) -> Option<&Filter> {
        Some(&self.0)
    }
}

/// The `$match` of a filter.
#[must_use]
pub fn matching(filter: Filter) -> Step {
    let mut builder = DocumentBuilder::new();
    builder.open_document("$match").close();
    Step::new(Arc::new(Match(filter)), builder.finish())
}

pub(super) fn read_match(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(filter) = value else {
        return Err(error(15959, "the match filter must be an expression in an object"));
    };
    let filter = Filter::parse(filter, parser.context).map_err(|wrong| match wrong.code().number() {
        // A pipeline has no place for it, with or without JavaScript.
        NO_WHERE => Error::bad_value("$where is not allowed in this context"),
        _ => wrong,
    })?;
    Ok(vec![Arc::new(Match(filter))])
}

/// `$project`, `$addFields`, `$set`, `$unset`.
#[derive(Debug)]
struct Project {
    name: &'static str,
    projection: Projection,
}

impl Stage for Project {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(self: Arc<Self>, input: Rows, _: &Run) -> Result<Rows> {
        Ok(Box::new(input.map(move |row| self.projection.apply(row?.view(), None))))
    }

    fn effect(&self) -> Option<Effect> {
        let mut reads = Fields::none();
        reads.add_projection(&self.projection);
        let passes = Passes::of_projection(&self.projection);
        let placed = Passes::placed_by(&self.projection);
        Some(Effect { reads, passes, placed, lets_filters_pass: true })
    }

    fn as_projection(&self) -> Option<&Projection> {
        Some(&self.projection)
    }
}

/// The stage of a projection that adds fields.
pub(super) fn added(name: &'static str, projection: Projection) -> Arc<dyn Stage> {
    Arc::new(Project { name, projection })
}

fn invalid(name: &str) -> impl Fn(Error) -> Error + '_ {
    move |wrong| wrong.prefixed(&format!("Invalid {name} :: caused by :: "))
}

pub(super) fn read_project(parser: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(error(15969, "$project specification must be an object"));
    };
    let projection = Projection::parse(spec, Use::Pipeline, parser.context).map_err(invalid(name))?;
    Ok(vec![Arc::new(Project { name, projection })])
}

pub(super) fn read_add(parser: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(error(40272, format!("{name} specification stage must be an object, got {}", value.kind().name())));
    };
    if spec.is_empty() {
        // Nothing is added.
        return Ok(vec![Arc::new(Project { name, projection: Projection::of_removed(&[])? })]);
    }
    let projection = Projection::of_added(spec, parser.context).map_err(invalid(name))?;
    Ok(vec![Arc::new(Project { name, projection })])
}

pub(super) fn read_unset(_: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    let mut paths = Vec::new();
    match value {
        Value::String(path) => paths.push(path.to_str_lossy().into_owned()),
        Value::Array(array) => {
            if array.is_empty() {
                return Err(error(31119, "$unset specification must be a string or an array with at least one field"));
            }
            for value in array {
                let Value::String(path) = value else {
                    return Err(error(
                        31120,
                        "$unset specification must be a string or an array containing only string values",
                    ));
                };
                paths.push(path.to_str_lossy().into_owned());
            }
        }
        _ => return Err(error(31002, "$unset specification must be a string or an array")),
    }
    let projection = Projection::of_removed(&paths).map_err(invalid(name))?;
    Ok(vec![Arc::new(Project { name, projection })])
}

/// `$limit` and `$skip`.
#[derive(Debug)]
enum Cut {
    Limit(u64),
    Skip(u64),
}

impl Stage for Cut {
    fn name(&self) -> &'static str {
        if matches!(self, Self::Limit(_)) { "$limit" } else { "$skip" }
    }

    fn run(self: Arc<Self>, input: Rows, _: &Run) -> Result<Rows> {
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Ok(match *self {
            Self::Limit(count) => Box::new(input.take(size(count))),
            Self::Skip(count) => {
                let mut left = count;
                // An error is no document that is skipped.
                Box::new(input.skip_while(move |row| {
                    let skips = left > 0 && row.is_ok();
                    left -= u64::from(skips);
                    skips
                }))
            }
        })
    }

    fn effect(&self) -> Option<Effect> {
        Some(Effect::passing(Fields::none(), false))
    }

    fn as_limit(&self) -> Option<u64> {
        if let Self::Limit(count) = self { Some(*count) } else { None }
    }

    fn as_skip(&self) -> Option<u64> {
        if let Self::Skip(count) = self { Some(*count) } else { None }
    }
}

fn count_of(code: i32, name: &str, value: Value<'_>) -> Result<u64> {
    let wrong = |what: &str| error(code, format!("invalid argument to {name} stage: {what}: {}", value.to_json()));
    if value.as_number().is_none() {
        return Err(wrong("Expected a number in"));
    }
    let whole = value.as_exact_i64().ok_or_else(|| wrong("Expected an integer"))?;
    u64::try_from(whole).map_err(|_| wrong("Expected a non-negative number in"))
}

pub(super) fn read_limit(_: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    let count = count_of(5_107_201, name, value)?;
    if count == 0 {
        return Err(error(15958, "the limit must be positive"));
    }
    Ok(vec![Arc::new(Cut::Limit(count))])
}

pub(super) fn read_skip(_: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    Ok(vec![Arc::new(Cut::Skip(count_of(5_107_200, name, value)?))])
}

/// `$count`.
#[derive(Debug)]
struct Count(String);

impl Stage for Count {
    fn name(&self) -> &'static str {
        "$count"
    }

    fn run(self: Arc<Self>, mut input: Rows, _: &Run) -> Result<Rows> {
        Ok(Box::new(
            std::iter::once_with(move || {
                let count = input.try_fold(0_i64, |count, row| row.map(|_| count + 1))?;
                let mut builder = DocumentBuilder::new();
                builder.append(&self.0, crate::expr::value::int(count));
                Ok((count > 0).then(|| builder.finish()))
            })
            .filter_map(Result::transpose),
        ))
    }

    fn effect(&self) -> Option<Effect> {
        Some(Effect::making(Fields::none()))
    }
}

pub(super) fn read_count(_: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::String(name) = value else { return Err(error(40156, "the count field must be a non-empty string")) };
    let name = name.to_str_lossy().into_owned();
    if name.is_empty() {
        return Err(error(40157, "the count field must be a non-empty string"));
    }
    if name.starts_with('$') {
        return Err(error(40158, "the count field cannot be a $-prefixed path"));
    }
    if name.contains('\0') {
        return Err(error(40159, "the count field cannot contain a null byte"));
    }
    if name.contains('.') {
        return Err(error(40160, "the count field cannot contain '.'"));
    }
    if name == "_id" {
        return Err(error(9_039_800, "the count field cannot be '_id'"));
    }
    Ok(vec![Arc::new(Count(name))])
}

/// `$replaceRoot` and `$replaceWith`.
#[derive(Debug)]
struct Replace {
    name: &'static str,
    expression: Expression,
}

impl Stage for Replace {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(self: Arc<Self>, input: Rows, _: &Run) -> Result<Rows> {
        Ok(Box::new(input.map(move |row| {
            let document = row?;
            let value = self.expression.of(document.view())?;
            match value.value() {
                Value::Document(new) => Ok(new.into()),
                other => Err(error(40228, format!("'newRoot' expression must evaluate to an object, but resulting value was: {}. Type of resulting value: '{}'.", other.to_json(), value.type_name()))),
            }
        })))
    }

    fn effect(&self) -> Option<Effect> {
        let mut reads = Fields::none();
        reads.add_expression(&self.expression);
        Some(Effect::making(reads))
    }
}

pub(super) fn read_replace_root(parser: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(error(
            40229,
            format!("expected an object as specification for $replaceRoot stage, got {}", value.kind().name()),
        ));
    };
    if let Some(unknown) = spec.elements().find(|element| element.name != "newRoot") {
        return Err(Error::new(
            ErrorCode::IDL_UNKNOWN_FIELD,
            format!("BSON field '$replaceRoot.{}' is an unknown field.", unknown.name),
        ));
    }
    let value = spec.get("newRoot").ok_or_else(|| {
        Error::new(ErrorCode::IDL_FAILED_TO_PARSE, "BSON field '$replaceRoot.newRoot' is missing but a required field")
    })?;
    read_replace_with(parser, name, value)
}

pub(super) fn read_replace_with(parser: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    Ok(vec![Arc::new(Replace { name, expression: crate::expr::parse(value, parser.context)? })])
}

/// `$redact`.
#[derive(Debug)]
struct Redact(Expression);

impl Stage for Redact {
    fn name(&self) -> &'static str {
        "$redact"
    }

    fn run(self: Arc<Self>, input: Rows, _: &Run) -> Result<Rows> {
        Ok(Box::new(input.filter_map(move |row| match row {
            Ok(document) => self.redacted(document.view(), Value::Document(document.view())).transpose(),
            Err(wrong) => Some(Err(wrong)),
        })))
    }
}

impl Redact {
    /// A document or a part of it with what must not be seen taken out; nothing when all of it must not.
    fn redacted(&self, part: Document<'_>, root: Value<'_>) -> Result<Option<DocumentBuf>> {
        let env = Env { root, current: Value::Document(part), locals: None, collation: None };
        let decision = evaluate(&self.0, &env)?;
        match decision.value() {
            Value::String(name) if name == "keep" => Ok(Some(part.into())),
            Value::String(name) if name == "prune" => Ok(None),
            Value::String(name) if name == "descend" => {
                let mut builder = DocumentBuilder::new();
                for element in part {
                    if let Some(value) = self.within(element.value, root)? {
                        builder.append(element.name, value.view());
                    }
                }
                Ok(Some(builder.finish()))
            }
            _ => Err(error(
                17053,
                format!(
                    "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE, but returned {}",
                    decision.value().to_json()
                ),
            )),
        }
    }

    fn within(&self, value: Value<'_>, root: Value<'_>) -> Result<Option<ValueBuf>> {
        Ok(match value {
            Value::Document(document) => self.redacted(document, root)?.map(Into::into),
            Value::Array(array) => {
                let mut kept = Vec::new();
                for value in array {
                    kept.extend(self.within(value, root)?);
                }
                Some(ValueBuf::array(kept.iter().map(ValueBuf::view)))
            }
            other => Some(other.into()),
        })
    }
}

fn evaluate<'e>(expression: &'e Expression, env: &Env<'e>) -> Result<Val<'e>> {
    expression.within(env)
}

pub(super) fn read_redact(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    Ok(vec![Arc::new(Redact(crate::expr::parse(value, parser.context)?))])
}

/// `$documents`.
#[derive(Debug)]
struct Documents(Expression);

impl Stage for Documents {
    fn name(&self) -> &'static str {
        "$documents"
    }

    fn run(self: Arc<Self>, _: Rows, _: &Run) -> Result<Rows> {
        let wrong = || error(5_858_203, "an array is expected to follow $documents");
        let value = self.0.of(Document::empty())?;
        let Value::Array(array) = value.value() else { return Err(wrong()) };
        let mut documents = Vec::new();
        for value in array {
            let Value::Document(document) = value else { return Err(wrong()) };
            documents.push(Ok(DocumentBuf::from(document)));
        }
        Ok(Box::new(documents.into_iter()))
    }

    fn is_source(&self) -> bool {
        true
    }
}

pub(super) fn read_documents(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    Ok(vec![Arc::new(Documents(crate::expr::parse(value, parser.context)?))])
}

/// `$sample`.
#[derive(Debug)]
struct Sample {
    size: usize,
    random: Expression,
}

impl Stage for Sample {
    fn name(&self) -> &'static str {
        "$sample"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        // A reservoir of the documents with the lowest random numbers, in their order.
        let run = run.clone();
        Ok(deferred(move || Ok(self.drawn(input, &run)?.into_iter().map(Ok))))
    }

    fn effect(&self) -> Option<Effect> {
        Some(Effect::passing(Fields::none(), false))
    }

    fn as_sample(&self) -> Option<usize> {
        Some(self.size)
    }
}

impl Sample {
    fn drawn(&self, input: Rows, run: &Run) -> Result<Vec<DocumentBuf>> {
        let mut kept: Vec<(f64, DocumentBuf)> = Vec::new();
        for row in input {
            let document = row?;
            let number = self.random.of(Document::empty())?.value().as_f64().unwrap_or_default();
            let at = kept.partition_point(|(other, _)| *other < number);
            if at < self.size {
                run.memory.take(document.as_bytes().len(), "$sample")?;
                kept.insert(at, (number, document));
                if kept.len() > self.size
                    && let Some((_, dropped)) = kept.pop()
                {
                    run.memory.give(dropped.as_bytes().len());
                }
            }
        }
        Ok(kept.into_iter().map(|(_, document)| document).collect())
    }
}

pub(super) fn read_sample(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(error(28745, "the $sample stage specification must be an object"));
    };
    if spec.get("size").is_some_and(|size| size.as_number().is_none()) {
        return Err(error(28746, "size argument to $sample must be a number"));
    }
    if let Some(unknown) = spec.elements().find(|element| element.name != "size") {
        return Err(error(28748, format!("unrecognized option to $sample: {}", unknown.name)));
    }
    let size = spec.get("size").ok_or_else(|| error(28749, "$sample stage must specify a size"))?;
    let Some(number) = size.as_number() else {
        return Err(error(28746, "size argument to $sample must be a number"));
    };
    let size = usize::try_from(whole(number)).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| error(28747, "size argument to $sample must be a positive integer"))?;
    let random = crate::expr::random(parser.context);
    Ok(vec![Arc::new(Sample { size, random })])
}

/// `$facet`.
#[derive(Debug)]
struct Facet(Vec<(String, Pipeline)>);

impl Stage for Facet {
    fn name(&self) -> &'static str {
        "$facet"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let run = run.clone();
        Ok(Box::new(std::iter::once_with(move || self.faceted(input, &run))))
    }

    fn namespaces(&self) -> Vec<Namespace> {
        self.0.iter().flat_map(|(_, pipeline)| pipeline.namespaces()).collect()
    }

    fn inner_names(&self) -> Vec<&'static str> {
        self.0.iter().flat_map(|(_, pipeline)| pipeline.all_names()).collect()
    }

    fn inner(&self) -> Vec<Inner> {
        let pipelines = self.0.iter().map(|(_, pipeline)| pipeline.clone());
        pipelines.map(|pipeline| Inner { over: None, is_over_input: true, pipeline }).collect()
    }
}

impl Facet {
    fn faceted(&self, input: Rows, run: &Run) -> Result<DocumentBuf> {
        let (mut rows, mut kept) = (Vec::new(), 0);
        for row in input {
            let row = row?;
            kept += row.as_bytes().len();
            run.memory.take(row.as_bytes().len(), "$facet")?;
            rows.push(row);
        }
        let rows: Arc<[DocumentBuf]> = rows.into();
        let mut builder = DocumentBuilder::new();
        for (name, pipeline) in &self.0 {
            builder.open_array(name);
            facet_into(pipeline, &rows, run, &mut builder)?;
            builder.close();
        }
        run.memory.give(kept);
        Ok(builder.finish())
    }
}

fn facet_into(pipeline: &Pipeline, rows: &Arc<[DocumentBuf]>, run: &Run, builder: &mut DocumentBuilder) -> Result<()> {
    let rows = Arc::clone(rows);
    let input = (0..rows.len()).map(move |at| Ok(rows[at].clone()));
    for row in pipeline.run(Box::new(input), run)? {
        builder.push(&row?);
        if builder.len() > crate::bson::DOCUMENT_BYTES_MAX {
            let what = "the document that $facet gives is too large";
            return Err(Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, what));
        }
    }
    Ok(())
}

pub(super) fn read_facet(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(error(40169, "the $facet specification must be a non-empty object"));
    };
    if spec.is_empty() {
        return Err(error(40169, "the $facet specification must be a non-empty object"));
    }
    let mut facets = Vec::new();
    for element in spec {
        let name = element.name.to_str_lossy().into_owned();
        crate::expr::parser::check_field_name(&name)?;
        let Value::Array(stages) = element.value else {
            return Err(error(
                40170,
                format!("arguments to $facet must be arrays, {name} is type {}", element.value.kind().name()),
            ));
        };
        if stages.values().any(|stage| stage.as_document().is_none()) {
            return Err(error(
                40171,
                format!(
                    "elements of arrays in $facet spec must be non-empty objects, {name} argument contained an element of another type"
                ),
            ));
        }
        let steps = parser.steps(stages)?;
        if let Some(name) =
            steps.iter().flat_map(|step| step.all_names()).find(|name| parser.is(name, Is::OutsideFacets))
        {
            return Err(error(40600, format!("{name} is not allowed to be used within a $facet stage")));
        }
        if let Some(step) = steps.iter().find(|step| step.name() == "$listSessions") {
            let what = format!("{} is only valid over the collection of sessions", step.name());
            return Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
        }
        let pipeline = Pipeline::of(steps);
        facets.push((name, pipeline));
    }
    Ok(vec![Arc::new(Facet(facets))])
}

/// The error of stages and commands of search indexes, which drivers and tools look for.
#[must_use]
pub fn search_not_enabled(name: &str) -> Error {
    let what = format!("{name} needs search indexes, which are a service of Atlas: this server has none");
    Error::new(ErrorCode::SEARCH_NOT_ENABLED, what)
}

/// A stage that there is, but not here.
pub(super) fn refuse(_: &Parser<'_>, name: &'static str, _: Value<'_>) -> Stages {
    if name == "$changeStream" {
        // The command runs it, as the first stage of its own pipeline.
        let what = "$changeStream is only valid as the first stage in a pipeline over a collection or a database";
        return Err(Error::new(ErrorCode::new(40573), what));
    }
    if name == "$changeStreamSplitLargeEvent" {
        let what = "$changeStreamSplitLargeEvent is only valid as the last stage in the pipeline of a change stream";
        return Err(Error::new(ErrorCode::new(7_182_802), what));
    }
    if matches!(name, "$search" | "$searchMeta" | "$vectorSearch" | "$listSearchIndexes") {
        return Err(search_not_enabled(name));
    }
    Err(Error::new(ErrorCode::NOT_IMPLEMENTED, format!("the stage {name} is not supported")))
}
