//! `$lookup`, `$graphLookup` and `$unionWith`: documents of other collections.

use std::collections::{HashMap, HashSet, VecDeque};

use super::accumulator::Key;
use super::stage::{Namespace, Parser, Pipeline, Rows, Run, Stage, error};
use super::unwind::set;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Element, Value, ValueBuf};
use crate::expr::{Context, Expression, Val};
use crate::path::Path;
use crate::query::Filter;

type Stages = Result<Vec<Box<dyn Stage>>>;

fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::FAILED_TO_PARSE, what)
}

/// `$lookup`.
#[derive(Debug)]
struct Lookup {
    from: Option<Namespace>,
    to: Path,
    /// The local and the foreign field.
    equal: Option<(Path, String)>,
    variables: Vec<(String, Expression)>,
    /// The pipeline, as it was given: it is compiled anew with the variables of each document.
    pipeline: Option<ValueBuf>,
    /// The pipeline, compiled, when it has no variables.
    compiled: Option<Pipeline>,
    table: super::stage::Table,
}

impl Stage for Lookup {
    fn name(&self) -> &'static str {
        "$lookup"
    }

    fn run<'a>(&'a self, input: Rows<'a>, run: Run<'a>) -> Result<Rows<'a>> {
        Ok(Box::new(input.map(move |row| {
            let document = row?;
            let found = self.found(document.view(), run)?;
            let array = ValueBuf::array(found.iter().map(|found| Value::Document(found.view())));
            Ok(set(document.view(), self.to.parts(), array.view()))
        })))
    }
}

impl Lookup {
    fn found(&self, document: Document<'_>, run: Run<'_>) -> Result<Vec<DocumentBuf>> {
        let filter = match &self.equal {
            None => Filter::all(),
            Some((local, foreign)) => equal_filter(&local_values(document, local), foreign, run.context)?,
        };
        let input: Rows<'_> = match &self.from {
            Some(from) => run.storage.read(from, filter)?,
            None => Box::new(std::iter::empty()),
        };
        if let Some(pipeline) = &self.compiled {
            return pipeline.run(input, run)?.collect();
        }
        let Some(Value::Array(stages)) = self.pipeline.as_ref().map(ValueBuf::view) else { return input.collect() };
        let mut context = run.context.clone();
        for (name, expression) in &self.variables {
            if let Some(value) = expression.of(document)?.into_buf() {
                context.set(name, value);
            } else {
                context.set(name, Value::Undefined.into());
            }
        }
        let pipeline = Parser::new(&context, self.table).pipeline(stages)?;
        let rows = pipeline.run(input, Run { context: &context, ..run })?;
        rows.collect()
    }
}

/// The values of a local field, as they are looked up: those of arrays, null for none.
fn local_values(document: Document<'_>, path: &Path) -> Vec<ValueBuf> {
    let mut values = Vec::new();
    match follow(document, path) {
        Val::Missing => values.push(Value::Null.into()),
        value => match value.value() {
            Value::Array(array) => values.extend(array.values().map(ValueBuf::from)),
            other => values.push(other.into()),
        },
    }
    values
}

fn follow<'a>(document: Document<'a>, path: &Path) -> Val<'a> {
    crate::expr::tree::follow(Value::Document(document), path.parts())
}

/// The filter for documents whose field is one of some values.
fn equal_filter(values: &[ValueBuf], field: &str, context: &Context) -> Result<Filter> {
    let mut builder = DocumentBuilder::new();
    builder.open_array("$or");
    for value in values {
        builder.push_document().open_document(field).append("$eq", value.view()).close().close();
    }
    if values.is_empty() {
        builder.push_document().append("$alwaysFalse", 1).close();
    }
    builder.close();
    let filter = builder.finish();
    Filter::parse(filter.view(), context)
}

/// The collection that `from` names.
fn namespace(stage: &str, value: Value<'_>) -> Result<Namespace> {
    match value {
        Value::String(name) => Ok(Namespace { database: None, collection: name.to_str_lossy().into_owned() }),
        Value::Document(spec) => {
            let text = |name: &str| spec.get(name).and_then(|value| value.as_str()).map(str::to_owned);
            let collection = text("coll").ok_or_else(|| failed(format!("{stage} 'from' needs a collection")))?;
            Ok(Namespace { database: text("db"), collection })
        }
        other => Err(failed(format!("{stage} argument 'from' must be a string, but found {}", other.kind().name()))),
    }
}

