//! `$lookup`: documents of another collection that belong to each document.

use std::sync::Arc;

use super::effect::{Effect, Fields, Passes};
use super::reshape::matching;
use super::spec::{check_once, mismatch, missing, unknown};
use super::stage::{Inner, Namespace, Parser, Pipeline, Rows, Run, Source, Stage, Stages, error};
use super::unwind::set;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, Element, Value, ValueBuf};
use crate::collation::Collation;
use crate::expr::{Context, Expression, Val};
use crate::path::Path;
use crate::path::collect::collect;
use crate::query::predicate::Choices;
use crate::query::{Filter, Node, Predicate};

pub(super) fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::FAILED_TO_PARSE, what)
}

/// `$lookup`.
#[derive(Debug)]
struct Lookup {
    from: Option<Namespace>,
    to: Path,
    /// The local and the foreign field.
    equal: Option<(Path, Path)>,
    variables: Vec<(String, Expression)>,
    /// The pipeline, as it was given: it is compiled anew with the variables of each document.
    pipeline: Option<ValueBuf>,
    /// The pipeline, compiled, when it has no variables.
    compiled: Option<Pipeline>,
    /// The pipeline, compiled with variables that stand for anything: which collections and stages it has.
    shape: Pipeline,
    table: super::stage::Table,
}

impl Stage for Lookup {
    fn name(&self) -> &'static str {
        "$lookup"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let mut lookup = Running { stage: self, run: run.clone(), source: None, same: Same::Unknown };
        Ok(Box::new(input.map(move |row| lookup.join(row?.view()))))
    }

    fn effect(&self) -> Option<Effect> {
        let mut reads = Fields::none();
        self.equal.iter().for_each(|(local, _)| reads.add(local));
        self.variables.iter().for_each(|(_, expression)| reads.add_expression(expression));
        let passes = Passes::all_but([&self.to]);
        Some(Effect { reads, passes, placed: Passes::all(), lets_filters_pass: true })
    }

    fn namespaces(&self) -> Vec<Namespace> {
        self.from.iter().cloned().chain(self.shape.namespaces()).collect()
    }

    fn inner_names(&self) -> Vec<&'static str> {
        self.shape.all_names()
    }

    fn inner(&self) -> Vec<Inner> {
        vec![Inner { over: self.from.clone(), is_over_input: false, pipeline: self.shape.clone() }]
    }
}

/// A `$lookup` that runs.
struct Running {
    stage: Arc<Lookup>,
    run: Run,
    source: Option<Arc<dyn Source>>,
    same: Same,
}

/// What a lookup gives that depends on no document.
enum Same {
    /// It has not run yet.
    Unknown,
    Known(Arc<[DocumentBuf]>),
    /// It is too much to be kept.
    TooLarge,
}

/// The most bytes of a result that is kept for all documents.
const SAME_BYTES_MAX: usize = 16 << 20;

impl Running {
    fn join(&mut self, document: Document<'_>) -> Result<DocumentBuf> {
        let stage = Arc::clone(&self.stage);
        if stage.equal.is_some() || stage.compiled.is_none() {
            return joined(document, &stage.to, &self.found(document)?);
        }
        if let Same::Known(found) = &self.same {
            return joined(document, &stage.to, found);
        }
        let found = self.found(document)?;
        if matches!(self.same, Same::Unknown) {
            let bytes = found.iter().map(|found| found.as_bytes().len()).sum();
            let fits = bytes <= SAME_BYTES_MAX && self.run.memory.try_take(bytes);
            self.same = if fits { Same::Known(found.clone().into()) } else { Same::TooLarge };
        }
        joined(document, &stage.to, &found)
    }

    /// The documents that belong to a document.
    fn found(&mut self, document: Document<'_>) -> Result<Vec<DocumentBuf>> {
        let stage = Arc::clone(&self.stage);
        let mut run = self.run.clone();
        let mut steps = match (&stage.compiled, stage.pipeline.as_ref().map(ValueBuf::view)) {
            (Some(compiled), _) => compiled.stages().to_vec(),
            (None, Some(Value::Array(stages))) => {
                let mut context = Context::clone(&run.context);
                for (name, expression) in &stage.variables {
                    match expression.of(document)?.into_buf() {
                        Some(value) => context.set(name, value),
                        None => context.set_missing(name),
                    }
                }
                let pipeline = Parser::new(&context, stage.table).pipeline(stages)?;
                run.context = Arc::new(context);
                pipeline.stages().to_vec()
            }
            _ => Vec::new(),
        };
        if let Some((local, foreign)) = &stage.equal {
            // Documents that the pipeline makes itself can be compared only then.
            let at = usize::from(steps.first().is_some_and(|step| step.is_source()));
            let equal = equal_to(foreign, local_values(document, local), run.context.collation.as_ref());
            steps.insert(at, matching(Filter::from_node(equal)));
        }
        let pipeline = Pipeline::of(steps);
        let Some(from) = &stage.from else {
            return gathered(pipeline.run(Box::new(std::iter::empty()), &run)?);
        };
        let source = match &self.source {
            Some(source) => source,
            None => self.source.insert(self.run.storage.source(from, &self.run)?),
        };
        gathered(source.read(&pipeline, &run)?)
    }
}

/// The documents for an array, which end with an error as soon as they are too many for it.
fn gathered(rows: Rows) -> Result<Vec<DocumentBuf>> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let row = row?;
        bytes += row.as_bytes().len();
        check_array(bytes)?;
        found.push(row);
    }
    Ok(found)
}

