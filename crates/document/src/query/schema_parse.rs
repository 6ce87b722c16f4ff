//! The strict reading of a `$jsonSchema` document.

use std::collections::HashSet;

use super::repeated::repeated;
use super::schema::{Dependency, Others, Rule, Schema};
use super::types::Types;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, Document, Element, Kind, Value, hash};
use crate::pattern::Pattern;

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// `TypeMismatch` (14) for a keyword's value of a wrong type, `FailedToParse` (9) for one out of range and for a
    /// keyword that there is not, `BadValue` (2) for a type that there is not.
    pub fn parse(schema: Document<'_>) -> Result<Self> {
        let mut rules = Vec::new();
        if schema.get("type").is_some() && schema.get("bsonType").is_some() {
            return Err(failed("Cannot specify both $jsonSchema keywords 'type' and 'bsonType'"));
        }
        for element in schema {
            if let Some(rule) = keyword(&element, schema)? {
                rules.push(rule);
            }
        }
        if let Some(rule) = properties(schema)? {
            rules.push(rule);
        }
        if let Some(rule) = items(schema)? {
            rules.push(rule);
        }
        Ok(Self { rules })
    }
}

fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::FAILED_TO_PARSE, what)
}

fn mismatch(keyword: &str, what: &str) -> Error {
    Error::new(ErrorCode::TYPE_MISMATCH, format!("$jsonSchema keyword '{keyword}' must be {what}"))
}

/// The rule of a keyword that stands for itself; nothing for notes, and for keywords that are read together.
fn keyword(element: &Element<'_>, schema: Document<'_>) -> Result<Option<Rule>> {
    let (name, value) = (element.name.to_str_lossy(), element.value);
    let name = &*name;
    Ok(Some(match name {
        "title" | "description" => {
            text(name, value)?;
            return Ok(None);
        }
        "bsonType" => Rule::Types(types(name, value, bson_type)?),
        "type" => Rule::Types(types(name, value, json_type)?),
        "enum" => Rule::Enum(choices(value)?),
        "maximum" => Rule::Maximum { value: number(name, value)?.into(), exclusive: flag("exclusiveMaximum", schema)? },
        "minimum" => Rule::Minimum { value: number(name, value)?.into(), exclusive: flag("exclusiveMinimum", schema)? },
        "exclusiveMaximum" | "exclusiveMinimum" => {
            flag(name, schema)?;
            let limit = if name == "exclusiveMaximum" { "maximum" } else { "minimum" };
            if schema.get(limit).is_none() {
                return Err(failed(format!("$jsonSchema keyword '{limit}' must be a present if {name} is present")));
            }
            return Ok(None);
        }
        "multipleOf" => {
            let value = number(name, value)?;
            let zero = Value::Int32(0);
            if crate::bson::compare(&value, &zero).is_le() {
                return Err(failed("$jsonSchema keyword 'multipleOf' must have a positive value"));
            }
            Rule::MultipleOf(value.into())
        }
        "maxLength" => Rule::MaxLength(count(name, value)?),
        "minLength" => Rule::MinLength(count(name, value)?),
        "maxItems" => Rule::MaxItems(count(name, value)?),
        "minItems" => Rule::MinItems(count(name, value)?),
        "maxProperties" => Rule::MaxProperties(count(name, value)?),
        "minProperties" => Rule::MinProperties(count(name, value)?),
        "pattern" => Rule::Pattern(Pattern::new(&text(name, value)?, "")?),
        "uniqueItems" => {
            if !flag(name, schema)? {
                return Ok(None);
            }
            Rule::UniqueItems
        }
        "required" => Rule::Required(names(name, value)?),
        "dependencies" => Rule::Dependencies(dependencies(value)?),
        "allOf" => Rule::AllOf(schemas(name, value)?),
        "anyOf" => Rule::AnyOf(schemas(name, value)?),
        "oneOf" => Rule::OneOf(schemas(name, value)?),
        "not" => Rule::Not(Box::new(sub_schema(name, value)?)),
        "properties" | "patternProperties" | "additionalProperties" | "items" | "additionalItems" => return Ok(None),
        "$ref" | "$schema" | "default" | "definitions" | "format" | "id" => {
            return Err(failed(format!("$jsonSchema keyword '{name}' is not currently supported")));
        }
        other => return Err(failed(format!("Unknown $jsonSchema keyword: {other}"))),
    }))
}

