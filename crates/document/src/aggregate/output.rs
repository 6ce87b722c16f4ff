//! `$out` and `$merge`: pipelines that write.

use std::sync::Arc;

use super::merge::{Merge, Output, WhenMatched, WhenNotMatched};
use super::spec::{check_once, mismatch, missing, text, unknown};
use super::stage::{Namespace, Parser, Rows, Run, Stage, Stages, error};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, Element, Value, ValueBuf};

/// `$out` or `$merge`.
#[derive(Debug)]
struct Write {
    into: Namespace,
    merge: Option<Merge>,
}

impl Stage for Write {
    fn name(&self) -> &'static str {
        if self.merge.is_some() { "$merge" } else { "$out" }
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        // The documents are written when the first result is asked for; there are no results.
        let (mut input, run) = (Some(input), run.clone());
        Ok(Box::new(std::iter::from_fn(move || {
            let rows = input.take()?;
            let output = self.merge.as_ref().map_or(Output::Replace, Output::Merge);
            run.storage.write(&self.into, &output, rows, &run).err().map(Err)
        })))
    }

    fn namespaces(&self) -> Vec<Namespace> {
        vec![self.into.clone()]
    }

    fn write_actions(&self) -> Vec<&'static str> {
        let Some(merge) = &self.merge else { return vec!["insert", "remove"] };
        let inserts = (merge.not_matched == WhenNotMatched::Insert).then_some("insert");
        let updates = (!matches!(merge.matched, WhenMatched::Fail)).then_some("update");
        inserts.into_iter().chain(updates).collect()
    }

    fn is_output(&self) -> bool {
        true
    }
}

pub(super) fn read_out(_: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let into = match value {
        Value::String(name) => Namespace { database: None, collection: name.to_str_lossy().into_owned() },
        Value::Document(spec) => {
            check_once("$out", spec)?;
            let known = ["db", "coll", "timeseries"];
            if let Some(other) = spec.elements().find(|element| !known.iter().any(|known| element.name == *known)) {
                return Err(unknown("$out", other.name));
            }
            let database = text("$out", spec, "db")?.ok_or_else(|| missing("$out", "db"))?;
            let collection = text("$out", spec, "coll")?.ok_or_else(|| missing("$out", "coll"))?;
            match spec.get("timeseries") {
                None => {}
                Some(value) if value.is_nullish() => {}
                Some(Value::Document(series)) => {
                    check_series(series)?;
                    let what = "time series collections are not supported";
                    return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what));
                }
                Some(other) => return Err(mismatch("$out", "timeseries", &other, "object")),
            }
            Namespace { database: Some(database), collection }
        }
        other => {
            return Err(error(
                16990,
                format!("$out only supports a string or object argument, but found {}", other.kind().name()),
            ));
        }
    };
    check(&into)?;
    if into.database.as_deref().is_some_and(is_reserved) {
        return Err(error(31321, format!("Can't $out to internal database: {}", into.database.unwrap_or_default())));
    }
    if into.collection.starts_with("system.") {
        return Err(error(17385, format!("Can't $out to special collection: {}", into.collection)));
    }
    if into.collection.starts_with('$') {
        let what = format!("cannot write to a collection of the name {}", into.collection);
        return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
    }
    Ok(vec![Arc::new(Write { into, merge: None })])
}

/// The databases that pipelines do not write to.
fn is_reserved(database: &str) -> bool {
    ["admin", "config", "local"].contains(&database)
}

