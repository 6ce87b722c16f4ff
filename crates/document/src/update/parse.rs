//! The strict reading of update operators.

use super::act::{Act, Bits};
use super::apply::Operators;
use super::array::{Order, Pull, Push};
use super::path::{Step, UpdatePath};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, Document, Element, Timestamp, Value, ValueBuf};
use crate::expr::Context;
use crate::path::{DisjointPaths, Sort};
use crate::query::parse::{Place, document as filter_of, is_operators_of_element, value_condition};
use crate::query::{Filter, Node, Predicate};

fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::FAILED_TO_PARSE, what)
}

/// Reads a document of operators.
pub(super) fn operators(
    update: Document<'_>,
    array_filters: Option<Array<'_>>,
    context: &Context,
) -> Result<Operators> {
    let filters = filters_of(array_filters, context)?;
    let mut acts: Vec<(UpdatePath, Act)> = Vec::new();
    for operator in update {
        let name = operator.name.to_str_lossy();
        let known = [
            "$set",
            "$setOnInsert",
            "$inc",
            "$mul",
            "$min",
            "$max",
            "$unset",
            "$rename",
            "$currentDate",
            "$push",
            "$addToSet",
            "$pull",
            "$pullAll",
            "$pop",
            "$bit",
        ];
        if !known.contains(&&*name) {
            return Err(failed(format!(
                "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array"
            )));
        }
        let Value::Document(fields) = operator.value else {
            let what = format!(
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} not {{{name}: {}}}",
                operator.value.kind().name(),
                operator.value.to_json()
            );
            return Err(failed(what));
        };
        for field in fields {
            let path = UpdatePath::parse(&field.name.to_str_lossy())?;
            if &*name == "$rename" {
                acts.push(rename(path, field.value)?);
            } else {
                let act = act(&name, &field, context)?;
                acts.push((path, act));
            }
        }
    }
    check_conflicts(&acts)?;
    check_filters(&acts, &filters)?;
    acts.sort_by(|(a, _), (b, _)| a.order(b));
    Ok(Operators { acts, filters, collation: context.collation.clone() })
}

fn act(name: &str, field: &Element<'_>, context: &Context) -> Result<Act> {
    let value = field.value;
    Ok(match name {
        "$set" => Act::Set(value.into()),
        "$setOnInsert" => Act::SetOnInsert(value.into()),
        "$min" => Act::Min(value.into()),
        "$max" => Act::Max(value.into()),
        "$unset" => Act::Unset,
        "$inc" | "$mul" => {
            if value.as_number().is_none() {
                let verb = if name == "$inc" { "increment" } else { "multiply" };
                let what = format!("Cannot {verb} with non-numeric argument: {{{}: {}}}", field.name, value.to_json());
                return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
            }
            if name == "$inc" { Act::Increment(value.into()) } else { Act::Multiply(value.into()) }
        }
        "$currentDate" => Act::Set(current_date(value, context)?),
        "$push" => Act::Push(push(value)?),
        "$addToSet" => Act::AddToSet(added(value)?),
        "$pull" => Act::Pull(pull(value, context)?),
        "$pullAll" => {
            let Value::Array(array) = value else {
                return Err(Error::bad_value(format!(
                    "$pullAll requires an array argument but was given a {}",
                    value.kind().name()
                )));
            };
            Act::Pull(Pull::Values(array.values().map(ValueBuf::from).collect()))
        }
        "$pop" => {
            if value.as_number().is_none() {
                return Err(failed(format!("Expected a number in: {}: {}", field.name, value.to_json())));
            }
            match value.as_exact_i64() {
                Some(1) => Act::Pop { first: false },
                Some(-1) => Act::Pop { first: true },
                _ => return Err(failed(format!("$pop expects 1 or -1, found: {}", value.to_json()))),
            }
        }
        _ => Act::Bits(bits(value)?),
    })
}

fn rename(from: UpdatePath, value: Value<'_>) -> Result<(UpdatePath, Act)> {
    let Value::String(to) = value else {
        return Err(Error::bad_value(format!(
            "The 'to' field for $rename must be a string: {}: {}",
            from.text,
            value.to_json()
        )));
    };
    let to = to.to_str_lossy();
    if to.contains('\0') {
        return Err(Error::bad_value("The 'to' field for $rename cannot contain an embedded null byte"));
    }
    let to = UpdatePath::parse(&to)?;
    for (path, which) in [(&from, "source"), (&to, "destination")] {
        if path.is_positional() {
            return Err(Error::bad_value(format!("The {which} field for $rename may not be dynamic: {}", path.text)));
        }
    }
    if from.overlaps(&to) {
        let what = format!(
            "The source and target field for $rename must {}: {}: \"{}\"",
            if from == to { "differ" } else { "not be on the same path" },
            from.text,
            to.text
        );
        return Err(Error::bad_value(what));
    }
    Ok((to, Act::Rename(from)))
}

