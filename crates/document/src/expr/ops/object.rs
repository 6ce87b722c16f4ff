//! Documents: their fields by name, merged, as arrays, and their sizes.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuilder, FieldList, Value};
use crate::expr::allowance::{self, ArrayMaker};
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Expression, function};
use crate::expr::value::{Val, as_document, count, error};
use crate::keys::hashed::hash_value;

function!(object_to_array(call, env) {
    let value = call.argument(0, env)?;
    if value.is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(document) = as_document(&value) else {
        return Err(error(40390, format!("$objectToArray requires a document input, found: {}", value.type_name())));
    };
    let mut pairs = ArrayMaker::new();
    for element in document {
        let mut builder = DocumentBuilder::new();
        builder.append("k", element.name).append("v", element.value);
        pairs.push(Value::Document(builder.finish().view()))?;
    }
    Ok(Val::Own(pairs.finish()))
});

function!(merge_objects(call, env) {
    let mut values = call.all(env)?;
    if let [single] = &values[..] && call.arguments.len() == 1 {
        // A single array is the list of documents.
        if let Some(array) = crate::expr::value::as_array(single) {
            let values_of = allowance::collected(array.values())?;
            allowance::charge(array.as_bytes().len() + values_of.len() * size_of::<Val<'_>>())?;
            values = values_of.into_iter().map(|value| Val::Own(value.into())).collect();
        }
    }
    let mut fields: FieldList<&[u8], Value<'_>> = FieldList::default();
    for value in &values {
        match value.value() {
            Value::Document(document) => {
                allowance::charge(2 * document.as_bytes().len())?;
                document.elements().for_each(|element| fields.set(element.name.as_bytes(), element.value));
            }
            value if value.is_nullish() => {}
            other => return Err(error(40400, format!("$mergeObjects requires object inputs, but input {} is of type {}", other.to_json(), other.kind().name()))),
        }
    }
    let mut builder = DocumentBuilder::new();
    for (name, value) in fields.into_fields() {
        builder.append(name, value);
    }
    Ok(Val::document(builder.finish()))
});

function!(get_field(call, env) {
    let (field, input) = (call.argument(0, env)?, call.argument(1, env)?);
    let Value::String(name) = field.value() else {
        return Err(error(3_041_704, format!("$getField requires 'field' to evaluate to type String, but got {}", field.type_name())));
    };
    Ok(match input.view() {
        None => Val::Missing,
        Some(value) if value.is_nullish() => Val::NULL,
        Some(Value::Document(document)) => match document.get(name) {
            Some(value) => Val::Own(value.into()),
            None => Val::Missing,
        },
        Some(_) => Val::Missing,
    })
});

/// `$getField`: a name, or `{field: name, input: document}`.
pub(in crate::expr) fn parse_get_field(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let (mut field, mut input) = (None, None);
    let named = match value {
        Value::Document(document) => !document.first().is_some_and(|first| first.name.as_bytes().starts_with(b"$")),
        _ => false,
    };
    if let (Value::Document(document), true) = (value, named) {
        for element in document {
            match element.name.as_bytes() {
                b"field" => field = Some(element.value),
                b"input" => input = Some(element.value),
                _ => return Err(error(3_041_701, format!("$getField found an unknown argument: {}", element.name))),
            }
        }
        if input.is_none() {
            return Err(error(3_041_703, "$getField requires 'input' to be specified"));
        }
    } else {
        field = Some(value);
    }
    let Some(field) = field else { return Err(error(3_041_702, "$getField requires 'field' to be specified")) };
    let field = parser.parse(field)?;
    if let Some(constant) = field.as_constant()
        && !matches!(constant, Value::String(_))
    {
        return Err(error(
            3_041_704,
            format!(
                "$getField requires 'field' to evaluate to a constant of type String, but got {}",
                constant.kind().name()
            ),
        ));
    }
    let input = match input {
        Some(input) => parser.parse(input)?,
        None => parser.parse(Value::from("$$CURRENT"))?,
    };
    Ok(Expression::Call(Call { name, function: get_field, arguments: vec![field, input] }))
}

function!(set_field(call, env) {
    let (name, input, new) = (call.argument(0, env)?, call.argument(1, env)?, call.argument(2, env)?);
    if input.is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(document) = as_document(&input) else {
        return Err(error(4_161_105, format!("$setField requires 'input' to evaluate to type Object, but got {}", input.type_name())));
    };
    let Value::String(name) = name.value() else { return Ok(Val::NULL) };
    allowance::charge(document.as_bytes().len() + new.view().map_or(0, |value| allowance::payload_bytes(&value)))?;
    if name.as_bytes().contains(&0) {
        return Err(error(9_534_700, format!("{} requires a 'field' without a null byte", call.name)));
    }
    let mut builder = DocumentBuilder::new();
    let mut there = false;
    for element in document {
        if element.name == name {
            there = true;
            if let Some(value) = new.view() {
                builder.append(name, value);
            }
        } else {
            builder.append_element(&element);
        }
    }
    if let (false, Some(value)) = (there, new.view()) {
        builder.append(name, value);
    }
    Ok(Val::document(builder.finish()))
});

/// `$setField` and `$unsetField`: the name must be constant.
pub(in crate::expr) fn parse_set_field(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(4_161_100, format!("{name} only supports an object as its argument")));
    };
    let set = name == "$setField";
    for element in document {
        let known = element.name == "field" || element.name == "input" || set && element.name == "value";
        if !known {
            return Err(error(4_161_101, format!("{name} found an unknown argument: {}", element.name)));
        }
    }
    let field =
        document.get("field").ok_or_else(|| error(4_161_102, format!("{name} requires 'field' to be specified")))?;
    let new = document.get("value");
    if set && new.is_none() {
        return Err(error(4_161_103, "$setField requires 'value' to be specified"));
    }
    let input =
        document.get("input").ok_or_else(|| error(4_161_109, format!("{name} requires 'input' to be specified")))?;
    if let Value::String(text) = field
        && text.as_bytes().starts_with(b"$")
    {
        return Err(error(
            4_161_108,
            format!(
                "A field path reference which is not allowed in this context. Did you mean {{$literal: '{text}'}}?"
            ),
        ));
    }
    let field = parser.parse(field)?;
    if !field.is_constant() {
        return Err(error(
            4_161_106,
            format!("{name} requires 'field' to evaluate to a constant, but got a non-constant argument"),
        ));
    }
    let constant = field.of(Document::empty())?;
    if !matches!(constant.value(), Value::String(_)) {
        return Err(error(
            4_161_107,
            format!("{name} requires 'field' to evaluate to type String, but got {}", constant.type_name()),
        ));
    }
    let field = Expression::constant(constant.value());
    let new = match new {
        Some(new) if set => parser.parse(new)?,
        _ => Expression::Missing,
    };
    let arguments = vec![field, parser.parse(input)?, new];
    Ok(Expression::Call(Call { name, function: set_field, arguments }))
}

