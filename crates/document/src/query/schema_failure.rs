//! Which rules of a `$jsonSchema` a value breaks.
//!
//! Each keyword is asked on its own, by a schema that has it alone.

use super::repeated::repeated;
use super::schema::Schema;
use crate::base::Result;
use crate::base::num::u64_of;
use crate::bson::{Array, Document, DocumentBuf, DocumentBuilder, Value, equal, hash};
use crate::expr::value::int;
use crate::pattern::Pattern;

/// Appends the title and the description of a schema.
pub(super) fn append_notes(builder: &mut DocumentBuilder, schema: Document<'_>) {
    for name in ["title", "description"] {
        if let Some(note) = schema.get(name) {
            builder.append(name, note);
        }
    }
}

/// A document with one field.
pub(super) fn of_field(name: impl AsRef<[u8]>, value: Value<'_>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append(name.as_ref(), value);
    builder.finish()
}

fn accepts(schema: Document<'_>, value: &Value<'_>) -> Result<bool> {
    Schema::parse(schema)?.accepts(value)
}

/// The keywords that are asked together with another one.
const COMPANIONS: [(&str, &str); 2] = [("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")];

/// Appends to an open array the rules of a schema that a value breaks.
///
/// # Errors
/// Those of regular expressions that exceed their limit.
pub(super) fn append_rules(builder: &mut DocumentBuilder, schema: Document<'_>, value: &Value<'_>) -> Result<()> {
    for element in schema {
        let name = element.name.to_str_lossy();
        let of_schema = matches!(
            &*name,
            "title" | "description" | "exclusiveMaximum" | "exclusiveMinimum" | "$schema" | "id" | "format"
        );
        if of_schema {
            continue;
        }
        let mut alone = DocumentBuilder::new();
        alone.append_element(&element);
        for (_, companion) in COMPANIONS.iter().filter(|(keyword, _)| *keyword == name) {
            schema.element(companion).iter().for_each(|element| {
                alone.append_element(element);
            });
        }
        let alone = alone.finish();
        match (&*name, element.value) {
            ("properties", Value::Document(named)) => append_properties(builder, named, value)?,
            ("patternProperties", Value::Document(named)) => append_patterns(builder, named, value)?,
            ("additionalProperties", allowed) => append_additional(builder, schema, allowed, value)?,
            ("additionalItems", allowed) => append_additional_items(builder, schema, allowed, value)?,
            ("items", items) => append_items(builder, items, value)?,
            ("dependencies", Value::Document(all)) => append_dependencies(builder, all, value)?,
            (operator @ ("allOf" | "anyOf" | "oneOf"), Value::Array(schemas)) if !accepts(alone.view(), value)? => {
                append_parts(builder, operator, schemas, value)?;
            }
            ("not", _) if !accepts(alone.view(), value)? => {
                builder.push_document().append("operatorName", "not").append("reason", "child expression matched");
                builder.close();
            }
            ("allOf" | "anyOf" | "oneOf" | "not" | "properties" | "patternProperties" | "dependencies", _) => {}
            (keyword, operand) if !accepts(alone.view(), value)? => {
                append_keyword(builder, keyword, operand, &alone, value);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Appends the failure of a keyword that has no schemas within.
fn append_keyword(
    builder: &mut DocumentBuilder,
    keyword: &str,
    operand: Value<'_>,
    alone: &DocumentBuf,
    value: &Value<'_>,
) {
    builder.push_document().append("operatorName", keyword).append("specifiedAs", alone);
    let reason = match keyword {
        "bsonType" | "type" => "type did not match",
        "enum" => "value was not found in enum",
        "multipleOf" => "considered value is not a multiple of the specified value",
        "maxLength" | "minLength" => "specified string length was not satisfied",
        "pattern" => "regular expression did not match",
        "maxItems" | "minItems" => "array did not match specified length",
        "maxProperties" | "minProperties" => "specified number of properties was not satisfied",
        "uniqueItems" => "found a duplicate item",
        "required" => "",
        _ => "comparison failed",
    };
    if !reason.is_empty() {
        builder.append("reason", reason);
    }
    let document = value.as_document().unwrap_or(Document::empty());
    match keyword {
        "required" => {
            builder.open_array("missingProperties");
            let names = operand.as_array().unwrap_or(Array::empty());
            for name in names.values().filter(|name| name.as_str().is_some_and(|name| document.get(name).is_none())) {
                builder.push(name);
            }
            builder.close();
        }
        "maxProperties" | "minProperties" => {
            builder.append("numberOfProperties", count(document.elements().count()));
        }
        _ => {
            builder.append("consideredValue", *value);
        }
    }
    match (keyword, value) {
        ("bsonType" | "type", value) => {
            builder.append("consideredType", value.kind().name());
        }
        ("uniqueItems", Value::Array(array)) => {
            repeated(array.values(), |value, mut state| hash(value, &mut state), equal).iter().for_each(|value| {
                builder.append("duplicatedValue", *value);
            });
        }
        _ => {}
    }
    builder.close();
}

fn count(number: usize) -> Value<'static> {
    int(i64::try_from(u64_of(number)).unwrap_or(i64::MAX))
}

/// Appends the rules of a schema that a value breaks as an array of a name.
fn append_details(builder: &mut DocumentBuilder, schema: Document<'_>, value: &Value<'_>) -> Result<()> {
    builder.open_array("details");
    append_rules(builder, schema, value)?;
    builder.close();
    Ok(())
}

fn append_properties(builder: &mut DocumentBuilder, named: Document<'_>, value: &Value<'_>) -> Result<()> {
    let Value::Document(document) = value else { return Ok(()) };
    let mut opened = false;
    for element in named {
        let (Some(property), Some(schema)) = (document.get(element.name), element.value.as_document()) else {
            continue;
        };
        if accepts(schema, &property)? {
            continue;
        }
        if !std::mem::replace(&mut opened, true) {
            builder.push_document().append("operatorName", "properties").open_array("propertiesNotSatisfied");
        }
        builder.push_document().append("propertyName", Value::String(element.name));
        append_notes(builder, schema);
        append_details(builder, schema, &property)?;
        builder.close();
    }
    if opened {
        builder.close().close();
    }
    Ok(())
}

fn append_patterns(builder: &mut DocumentBuilder, named: Document<'_>, value: &Value<'_>) -> Result<()> {
    let Value::Document(document) = value else { return Ok(()) };
    let mut opened = false;
    for element in named {
        let Some(schema) = element.value.as_document() else { continue };
        let pattern = Pattern::new(&element.name.to_str_lossy(), "")?;
        for property in *document {
            if !pattern.is_match(&property.name.to_str_lossy())? || accepts(schema, &property.value)? {
                continue;
            }
            if !std::mem::replace(&mut opened, true) {
                builder.push_document().append("operatorName", "patternProperties").open_array("details");
            }
            builder.push_document().append("propertyName", Value::String(property.name));
            builder.append("regexMatched", Value::String(element.name));
            append_details(builder, schema, &property.value)?;
            builder.close();
        }
    }
    if opened {
        builder.close().close();
    }
    Ok(())
}

/// Appends the properties that `additionalProperties` does not allow.
fn append_additional(
    builder: &mut DocumentBuilder,
    schema: Document<'_>,
    allowed: Value<'_>,
    value: &Value<'_>,
) -> Result<()> {
    let Value::Document(document) = value else { return Ok(()) };
    let part = |name: &str| schema.get(name).and_then(|part| part.as_document()).unwrap_or(Document::empty());
    let (named, patterns) = (part("properties"), part("patternProperties"));
    let mut others = Vec::new();
    for property in *document {
        let mut known = named.get(property.name).is_some();
        for element in patterns {
            known |= Pattern::new(&element.name.to_str_lossy(), "")?.is_match(&property.name.to_str_lossy())?;
        }
        if !known {
            others.push(property);
        }
    }
    match allowed {
        Value::Bool(false) if !others.is_empty() => {
            builder.push_document().append("operatorName", "additionalProperties");
            builder.append("specifiedAs", &doc! {"additionalProperties": false}).open_array("additionalProperties");
            others.iter().for_each(|property| {
                builder.push(Value::String(property.name));
            });
            builder.close().close();
        }
        Value::Document(schema) => {
            for property in others {
                if !accepts(schema, &property.value)? {
                    let reason = "at least one additional property did not match the subschema";
                    builder.push_document().append("operatorName", "additionalProperties").append("reason", reason);
                    builder.append("failingProperty", Value::String(property.name));
                    append_details(builder, schema, &property.value)?;
                    builder.close();
                    break;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn append_items(builder: &mut DocumentBuilder, items: Value<'_>, value: &Value<'_>) -> Result<()> {
    let Value::Array(array) = value else { return Ok(()) };
    for (at, item) in array.values().enumerate() {
        let schema = match &items {
            Value::Document(schema) => Some(*schema),
            Value::Array(schemas) => schemas.get(at).and_then(|schema| schema.as_document()),
            _ => None,
        };
        let Some(schema) = schema else { break };
        if !accepts(schema, &item)? {
            return append_item(
                builder,
                "items",
                "At least one item did not match the sub-schema",
                (at, schema, &item),
            );
        }
    }
    Ok(())
}

fn append_item(
    builder: &mut DocumentBuilder,
    operator: &str,
    reason: &str,
    (at, schema, item): (usize, Document<'_>, &Value<'_>),
) -> Result<()> {
    builder.push_document().append("operatorName", operator).append("reason", reason).append("itemIndex", count(at));
    append_details(builder, schema, item)?;
    builder.close();
    Ok(())
}

/// Appends the items behind those of `items` that `additionalItems` does not allow.
fn append_additional_items(
    builder: &mut DocumentBuilder,
    schema: Document<'_>,
    allowed: Value<'_>,
    value: &Value<'_>,
) -> Result<()> {
    let (Value::Array(array), Some(Value::Array(items))) = (value, schema.get("items")) else { return Ok(()) };
    let first = items.count();
    match allowed {
        Value::Bool(false) if array.count() > first => {
            builder.push_document().append("operatorName", "additionalItems");
            builder.append("specifiedAs", &doc! {"additionalItems": false}).append("reason", "found additional items");
            builder.open_array("additionalItems");
            array.values().skip(first).for_each(|item| {
                builder.push(item);
            });
            builder.close().close();
        }
        Value::Document(schema) => {
            for (at, item) in array.values().enumerate().skip(first) {
                if !accepts(schema, &item)? {
                    let reason = "At least one additional item did not match the sub-schema";
                    return append_item(builder, "additionalItems", reason, (at, schema, &item));
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn append_dependencies(builder: &mut DocumentBuilder, all: Document<'_>, value: &Value<'_>) -> Result<()> {
    let Value::Document(document) = value else { return Ok(()) };
    let mut opened = false;
    for element in all.elements().filter(|element| document.get(element.name).is_some()) {
        let alone = doc! {"dependencies": &of_field(element.name, element.value)};
        if accepts(alone.view(), value)? {
            continue;
        }
        if !std::mem::replace(&mut opened, true) {
            builder.push_document().append("operatorName", "dependencies").open_array("failingDependencies");
        }
        builder.push_document().append("conditionalProperty", Value::String(element.name));
        match element.value {
            Value::Array(names) => {
                builder.open_array("missingProperties");
                let missing = |name: &Value<'_>| name.as_str().is_some_and(|name| document.get(name).is_none());
                names.values().filter(missing).for_each(|name| {
                    builder.push(name);
                });
                builder.close();
            }
            Value::Document(schema) => append_details(builder, schema, value)?,
            _ => {}
        }
        builder.close();
    }
    if opened {
        builder.close().close();
    }
    Ok(())
}

/// Appends the schemas of `allOf`, `anyOf` or `oneOf` that decide the answer.
fn append_parts(builder: &mut DocumentBuilder, operator: &str, schemas: Array<'_>, value: &Value<'_>) -> Result<()> {
    let (mut valid, mut invalid) = (Vec::new(), Vec::new());
    for (at, schema) in schemas.values().enumerate() {
        let Value::Document(schema) = schema else { continue };
        if accepts(schema, value)? { valid.push(at) } else { invalid.push((at, schema)) }
    }
    builder.push_document().append("operatorName", operator);
    if operator == "oneOf" && valid.len() > 1 {
        builder.append("reason", "more than one subschema matched").open_array("matchingSchemaIndexes");
        valid.iter().for_each(|at| {
            builder.push(count(*at));
        });
        builder.close().close();
        return Ok(());
    }
    builder.open_array("schemasNotSatisfied");
    for (at, schema) in invalid {
        builder.push_document().append("index", count(at));
        append_notes(builder, schema);
        append_details(builder, schema, value)?;
        builder.close();
    }
    builder.close().close();
    Ok(())
}
