//! The keys that an index has of a document.
//!
//! A document without arrays on the index's paths has one key. An array on a path gives a key for each of its elements;
//! paths that share the array go on in the same element. Two arrays beside each other are refused. An element that is
//! itself an array is a value; an empty array is undefined; a missing field is null.

use smallvec::SmallVec;

use super::encode::append;
use super::hashed::hash_value;
use super::key_set::KeySet;
use super::pattern::{Direction, FieldKind, KeyField, KeyPattern};
use super::wildcard;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, Document, DocumentBuf, Value, ValueBuf};

/// Finds the keys of a document. With `sparse`, a key whose fields are all missing is left out. `projection` is the
/// `wildcardProjection` of a wildcard index.
///
/// # Errors
/// `CannotIndexParallelArrays` (171); `CannotBuildIndexKeys` (201) for keys of too many bytes; 16766 for an array in a
/// hashed field; 16746 for a path with a number that means both a position in an array and a field of its elements;
/// 7246301 for an array in a field beside a wildcard.
pub fn extract(
    pattern: &KeyPattern,
    sparse: bool,
    projection: Option<&DocumentBuf>,
    document: Document<'_>,
    keys: &mut KeySet,
) -> Result<()> {
    keys.clear(pattern.fields().len());
    if let Some(at) = pattern.wildcard() {
        let (before, after) = (pattern.fields().get(..at), pattern.fields().get(at + 1..));
        let before = plain_values(before.unwrap_or_default(), document)?;
        let after = plain_values(after.unwrap_or_default(), document)?;
        let beside = wildcard::Beside { before: &before, after: &after, collation: pattern.collation() };
        wildcard::extract((at, &pattern.fields()[at]), beside, projection.map(DocumentBuf::view), document, keys);
    } else {
        let mut states = States::new();
        for field in pattern.fields() {
            states.push(descend(field, document, 0)?);
        }
        expand(pattern, sparse, &states, keys)?;
    }
    keys.finish()
}

/// How far the search for a field's value has come.
#[derive(Clone, Copy)]
enum State<'d> {
    /// The value, or that there is none.
    Done(Option<Value<'d>>),
    /// An array, and the number of components before its elements.
    Array(Array<'d>, usize),
}

type States<'d> = SmallVec<[State<'d>; 8]>;

/// Follows a path from the component `from` in a document up to its value or the first array.
fn descend<'d>(field: &KeyField, document: Document<'d>, from: usize) -> Result<State<'d>> {
    let (components, mut at) = (&field.components, from);
    let mut value = document.get(&components[at].name);
    loop {
        at += 1;
        match value {
            Some(Value::Array(array)) => {
                // The next component may be a position in the array.
                let next = components.get(at);
                match next.and_then(|component| component.index).and_then(|index| array.get(index)) {
                    Some(element) => {
                        refuse_ambiguity(array, &components[at].name)?;
                        value = Some(element);
                    }
                    None => return Ok(State::Array(array, at)),
                }
            }
            _ if at == components.len() => return Ok(State::Done(value)),
            Some(Value::Document(document)) => value = document.get(&components[at].name),
            _ => return Ok(State::Done(None)),
        }
    }
}

/// The values of the fields beside a wildcard, which may not be arrays.
fn plain_values<'d>(fields: &[KeyField], document: Document<'d>) -> Result<SmallVec<[(Value<'d>, Direction); 4]>> {
    let values = fields.iter().map(|field| match descend(field, document, 0)? {
        State::Done(value) => Ok((value.unwrap_or(Value::Null), field.direction())),
        State::Array(..) => {
            let what = format!("a compound wildcard index cannot have arrays in its field '{}'", field.path);
            Err(Error::new(ErrorCode::new(7_246_301), what))
        }
    });
    values.collect()
}

/// Refuses an array with an element that has a field with the name of a position.
fn refuse_ambiguity(array: Array<'_>, name: &str) -> Result<()> {
    let has_field = |value: Value<'_>| value.as_document().is_some_and(|document| document.get(name).is_some());
    if array.values().any(has_field) {
        let what =
            "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array)";
        return Err(Error::new(ErrorCode::new(16746), format!("{what}, field: '{name}'")));
    }
    Ok(())
}

fn expand(pattern: &KeyPattern, sparse: bool, states: &States<'_>, keys: &mut KeySet) -> Result<()> {
    let fields = pattern.fields();
    let Some(array) = array_of(fields, states, keys)? else {
        if !(sparse && states.iter().all(|state| matches!(state, State::Done(None)))) {
            emit(pattern, states, keys);
        }
        return Ok(());
    };
    let mut next = states.clone();
    if array.is_empty() {
        for (field, state) in next.iter_mut().enumerate() {
            if let State::Array(_, at) = *state {
                let end = at == fields[field].components.len();
                *state = State::Done(end.then_some(Value::Undefined));
            }
        }
        return expand(pattern, sparse, &next, keys);
    }
    for element in array {
        for (field, state) in states.iter().enumerate() {
            next[field] = match (*state, element) {
                (State::Array(_, at), _) if at == fields[field].components.len() => State::Done(Some(element)),
                (State::Array(_, at), Value::Document(document)) => descend(&fields[field], document, at)?,
                (State::Array(..), _) => State::Done(None),
                (done, _) => done,
            };
        }
        expand(pattern, sparse, &next, keys)?;
    }
    Ok(())
}

/// The one array that fields have come to, if any has.
fn array_of<'d>(fields: &[KeyField], states: &States<'d>, keys: &mut KeySet) -> Result<Option<Array<'d>>> {
    let mut found: Option<(Array<'d>, &str)> = None;
    for (index, state) in states.iter().enumerate() {
        let State::Array(array, at) = *state else { continue };
        let name = &fields[index].components[at - 1].name;
        if fields[index].kind == FieldKind::Hashed {
            let what = format!("hashed indexes do not currently support array values. Found array at path: {name}");
            return Err(Error::new(ErrorCode::new(16766), what));
        }
        match found {
            Some((first, other)) if !std::ptr::eq(first.as_bytes(), array.as_bytes()) => {
                let what = format!("cannot index parallel arrays [{name}] [{other}]");
                return Err(Error::new(ErrorCode::CANNOT_INDEX_PARALLEL_ARRAYS, what));
            }
            _ => found = Some((array, name)),
        }
        keys.set_multikey(index, at - 1);
    }
    Ok(found.map(|(array, _)| array))
}

fn emit(pattern: &KeyPattern, states: &States<'_>, keys: &mut KeySet) {
    keys.push(|key, types| {
        for (field, state) in pattern.fields().iter().zip(states) {
            let State::Done(value) = state else { continue };
            let value = value.unwrap_or(Value::Null);
            let collated = pattern.collation().and_then(|collation| collation.key_of(&value));
            let value = collated.as_ref().map_or(value, ValueBuf::view);
            let value = if field.kind == FieldKind::Hashed { Value::Int64(hash_value(&value)) } else { value };
            append(key, types, &value, field.direction());
        }
    });
}