fn current_date(value: Value<'_>, context: &Context) -> Result<ValueBuf> {
    let date = || Value::DateTime(context.now).into();
    match value {
        Value::Bool(_) => Ok(date()),
        Value::Document(spec) => {
            if let Some(unknown) = spec.elements().find(|element| element.name != "$type") {
                return Err(Error::bad_value(format!("Unrecognized $currentDate option: {}", unknown.name)));
            }
            match spec.get("$type") {
                Some(Value::String(name)) if name == "date" => Ok(date()),
                Some(Value::String(name)) if name == "timestamp" => {
                    let time = u32::try_from(context.now.div_euclid(1000)).unwrap_or(u32::MAX);
                    Ok(Value::Timestamp(context.cluster_time.unwrap_or(Timestamp { time, increment: 1 })).into())
                }
                _ => Err(Error::bad_value(
                    "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}",
                )),
            }
        }
        other => Err(Error::bad_value(format!(
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({{$type: 'timestamp/date'}}).",
            other.kind().name()
        ))),
    }
}

/// The documents of a value that has `$each`.
fn with_each<'a>(value: &Value<'a>) -> Option<Document<'a>> {
    value.as_document().filter(|document| document.first().is_some_and(|first| first.name == "$each"))
}

fn each_of(name: &str, value: Value<'_>) -> Result<Vec<ValueBuf>> {
    match value {
        Value::Array(array) => Ok(array.values().map(ValueBuf::from).collect()),
        other => Err(if name == "$push" {
            Error::bad_value(format!(
                "The argument to $each in $push must be an array but it was of type: {}",
                other.kind().name()
            ))
        } else {
            Error::new(
                ErrorCode::TYPE_MISMATCH,
                format!(
                    "The argument to $each in $addToSet must be an array but it was of type {}",
                    other.kind().name()
                ),
            )
        }),
    }
}

fn push(value: Value<'_>) -> Result<Push> {
    let single = |value: Value<'_>| Push { values: vec![value.into()], position: None, slice: None, sort: None };
    let Value::Document(document) = value else { return Ok(single(value)) };
    let Some(each) = document.get("$each") else {
        return Ok(single(value));
    };
    let mut push = Push { values: each_of("$push", each)?, position: None, slice: None, sort: None };
    let whole = |name: &str, value: &Value<'_>| {
        let exact = value.as_exact_i64();
        exact.ok_or_else(|| {
            Error::bad_value(format!(
                "The value for {name} must be an integer value but was given type: {}",
                value.kind().name()
            ))
        })
    };
    for element in document {
        match element.name.as_bytes() {
            b"$each" => {}
            b"$position" => push.position = Some(whole("$position", &element.value)?),
            b"$slice" => push.slice = Some(whole("$slice", &element.value)?),
            b"$sort" => push.sort = Some(order(element.value)?),
            _ => return Err(Error::bad_value(format!("Unrecognized clause in $push: {}", element.name))),
        }
    }
    Ok(push)
}

fn order(value: Value<'_>) -> Result<Order> {
    let wrong = || {
        Error::bad_value(
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
        )
    };
    match value {
        Value::Document(pattern) => {
            if pattern.is_empty() {
                return Err(Error::bad_value("The sort pattern is empty when it should be a set of fields."));
            }
            let exact = pattern.elements().all(|element| matches!(element.value.as_exact_i64(), Some(1 | -1)));
            if !exact {
                return Err(Error::bad_value("The sort element value must be either 1 or -1"));
            }
            Sort::parse(pattern, None).map(Order::Fields).map_err(|wrong| Error::bad_value(wrong.message()))
        }
        value => match value.as_exact_i64() {
            Some(1) => Ok(Order::Values(false)),
            Some(-1) => Ok(Order::Values(true)),
            _ => Err(wrong()),
        },
    }
}

fn added(value: Value<'_>) -> Result<Vec<ValueBuf>> {
    let Some(document) = with_each(&value) else { return Ok(vec![value.into()]) };
    if let Some(unknown) = document.elements().find(|element| element.name != "$each") {
        return Err(Error::bad_value(format!("Found unexpected fields after $each in $addToSet: {}", unknown.name)));
    }
    each_of("$addToSet", document.get("$each").unwrap_or(Value::Null))
}

fn pull(value: Value<'_>, context: &Context) -> Result<Pull> {
    Ok(match value {
        Value::Document(document) if is_operators_of_element(document) && !is_logical(document) => {
            Pull::Matching(Box::new(value_condition(super::array::WRAPPED, document, context)?))
        }
        Value::Document(document) => Pull::Documents(Box::new(filter_of(document, context, Place::Element)?)),
        Value::Regex(regex) => {
            let (source, options) = regex.parts();
            let pattern = crate::pattern::Pattern::new(&source.to_str_lossy(), &options.to_str_lossy())?;
            let leaf =
                Node::Leaf { path: crate::path::Path::new(super::array::WRAPPED), test: Predicate::Regex(pattern) };
            Pull::Matching(Box::new(leaf))
        }
        value => Pull::Values(vec![value.into()]),
    })
}