/// The rule of `properties`, `patternProperties` and `additionalProperties` together.
fn properties(schema: Document<'_>) -> Result<Option<Rule>> {
    let (mut named, mut patterns) = (Vec::new(), Vec::new());
    if let Some(value) = schema.get("properties") {
        for element in document("properties", value)? {
            named.push((
                element.name.to_str_lossy().into_owned(),
                sub_schema(&element.name.to_str_lossy(), element.value)?,
            ));
        }
    }
    if let Some(value) = schema.get("patternProperties") {
        for element in document("patternProperties", value)? {
            let name = element.name.to_str_lossy();
            let pattern = Pattern::new(&name, "").map_err(|error| Error::bad_value(error.message()))?;
            patterns.push((pattern, sub_schema(&name, element.value)?));
        }
    }
    let others = others("additionalProperties", schema)?;
    let any = !named.is_empty() || !patterns.is_empty() || !matches!(others, Others::Allowed);
    Ok(any.then_some(Rule::Properties { named, patterns, others }))
}

/// The rule of `items` and `additionalItems` together.
fn items(schema: Document<'_>) -> Result<Option<Rule>> {
    let additional = others("additionalItems", schema)?;
    Ok(match schema.get("items") {
        None => None,
        Some(Value::Document(items)) => {
            let rest = Others::Valid(Box::new(Schema::parse(items)?));
            Some(Rule::Items { first: Vec::new(), rest })
        }
        Some(Value::Array(array)) => {
            let first = array.values().map(|value| sub_schema("items", value)).collect::<Result<_>>()?;
            Some(Rule::Items { first, rest: additional })
        }
        Some(_) => return Err(mismatch("items", "an array or an object")),
    })
}

fn others(name: &str, schema: Document<'_>) -> Result<Others> {
    Ok(match schema.get(name) {
        None | Some(Value::Bool(true)) => Others::Allowed,
        Some(Value::Bool(false)) => Others::Forbidden,
        Some(Value::Document(schema)) => Others::Valid(Box::new(Schema::parse(schema)?)),
        Some(_) => return Err(mismatch(name, "an object or a boolean")),
    })
}

fn document<'a>(name: &str, value: Value<'a>) -> Result<Document<'a>> {
    value.as_document().ok_or_else(|| mismatch(name, "an object"))
}

fn array<'a>(name: &str, value: Value<'a>) -> Result<Array<'a>> {
    value.as_array().ok_or_else(|| mismatch(name, "an array"))
}

fn text(name: &str, value: Value<'_>) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.to_str_lossy().into_owned()),
        _ => Err(mismatch(name, "a string")),
    }
}

fn number<'a>(name: &str, value: Value<'a>) -> Result<Value<'a>> {
    if value.kind().is_number() { Ok(value) } else { Err(mismatch(name, "a number")) }
}

fn count(name: &str, value: Value<'_>) -> Result<usize> {
    let whole = value.as_exact_i64();
    let whole = whole.ok_or_else(|| failed(format!("$jsonSchema keyword '{name}' must be representable as a long")))?;
    usize::try_from(whole).map_err(|_| failed(format!("$jsonSchema keyword '{name}' must be a non-negative number")))
}

fn flag(name: &str, schema: Document<'_>) -> Result<bool> {
    match schema.get(name) {
        None => Ok(false),
        Some(Value::Bool(is)) => Ok(is),
        Some(_) => Err(mismatch(name, "a boolean")),
    }
}