fn check_array(bytes: usize) -> Result<()> {
    if bytes > crate::bson::DOCUMENT_BYTES_MAX {
        let what = format!("Total size of documents in an array of {bytes} bytes exceeds maximum document size");
        return Err(error(4568, what));
    }
    Ok(())
}

/// The document with an array of documents.
///
/// # Errors
/// `BSONObjectTooLarge` (10334) beyond 16 MiB.
pub(super) fn joined(document: Document<'_>, to: &Path, found: &[DocumentBuf]) -> Result<DocumentBuf> {
    check_array(found.iter().map(|found| found.as_bytes().len()).sum())?;
    let array = ValueBuf::array(found.iter().map(|found| Value::Document(found.view())));
    Ok(set(document, to.parts(), array.view()))
}

/// The values of a local field, as they are looked up: those of arrays, null for none.
fn local_values(document: Document<'_>, path: &Path) -> Vec<ValueBuf> {
    if path.parts().iter().any(|part| part.index().is_some()) {
        // A number may be a position, which expressions do not know.
        let mut values: Vec<ValueBuf> = Vec::new();
        collect(document, path.parts(), &mut |value| {
            values.extend((!matches!(value, Value::Undefined)).then(|| value.into()));
        });
        return values;
    }
    match follow(document, path) {
        Val::Missing => vec![Value::Null.into()],
        value => match value.value() {
            Value::Array(array) => array.values().map(ValueBuf::from).collect(),
            other => vec![other.into()],
        },
    }
}

pub(super) fn follow<'a>(document: Document<'a>, path: &Path) -> Val<'a> {
    crate::expr::tree::follow(Value::Document(document), path.parts())
}

/// The filter for documents whose field is one of some values.
pub(super) fn equal_to(path: &Path, values: Vec<ValueBuf>, collation: Option<&Arc<Collation>>) -> Node {
    let test = match &values[..] {
        [] => return Node::Always(false),
        [only] => Predicate::equal(only.view(), collation),
        _ => Predicate::In(Choices::new(values, Vec::new(), collation)),
    };
    Node::Leaf { path: path.clone(), test }
}

/// The collection that `from` names.
pub(super) fn namespace(stage: &str, value: Value<'_>) -> Result<Namespace> {
    match value {
        Value::String(name) if name.is_empty() || name.as_bytes().contains(&0) => {
            let what = format!("Invalid namespace specified: '{}'", name.to_str_lossy());
            Err(Error::new(ErrorCode::INVALID_NAMESPACE, what))
        }
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
    check_once("$lookup", spec)?;
    let mut parts = Parts::default();
    for element in spec {
        parts.take(&element, parser)?;
    }
    let Parts { from, to, local, foreign, variables, pipeline } = parts;
    let to = to.ok_or_else(|| missing("$lookup", "as"))?;
    let equal = match (local, foreign) {
        (Some(local), Some(foreign)) => Some((Path::new(local), Path::new(foreign))),
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
    let mut shape = Pipeline::default();
    let compiled = match pipeline {
        Some(Value::Array(stages)) => {
            // Compiled once with variables that stand for anything, so that what is wrong shows at once.
            let mut context = parser.context.clone();
            for (name, _) in &variables {
                context.set(name, Value::Null.into());
            }
            let pipeline = parser.with(&context).inner(stages)?;
            if from.is_some() && pipeline.stages().first().is_some_and(|stage| stage.name() == "$documents") {
                let what = "$documents makes its own documents, so that $lookup takes no 'from' with it";
                return Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
            }
            if pipeline.stages().iter().any(|stage| stage.is_output()) {
                return Err(error(51047, "$out and $merge are not allowed within a $lookup's sub-pipeline"));
            }
            if from.is_none() && !pipeline.starts_with_source() {
                return Err(failed(
                    "must specify 'pipeline' when 'from' is empty: $lookup requires 'from' or a pipeline that begins with $documents",
                ));
            }
            shape = pipeline.clone();
            variables.is_empty().then_some(pipeline)
        }
        _ => None,
    };
    if from.is_none() && pipeline.is_none() {
        return Err(failed("missing 'from' option to $lookup stage specification"));
    }
    let pipeline = pipeline.map(ValueBuf::from);
    let (to, table) = (Path::new(to), parser.table());
    Ok(vec![Arc::new(Lookup { from, to, equal, variables, pipeline, compiled, shape, table })])
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
                    if name.is_empty() {
                        return Err(failed("empty variable names are not allowed"));
                    }
                    crate::expr::parser::check_variable(&name)?;
                    self.variables.push((name, crate::expr::parse(variable.value, parser.context)?));
                }
            }
            ("let", other) if other.is_nullish() => {}
            ("let", other) => return Err(mismatch("$lookup", "let", &other, "object")),
            ("as" | "localField" | "foreignField", Value::String(text)) => {
                let text = text.to_str_lossy().into_owned();
                if text.is_empty() && &*name != "as" {
                    return Ok(());
                }
                crate::expr::parser::check_path(&text)?;
                match &*name {
                    "as" => self.to = Some(text),
                    "localField" => self.local = Some(text),
                    _ => self.foreign = Some(text),
                }
            }
            ("as", other) if !other.is_nullish() => return Err(mismatch("$lookup", "as", &other, "string")),
            ("as", _) => {}
            ("localField" | "foreignField", other) if !other.is_nullish() => {
                return Err(mismatch("$lookup", name, &other, "string"));
            }
            ("localField" | "foreignField", _) => {}
            _ => return Err(unknown("$lookup", name)),
        }
        Ok(())
    }
}