/// Whether a document of conditions begins with an operator over conditions on fields.
fn is_logical(document: Document<'_>) -> bool {
    document.first().is_some_and(|first| ["$and", "$or", "$nor"].iter().any(|name| first.name == *name))
}

fn bits(value: Value<'_>) -> Result<Vec<(Bits, ValueBuf)>> {
    let Value::Document(spec) = value else {
        return Err(Error::bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: {{$bit: {{field: {{and/or/xor: #}}}}",
            value.kind().name()
        )));
    };
    let mut operations = Vec::new();
    for element in spec {
        let operation = match element.name.as_bytes() {
            b"and" => Bits::And,
            b"or" => Bits::Or,
            b"xor" => Bits::Xor,
            _ => {
                return Err(Error::bad_value(format!(
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{}' which is an unknown operator",
                    element.name
                )));
            }
        };
        if !matches!(element.value, Value::Int32(_) | Value::Int64(_)) {
            return Err(Error::bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here",
                element.value.kind().name()
            )));
        }
        operations.push((operation, element.value.into()));
    }
    if operations.is_empty() {
        return Err(Error::bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
        ));
    }
    Ok(operations)
}

/// Refuses two operators on the same path, or on a path and one within.
fn check_conflicts(acts: &[(UpdatePath, Act)]) -> Result<()> {
    let mut paths = DisjointPaths::default();
    for (path, act) in acts {
        let source = if let Act::Rename(from) = act { Some(from) } else { None };
        for path in std::iter::once(path).chain(source) {
            if let Err(shorter) = paths.add(&path.text) {
                let what = format!("Updating the path '{}' would create a conflict at '{shorter}'", path.text);
                return Err(Error::new(ErrorCode::CONFLICTING_UPDATE_OPERATORS, what));
            }
        }
    }
    Ok(())
}

/// Reads the array filters.
fn filters_of(filters: Option<Array<'_>>, context: &Context) -> Result<Vec<(String, Filter)>> {
    let mut read: Vec<(String, Filter)> = Vec::new();
    for filter in filters.into_iter().flatten() {
        let Value::Document(filter) = filter else {
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, "each array filter must be an object"));
        };
        let mut names = Vec::new();
        identifiers(filter, &mut names);
        let compiled = Filter::parse(filter, context)
            .map_err(|wrong| wrong.prefixed("Error parsing array filter :: caused by :: "))?;
        let Some(first) = names.first() else {
            return Err(failed("Cannot use an expression without a top-level field name in arrayFilters"));
        };
        if let Some(other) = names.iter().find(|name| *name != first) {
            return Err(failed(format!(
                "Error parsing array filter :: caused by :: Expected a single top-level field name, found '{first}' and '{other}'"
            )));
        }
        let right =
            first.starts_with(|c: char| c.is_ascii_lowercase()) && first.chars().all(|c| c.is_ascii_alphanumeric());
        if !right {
            return Err(Error::bad_value(format!(
                "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '{first}'"
            )));
        }
        if read.iter().any(|(name, _)| name == first) {
            return Err(failed(format!("Found multiple array filters with the same top-level field name {first}")));
        }
        read.push((first.clone(), compiled));
    }
    Ok(read)
}

/// The first components of all paths in a filter.
fn identifiers(filter: Document<'_>, names: &mut Vec<String>) {
    for element in filter {
        let name = element.name.to_str_lossy();
        if name.starts_with('$') {
            for part in element.value.as_array().into_iter().flatten() {
                if let Value::Document(part) = part {
                    identifiers(part, names);
                }
            }
        } else {
            names.push(name.split('.').next().unwrap_or_default().to_owned());
        }
    }
}

/// Checks that every identifier has a filter and every filter is used.
fn check_filters(acts: &[(UpdatePath, Act)], filters: &[(String, Filter)]) -> Result<()> {
    let mut used = Vec::new();
    for (path, _) in acts {
        for step in &path.steps {
            let Step::Filtered(identifier) = step else { continue };
            if !filters.iter().any(|(known, _)| known == identifier) {
                return Err(Error::bad_value(format!(
                    "No array filter found for identifier '{identifier}' in path '{}'",
                    path.text
                )));
            }
            used.push(identifier);
        }
    }
    match filters.iter().find(|(known, _)| !used.contains(&known)) {
        Some((unused, _)) => {
            Err(failed(format!("The array filter for identifier '{unused}' was not used in the update")))
        }
        None => Ok(()),
    }
}