pub(super) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(failed(format!("the $lookup specification must be an Object but found {}", value.kind().name())));
    };
    let mut parts = Parts::default();
    for element in spec {
        parts.take(&element, parser)?;
    }
    let Parts { from, to, local, foreign, variables, pipeline } = parts;
    let to = to.ok_or_else(|| failed("must specify 'as' field for a $lookup"))?;
    let equal = match (local, foreign) {
        (Some(local), Some(foreign)) => Some((Path::new(local), foreign)),
        (None, None) if pipeline.is_some() => None,
        (None, None) => {
            return Err(failed(
                "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified",
            ));
        }
        _ => return Err(failed("$lookup requires both or neither of 'localField' and 'foreignField' to be specified")),
    };
    if pipeline.is_none() && !variables.is_empty() {
        return Err(failed("$lookup with a 'let' argument requires a 'pipeline'"));
    }
    let compiled = match pipeline {
        Some(Value::Array(stages)) => {
            // Compiled once with variables that stand for anything, so that what is wrong shows at once.
            let mut context = parser.context.clone();
            for (name, _) in &variables {
                context.set(name, Value::Null.into());
            }
            let pipeline = parser.with(&context).pipeline(stages)?;
            if pipeline.stages().iter().any(|stage| stage.is_output()) {
                return Err(error(51047, "$out and $merge are not allowed within a $lookup's sub-pipeline"));
            }
            if from.is_none() && !pipeline.starts_with_source() {
                return Err(failed(
                    "must specify 'pipeline' when 'from' is empty: $lookup requires 'from' or a pipeline that begins with $documents",
                ));
            }
            variables.is_empty().then_some(pipeline)
        }
        _ => None,
    };
    if from.is_none() && pipeline.is_none() {
        return Err(failed("missing 'from' option to $lookup stage specification"));
    }
    let pipeline = pipeline.map(ValueBuf::from);
    Ok(vec![Box::new(Lookup { from, to: Path::new(to), equal, variables, pipeline, compiled, table: parser.table() })])
}

/// The parts of a `$lookup`.
#[derive(Default)]
struct Parts<'p> {
    from: Option<Namespace>,
    to: Option<String>,
    local: Option<String>,
    foreign: Option<String>,
    variables: Vec<(String, Expression)>,
    pipeline: Option<Value<'p>>,
}

impl<'p> Parts<'p> {
    fn take(&mut self, element: &Element<'p>, parser: &Parser<'_>) -> Result<()> {
        let name = element.name.to_str_lossy();
        match (&*name, element.value) {
            ("from", value) => self.from = Some(namespace("$lookup", value)?),
            ("pipeline", Value::Array(_)) => self.pipeline = Some(element.value),
            ("pipeline", other) => {
                return Err(Error::new(
                    ErrorCode::TYPE_MISMATCH,
                    format!("'pipeline' option must be specified as an array, found {}", other.kind().name()),
                ));
            }
            ("let", Value::Document(spec)) => {
                for variable in spec {
                    let name = variable.name.to_str_lossy().into_owned();
                    crate::expr::parser::check_variable(&name)?;
                    self.variables.push((name, crate::expr::parse(variable.value, parser.context)?));
                }
            }
            ("let", other) => {
                return Err(failed(format!(
                    "$lookup argument 'let' must be an object, is type {}",
                    other.kind().name()
                )));
            }
            ("as" | "localField" | "foreignField", Value::String(text)) => {
                let text = text.to_str_lossy().into_owned();
                crate::expr::parser::check_path(&text)?;
                match &*name {
                    "as" => self.to = Some(text),
                    "localField" => self.local = Some(text),
                    _ => self.foreign = Some(text),
                }
            }
            ("as" | "localField" | "foreignField", other) => {
                return Err(failed(format!(
                    "$lookup argument '{name}' must be a string, found {}",
                    other.kind().name()
                )));
            }
            _ => return Err(failed(format!("unknown argument to $lookup: {name}"))),
        }
        Ok(())
    }
}