/// Checks the options of a time series.
fn check_series(spec: Document<'_>) -> Result<()> {
    const STAGE: &str = "$out.timeseries";
    check_once(STAGE, spec)?;
    let seconds = |field: &str| -> Result<Option<i64>> {
        let Some(value) = spec.get(field).filter(|value| !value.is_nullish()) else { return Ok(None) };
        let number = value.as_number().ok_or_else(|| mismatch(STAGE, field, &value, "int"))?;
        match number.trunc_to_i64() {
            Some(seconds @ 1..=31_536_000) => Ok(Some(seconds)),
            _ => Err(Error::bad_value(format!("BSON field '{STAGE}.{field}' must be from 1 to 31536000"))),
        }
    };
    let known = ["timeField", "metaField", "granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds"];
    if let Some(other) = spec.elements().find(|element| !known.iter().any(|known| element.name == *known)) {
        return Err(unknown(STAGE, other.name));
    }
    let time = text(STAGE, spec, "timeField")?;
    text(STAGE, spec, "metaField")?;
    let granularity = text(STAGE, spec, "granularity")?;
    if let Some(other) = granularity.as_ref().filter(|name| !["seconds", "minutes", "hours"].contains(&name.as_str())) {
        let what = format!("Enumeration value '{other}' for field '{STAGE}.granularity' is not a valid value.");
        return Err(Error::bad_value(what));
    }
    let (span, rounding) = (seconds("bucketMaxSpanSeconds")?, seconds("bucketRoundingSeconds")?);
    time.ok_or_else(|| missing(STAGE, "timeField"))?;
    if span != rounding || granularity.is_some() && span.is_some() {
        let what = "bucketMaxSpanSeconds and bucketRoundingSeconds go together, are equal, and exclude granularity";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    Ok(())
}

fn check(namespace: &Namespace) -> Result<()> {
    let invalid = |what: &str| Error::new(ErrorCode::INVALID_NAMESPACE, format!("Invalid namespace: {what}"));
    let name = &namespace.collection;
    if name.is_empty() || name.contains('\0') || name.starts_with('.') {
        return Err(invalid(name));
    }
    Ok(())
}

pub(super) fn read_merge(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let spec = match value {
        Value::String(name) => {
            let into = Namespace { database: None, collection: name.to_str_lossy().into_owned() };
            check(&into)?;
            let merge = Merge {
                on: vec!["_id".to_owned()],
                matched: WhenMatched::Merge,
                not_matched: WhenNotMatched::Insert,
                variables: None,
            };
            return Ok(vec![Arc::new(Write { into, merge: Some(merge) })]);
        }
        Value::Document(spec) => spec,
        other => {
            let what = format!("$merge requires a string or object argument, but found {}", other.kind().name());
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
        }
    };
    let mut parts = Parts {
        into: None,
        on: vec!["_id".to_owned()],
        matched: WhenMatched::Merge,
        not_matched: WhenNotMatched::Insert,
        variables: None,
    };
    check_once("$merge", spec)?;
    for element in spec {
        parts.take(&element)?;
    }
    let Parts { into, on, matched, not_matched, variables } = parts;
    let into = into.ok_or_else(|| {
        Error::new(ErrorCode::IDL_FAILED_TO_PARSE, "BSON field '$merge.into' is missing but a required field")
    })?;
    check(&into)?;
    if into.database.as_deref().is_some_and(is_reserved) {
        let what = format!("$merge cannot write to the internal database {}", into.database.unwrap_or_default());
        return Err(error(31320, what));
    }
    if into.collection.starts_with("system.") {
        return Err(error(31319, format!("Cannot $merge to special collection: {}", into.collection)));
    }
    on.iter().try_for_each(|name| crate::expr::parser::check_path(name))?;
    if let WhenMatched::Pipeline(stages) = &matched {
        check_pipeline(stages, variables.as_ref(), parser)?;
    }
    let merge = Merge { on, matched, not_matched, variables };
    check_modes(&merge)?;
    Ok(vec![Arc::new(Write { into, merge: Some(merge) })])
}

/// The parts of a `$merge`.
struct Parts {
    into: Option<Namespace>,
    on: Vec<String>,
    matched: WhenMatched,
    not_matched: WhenNotMatched,
    variables: Option<ValueBuf>,
}

impl Parts {
    fn take(&mut self, element: &Element<'_>) -> Result<()> {
        match (element.name.as_bytes(), element.value) {
            // A null is as good as no field.
            (b"let" | b"whenNotMatched", value) if value.is_nullish() => {}
            (b"into", Value::String(name)) => {
                self.into = Some(Namespace { database: None, collection: name.to_str_lossy().into_owned() })
            }
            (b"into", Value::Document(spec)) => {
                check_once("$merge.into", spec)?;
                let known = ["db", "coll"];
                if let Some(other) = spec.elements().find(|element| !known.iter().any(|known| element.name == *known)) {
                    return Err(unknown("$merge.into", other.name));
                }
                let database = text("$merge.into", spec, "db")?.filter(|name| !name.is_empty());
                let collection = text("$merge.into", spec, "coll")?;
                let collection =
                    collection.ok_or_else(|| error(5_786_801, "$merge 'into' needs the name of a collection"))?;
                self.into = Some(Namespace { database, collection });
            }
            (b"into", other) => {
                return Err(error(
                    51178,
                    format!(
                        "$merge 'into' field must be either a string or an object, but found {}",
                        other.kind().name()
                    ),
                ));
            }
            (b"on", value) => self.on = fields_of(value)?,
            (b"let", Value::Document(_)) => self.variables = Some(ValueBuf::from(element.value)),
            // Checked when the variables are known.
            (b"whenMatched", value) => self.matched = when_matched(value)?,
            (b"whenNotMatched", Value::String(name)) => {
                self.not_matched = match name.as_bytes() {
                    b"insert" => WhenNotMatched::Insert,
                    b"discard" => WhenNotMatched::Discard,
                    b"fail" => WhenNotMatched::Fail,
                    _ => {
                        return Err(Error::bad_value(format!(
                            "Enumeration value '{name}' for field '$merge.whenNotMatched' is not a valid value."
                        )));
                    }
                };
            }
            (b"let" | b"whenNotMatched", other) => {
                return Err(Error::new(
                    ErrorCode::TYPE_MISMATCH,
                    format!("BSON field '$merge.{}' is the wrong type '{}'", element.name, other.kind().name()),
                ));
            }
            _ => {
                return Err(Error::new(
                    ErrorCode::IDL_UNKNOWN_FIELD,
                    format!("BSON field '$merge.{}' is an unknown field.", element.name),
                ));
            }
        }
        Ok(())
    }
}

/// Refuses modes that make no sense together.
fn check_modes(merge: &Merge) -> Result<()> {
    if merge.variables.is_some() && !matches!(merge.matched, WhenMatched::Pipeline(_)) {
        return Err(error(51199, "Cannot use 'let' variables with 'whenMatched' mode that is no pipeline"));
    }
    let combined = !matches!(merge.matched, WhenMatched::Fail | WhenMatched::KeepExisting)
        || merge.not_matched == WhenNotMatched::Insert;
    if !combined {
        return Err(error(51181, "Combination of 'whenMatched' and 'whenNotMatched' modes is not supported"));
    }
    Ok(())
}

fn fields_of(value: Value<'_>) -> Result<Vec<String>> {
    match value {
        Value::String(name) => Ok(vec![name.to_str_lossy().into_owned()]),
        Value::Array(array) => {
            let mut names: Vec<String> = Vec::new();
            for value in array {
                let Value::String(name) = value else {
                    return Err(error(
                        51134,
                        format!("$merge 'on' array elements must be strings, but found {}", value.kind().name()),
                    ));
                };
                let name = name.to_str_lossy().into_owned();
                if names.contains(&name) {
                    return Err(error(31465, format!("Found a duplicate field '{name}'")));
                }
                names.push(name);
            }
            if names.is_empty() {
                return Err(error(51187, "If explicitly specifying $merge 'on', must include at least one field"));
            }
            Ok(names)
        }
        other => Err(error(
            51186,
            format!(
                "$merge 'on' field must be either a string or an array of strings, but found {}",
                other.kind().name()
            ),
        )),
    }
}

/// Checks the pipeline of `whenMatched`, whose variables stand for anything here.
fn check_pipeline(stages: &ValueBuf, variables: Option<&ValueBuf>, parser: &Parser<'_>) -> Result<()> {
    let mut context = parser.context.clone();
    context.set("new", Value::Null.into());
    if let Some(Value::Document(spec)) = variables.map(ValueBuf::view) {
        for element in spec {
            let name = element.name.to_str_lossy();
            crate::expr::parser::check_variable(&name)?;
            if name == "new" && !matches!(element.value, Value::String(root) if root == "$$ROOT") {
                return Err(error(51273, "'new' may be used only as an alias for '$$ROOT'"));
            }
            crate::expr::parse(element.value, parser.context)?;
            context.set(&name, Value::Null.into());
        }
    }
    let Value::Array(stages) = stages.view() else { return Ok(()) };
    // Which stages there may be is looked at when a document is updated.
    parser.with(&context).pipeline(stages).map(drop)
}

fn when_matched(value: Value<'_>) -> Result<WhenMatched> {
    match value {
        Value::String(name) => Ok(match name.as_bytes() {
            b"replace" => WhenMatched::Replace,
            b"keepExisting" => WhenMatched::KeepExisting,
            b"merge" => WhenMatched::Merge,
            b"fail" => WhenMatched::Fail,
            _ => {
                return Err(Error::bad_value(format!(
                    "Enumeration value '{name}' for field 'whenMatched' is not a valid value."
                )));
            }
        }),
        Value::Array(_) => Ok(WhenMatched::Pipeline(ValueBuf::from(value))),
        other => Err(error(
            51191,
            format!(
                "$merge 'whenMatched' field must be either a string or an array, but found {}",
                other.kind().name()
            ),
        )),
    }
}