function!(bson_size(call, env) {
    let value = call.argument(0, env)?;
    match value.value() {
        Value::Document(document) => Ok(count(document.as_bytes().len())),
        value if value.is_nullish() => Ok(Val::NULL),
        other => Err(error(31393, format!("$bsonSize requires a document input, found: {}", other.kind().name()))),
    }
});

function!(binary_size(call, env) {
    let value = call.argument(0, env)?;
    match value.value() {
        Value::String(text) => Ok(count(text.len())),
        Value::Binary(2, bytes) => Ok(count(bytes.len() + 4)),
        Value::Binary(_, bytes) => Ok(count(bytes.len())),
        value if value.is_nullish() => Ok(Val::NULL),
        other => Err(error(51276, format!("$binarySize requires a string or BinData argument, found: {}", other.kind().name()))),
    }
});

// What a hashed index keeps of the value; of a missing one what it keeps of null.
function!(to_hashed_index_key(call, env) {
    let value = call.argument(0, env)?;
    Ok(Val::View(Value::Int64(hash_value(&value.value()))))
});

/// `$meta`: no query here has metadata. Without an index there is no `indexKey`; what a query could have and does not
/// is refused.
pub(in crate::expr) fn parse_meta(_: &mut Parser<'_>, _: &'static str, value: Value<'_>) -> Result<Expression> {
    let Value::String(name) = value else { return Err(error(17307, "$meta only supports string arguments")) };
    let known = [
        "textScore",
        "randVal",
        "searchScore",
        "searchHighlights",
        "geoNearDistance",
        "geoNearPoint",
        "recordId",
        "indexKey",
        "sortKey",
        "searchScoreDetails",
        "vectorSearchScore",
        "score",
        "scoreDetails",
        "searchSequenceToken",
    ];
    if !known.iter().any(|other| name == *other) {
        return Err(error(17308, format!("Unsupported argument to $meta: {name}")));
    }
    if name == "indexKey" {
        return Ok(Expression::Missing);
    }
    if name == "recordId" || name == "sortKey" {
        return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, format!("$meta: {name} is not supported")));
    }
    Err(Error::new(ErrorCode::new(40218), format!("query requires {name} metadata, but it is not available")))
}