fn sub_schema(name: &str, value: Value<'_>) -> Result<Schema> {
    Schema::parse(document(name, value)?)
}

fn schemas(name: &str, value: Value<'_>) -> Result<Vec<Schema>> {
    let array = array(name, value)?;
    if array.is_empty() {
        return Err(Error::bad_value(format!("$jsonSchema keyword '{name}' must be a non-empty array")));
    }
    array.values().map(|value| sub_schema(name, value)).collect()
}

/// Names without repetition, at least one.
fn names(name: &str, value: Value<'_>) -> Result<Vec<String>> {
    let (mut names, mut seen): (Vec<String>, HashSet<String>) = Default::default();
    for value in array(name, value)? {
        let text = text(name, value)?;
        if !seen.insert(text.clone()) {
            return Err(failed(format!("$jsonSchema keyword '{name}' array cannot contain duplicate values")));
        }
        names.push(text);
    }
    if names.is_empty() {
        return Err(failed(format!("$jsonSchema keyword '{name}' cannot be an empty array")));
    }
    Ok(names)
}

fn dependencies(value: Value<'_>) -> Result<Vec<(String, Dependency)>> {
    let mut found = Vec::new();
    for element in document("dependencies", value)? {
        let dependency = match element.value {
            Value::Document(schema) => Dependency::Valid(Box::new(Schema::parse(schema)?)),
            Value::Array(_) => Dependency::Fields(names("dependencies", element.value)?),
            _ => return Err(mismatch("dependencies", "an object or an array")),
        };
        found.push((element.name.to_str_lossy().into_owned(), dependency));
    }
    Ok(found)
}

fn choices(value: Value<'_>) -> Result<Vec<crate::bson::ValueBuf>> {
    let array = array("enum", value)?;
    if array.is_empty() {
        return Err(failed("$jsonSchema keyword 'enum' cannot be an empty array"));
    }
    let values: Vec<Value<'_>> = array.values().collect();
    if repeated(values.iter().copied(), |value, mut state| hash(value, &mut state), |a, b| a == b).is_some() {
        return Err(failed("$jsonSchema keyword 'enum' array cannot contain duplicate values"));
    }
    Ok(values.into_iter().map(Into::into).collect())
}

/// The types that a name or an array of names means.
fn types(name: &str, value: Value<'_>, one: fn(&str) -> Result<Types>) -> Result<Types> {
    match value {
        Value::String(text) => one(&text.to_str_lossy()),
        Value::Array(array) => {
            if array.is_empty() {
                return Err(failed(format!("$jsonSchema keyword '{name}' must name at least one type")));
            }
            let mut seen = Vec::new();
            array.values().try_fold(Types::default(), |set, value| {
                let text = text(name, value)?;
                if seen.contains(&text) {
                    return Err(failed(format!("$jsonSchema keyword '{name}' has duplicate value: {text}")));
                }
                let types = one(&text)?;
                seen.push(text);
                Ok(set.union(types))
            })
        }
        _ => Err(mismatch(name, "either a string or an array of strings")),
    }
}

fn bson_type(name: &str) -> Result<Types> {
    if name == "integer" {
        return Err(failed("$jsonSchema type 'integer' is not currently supported."));
    }
    Types::named(name).ok_or_else(|| Error::bad_value(format!("Unknown type name alias: {name}")))
}

fn json_type(name: &str) -> Result<Types> {
    let one = |kind| Ok(Types::default().with(kind));
    match name {
        "object" => one(Kind::Document),
        "array" => one(Kind::Array),
        "string" => one(Kind::String),
        "boolean" => one(Kind::Bool),
        "null" => one(Kind::Null),
        "number" => Ok(Types::numbers()),
        "integer" => Err(failed("$jsonSchema type 'integer' is not currently supported.")),
        other => Err(Error::bad_value(format!("Unknown type name alias: {other}"))),
    }
}
