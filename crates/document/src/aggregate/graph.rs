//! `$graphLookup`: the documents that are reached by following fields from document to document.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::accumulator::Key;
use super::effect::{Effect, Fields, Passes};
use super::lookup::{equal_to, follow, joined, namespace};
use super::reshape::matching;
use super::stage::{Inner, Namespace, Parser, Pipeline, Rows, Run, Source, Stage, Stages, error};
use super::unwind::set;
use crate::base::{Error, Result};
use crate::bson::{Document, DocumentBuf, Value, ValueBuf};
use crate::collation::Collation;
use crate::expr::{Expression, Val};
use crate::path::Path;
use crate::query::{Filter, Node};

/// `$graphLookup`.
#[derive(Debug)]
struct Graph {
    from: Namespace,
    to: Path,
    start: Expression,
    connect_from: Path,
    connect_to: Path,
    depth_max: Option<i64>,
    depth_field: Option<Path>,
    restriction: Option<Node>,
}

impl Stage for Graph {
    fn name(&self) -> &'static str {
        "$graphLookup"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let (run, mut source) = (run.clone(), None);
        Ok(Box::new(input.map(move |row| {
            let document = row?;
            let source = match &source {
                Some(source) => source,
                None => source.insert(run.storage.source(&self.from, &run)?),
            };
            let found = self.reached(document.view(), &**source, &run)?;
            joined(document.view(), &self.to, &found)
        })))
    }

    fn effect(&self) -> Option<Effect> {
        let mut reads = Fields::none();
        reads.add_expression(&self.start);
        let passes = Passes::all_but([&self.to]);
        Some(Effect { reads, passes, placed: Passes::all(), lets_filters_pass: true })
    }

    fn namespaces(&self) -> Vec<Namespace> {
        vec![self.from.clone()]
    }

    fn inner(&self) -> Vec<Inner> {
        vec![Inner { over: Some(self.from.clone()), is_over_input: false, pipeline: Pipeline::default() }]
    }
}

impl Graph {
    /// The documents that are reached, each once, level by level: a level is one query.
    fn reached(&self, document: Document<'_>, source: &dyn Source, run: &Run) -> Result<Vec<DocumentBuf>> {
        let collation = run.context.collation.as_ref();
        let key = |value: &ValueBuf| Key::of(value, collation.map(|collation| &**collation));
        let (mut asked, mut seen): (HashSet<Key>, HashSet<Key>) = (HashSet::new(), HashSet::new());
        let (mut found, mut kept) = (Vec::new(), 0);
        let mut frontier = values_of(&self.start.of(document)?);
        for depth in 0_i64.. {
            frontier.retain(|value| asked.insert(key(value)));
            if frontier.is_empty() || self.depth_max.is_some_and(|max| depth > max) {
                break;
            }
            let query = Pipeline::of(vec![matching(self.filter(std::mem::take(&mut frontier), collation))]);
            for row in source.read(&query, run)? {
                let next = row?;
                let id = next.view().get("_id").map(ValueBuf::from).ok_or_else(|| self.no_id())?;
                if !seen.insert(key(&id)) {
                    continue;
                }
                kept += next.as_bytes().len();
                run.memory.take(next.as_bytes().len(), "$graphLookup")?;
                match follow(next.view(), &self.connect_from) {
                    Val::Missing => {}
                    further => frontier.extend(values_of(&further)),
                }
                found.push(match &self.depth_field {
                    Some(field) => set(next.view(), field.parts(), Value::Int64(depth)),
                    None => next,
                });
            }
        }
        run.memory.give(kept);
        Ok(found)
    }

    /// Code 40271: a document without `_id`, as a view may have it, cannot be told from others.
    fn no_id(&self) -> Error {
        let from = &self.from.collection;
        error(40271, format!("Documents in '{from}' must contain an _id for de-duplication in $graphLookup"))
    }

    fn filter(&self, values: Vec<ValueBuf>, collation: Option<&Arc<Collation>>) -> Filter {
        let connected = equal_to(&self.connect_to, values, collation);
        Filter::from_node(match &self.restriction {
            Some(restriction) => Node::And(vec![connected, restriction.clone()]),
            None => connected,
        })
    }
}

/// The values of an array, or the value.
fn values_of(value: &Val<'_>) -> Vec<ValueBuf> {
    match value.value() {
        Value::Array(array) => array.values().map(ValueBuf::from).collect(),
        value => vec![value.into()],
    }
}

pub(super) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(super::lookup::failed(format!(
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
                restriction = Some(Filter::parse(filter, parser.context)?.root().clone());
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
    Ok(vec![Arc::new(Graph {
        from,
        to: Path::new(to),
        start,
        connect_from: Path::new(connect_from),
        connect_to: Path::new(connect_to),
        depth_max,
        depth_field,
        restriction,
    })])
}