/// `$unionWith`.
#[derive(Debug)]
struct Union {
    with: Option<Namespace>,
    pipeline: Pipeline,
}

impl Stage for Union {
    fn name(&self) -> &'static str {
        "$unionWith"
    }

    fn run<'a>(&'a self, input: Rows<'a>, run: Run<'a>) -> Result<Rows<'a>> {
        let others = std::iter::once_with(move || {
            let rows: Rows<'a> = match &self.with {
                Some(with) => run.storage.read(with, Filter::all())?,
                None => Box::new(std::iter::empty()),
            };
            self.pipeline.run(rows, run)
        });
        Ok(Box::new(input.chain(others.flat_map(|rows| match rows {
            Ok(rows) => rows,
            Err(wrong) => Box::new(std::iter::once(Err(wrong))),
        }))))
    }
}

pub(super) fn read_union(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let (mut with, mut pipeline) = (None, Pipeline::default());
    match value {
        Value::String(name) => with = Some(Namespace { database: None, collection: name.to_str_lossy().into_owned() }),
        Value::Document(spec) => {
            for element in spec {
                match (element.name.as_bytes(), element.value) {
                    (b"coll", Value::String(name)) => {
                        with = Some(Namespace { database: None, collection: name.to_str_lossy().into_owned() })
                    }
                    (b"pipeline", Value::Array(stages)) => pipeline = parser.pipeline(stages)?,
                    (b"coll" | b"pipeline", other) => {
                        return Err(Error::new(
                            ErrorCode::TYPE_MISMATCH,
                            format!(
                                "BSON field '$unionWith.{}' is the wrong type '{}'",
                                element.name,
                                other.kind().name()
                            ),
                        ));
                    }
                    _ => {
                        return Err(Error::new(
                            ErrorCode::IDL_UNKNOWN_FIELD,
                            format!("BSON field '$unionWith.{}' is an unknown field.", element.name),
                        ));
                    }
                }
            }
        }
        other => {
            return Err(failed(format!(
                "the $unionWith stage specification must be an object or string, but found {}",
                other.kind().name()
            )));
        }
    }
    if pipeline.stages().iter().any(|stage| stage.is_output()) {
        return Err(error(31441, "$out and $merge are not allowed within a $unionWith's sub-pipeline"));
    }
    if with.is_none() && !pipeline.starts_with_source() {
        return Err(failed(
            "$unionWith stage without explicit collection must have a pipeline with $documents as first stage",
        ));
    }
    Ok(vec![Box::new(Union { with, pipeline })])
}

/// `$graphLookup`.
#[derive(Debug)]
struct Graph {
    from: Namespace,
    to: Path,
    start: Expression,
    connect_from: Path,
    connect_to: String,
    depth_max: Option<i64>,
    depth_field: Option<Path>,
    restriction: Option<ValueBuf>,
}

impl Stage for Graph {
    fn name(&self) -> &'static str {
        "$graphLookup"
    }

    fn run<'a>(&'a self, input: Rows<'a>, run: Run<'a>) -> Result<Rows<'a>> {
        Ok(Box::new(input.map(move |row| {
            let document = row?;
            let found = self.reached(document.view(), run)?;
            let array = ValueBuf::array(found.iter().map(|found| Value::Document(found.view())));
            Ok(set(document.view(), self.to.parts(), array.view()))
        })))
    }
}

impl Graph {
    /// The documents that are reached, each once, level by level.
    fn reached(&self, document: Document<'_>, run: Run<'_>) -> Result<Vec<DocumentBuf>> {
        let mut frontier: VecDeque<(ValueBuf, i64)> = VecDeque::new();
        let mut asked: HashSet<Key> = HashSet::new();
        let mut seen: HashMap<Key, ()> = HashMap::new();
        let mut found = Vec::new();
        let start = self.start.of(document)?;
        match start.value() {
            Value::Array(array) => frontier.extend(array.values().map(|value| (value.into(), 0))),
            value => frontier.push_back((value.into(), 0)),
        }
        while let Some((value, depth)) = frontier.pop_front() {
            if self.depth_max.is_some_and(|max| depth > max) || !asked.insert(Key(value.clone())) {
                continue;
            }
            for row in run.storage.read(&self.from, self.filter(&value, run.context)?)? {
                let next = row?;
                let id = next.view().get("_id").map_or_else(|| Value::Null.into(), ValueBuf::from);
                if seen.insert(Key(id), ()).is_some() {
                    continue;
                }
                run.memory.take(next.as_bytes().len(), "$graphLookup")?;
                match follow(next.view(), &self.connect_from) {
                    Val::Missing => {}
                    further => match further.value() {
                        Value::Array(array) => frontier.extend(array.values().map(|value| (value.into(), depth + 1))),
                        value => frontier.push_back((value.into(), depth + 1)),
                    },
                }
                found.push(match &self.depth_field {
                    Some(field) => set(next.view(), field.parts(), Value::Int64(depth)),
                    None => next,
                });
            }
        }
        Ok(found)
    }

    fn filter(&self, value: &ValueBuf, context: &Context) -> Result<Filter> {
        let mut builder = DocumentBuilder::new();
        builder
            .open_array("$and")
            .push_document()
            .open_document(&self.connect_to)
            .append("$eq", value.view())
            .close()
            .close();
        if let Some(restriction) = &self.restriction {
            builder.push(restriction.view());
        }
        builder.close();
        let filter = builder.finish();
        Filter::parse(filter.view(), context)
    }
}

pub(super) fn read_graph(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(failed(format!(
            "the $graphLookup stage specification must be an object, but found {}",
            value.kind().name()
        )));
    };
    let (mut from, mut start, mut depth_max, mut restriction) = (None, None, None, None);
    let mut paths: HashMap<String, String> = HashMap::new();
    for element in spec {
        let name = element.name.to_str_lossy().into_owned();
        match (&*name, element.value) {
            ("startWith", value) => start = Some(crate::expr::parse(value, parser.context)?),
            ("maxDepth", value) => {
                if value.as_number().is_none() {
                    return Err(error(40100, format!("maxDepth must be numeric, found type: {}", value.kind().name())));
                }
                let whole = value.as_exact_i64();
                let whole = whole.ok_or_else(|| error(40102, "maxDepth could not be represented as a long long"))?;
                if whole < 0 {
                    return Err(error(40101, format!("maxDepth requires a nonnegative argument, found: {whole}")));
                }
                depth_max = Some(whole);
            }
            ("restrictSearchWithMatch", Value::Document(filter)) => {
                Filter::parse(filter, parser.context)?;
                restriction = Some(ValueBuf::from(Value::Document(filter)));
            }
            ("restrictSearchWithMatch", other) => {
                return Err(error(
                    40185,
                    format!("restrictSearchWithMatch must be an object, found {}", other.kind().name()),
                ));
            }
            ("from", value) => from = Some(namespace("$graphLookup", value)?),
            ("as" | "connectFromField" | "connectToField" | "depthField", Value::String(text)) => {
                let text = text.to_str_lossy().into_owned();
                if text.starts_with('$') {
                    return Err(error(16410, format!("{name}: '{text}' must not start with '$'")));
                }
                crate::expr::parser::check_path(&text)?;
                paths.insert(name, text);
            }
            ("as" | "connectFromField" | "connectToField" | "depthField", other) => {
                return Err(error(
                    40103,
                    format!("expected string as argument for {name}, found: {}", other.kind().name()),
                ));
            }
            _ => return Err(error(40104, format!("Unknown argument to $graphLookup: {name}"))),
        }
    }
    let depth_field = paths.remove("depthField").map(Path::new);
    let parts = (from, start, paths.remove("as"), paths.remove("connectFromField"), paths.remove("connectToField"));
    let (Some(from), Some(start), Some(to), Some(connect_from), Some(connect_to)) = parts else {
        return Err(error(
            40105,
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be specified.",
        ));
    };
    Ok(vec![Box::new(Graph {
        from,
        to: Path::new(to),
        start,
        connect_from: Path::new(connect_from),
        connect_to,
        depth_max,
        depth_field,
        restriction,
    })])
}
