//! Why a document does not match a filter, in the shape of `errInfo.details` of a validation that failed.
//!
//! The filter is taken apart as it was written: each of its conditions is asked on its own, and those that decide the
//! answer are told. Under `$not` and `$nor` these are the conditions that match.

use super::parse::{Place, document as parse, is_operators};
use super::schema_failure::{append_notes, append_rules, of_field};
use crate::base::Result;
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::expr::Context;
use crate::path::{Arrays, Path, walk};

/// The most values of an array that are told.
const CONSIDERED_MAX: usize = 10;

/// One condition of a filter.
struct Clause<'f> {
    /// The operator.
    operator: String,
    /// The path, for an operator on one.
    path: Option<String>,
    /// The operand.
    operand: Value<'f>,
    /// A filter of this condition alone.
    filter: DocumentBuf,
}

/// The document that is asked, and the constants of the filter.
#[derive(Clone, Copy)]
struct Asked<'d> {
    document: Document<'d>,
    context: &'d Context,
}

/// Tells which conditions of a filter a document does not meet.
///
/// # Errors
/// Those of a filter that is read, and asked of a document.
pub fn details(filter: Document<'_>, document: Document<'_>, context: &Context) -> Result<DocumentBuf> {
    of_filter(filter, Asked { document, context }, false)
}

/// Whether a document matches a filter as it is written.
fn matches(filter: Document<'_>, asked: Asked<'_>) -> Result<bool> {
    parse(filter, asked.context, Place::Top)?.matches(asked.document, None)
}

/// The details of a filter; `inverted` when it should not match and does.
fn of_filter(filter: Document<'_>, asked: Asked<'_>, inverted: bool) -> Result<DocumentBuf> {
    let clauses = clauses(filter);
    if let [only] = &clauses[..] {
        return of_clause(only, asked, inverted);
    }
    let parts = clauses.iter().map(|clause| clause.filter.view());
    of_parts("$and", parts, asked, inverted)
}

/// The details of the parts of a logical operator that decide its answer.
fn of_parts<'p>(
    operator: &str,
    parts: impl Iterator<Item = Document<'p>>,
    asked: Asked<'_>,
    inverted: bool,
) -> Result<DocumentBuf> {
    let inverted = inverted != (operator == "$nor");
    let mut builder = DocumentBuilder::new();
    builder.append("operatorName", operator);
    builder.open_array(if inverted { "clausesSatisfied" } else { "clausesNotSatisfied" });
    for (index, part) in (0_i32..).zip(parts) {
        if matches(part, asked)? == inverted {
            let details = of_filter(part, asked, inverted)?;
            builder.push_document().append("index", index).append("details", &details).close();
        }
    }
    builder.close();
    Ok(builder.finish())
}

fn of_clause(clause: &Clause<'_>, asked: Asked<'_>, inverted: bool) -> Result<DocumentBuf> {
    let document = asked.document;
    let mut builder = DocumentBuilder::new();
    match (&*clause.operator, clause.operand, &clause.path) {
        (operator @ ("$and" | "$or" | "$nor"), Value::Array(parts), None) => {
            return of_parts(operator, parts.values().filter_map(|part| part.as_document()), asked, inverted);
        }
        ("$jsonSchema", Value::Document(schema), None) if !inverted => {
            builder.append("operatorName", "$jsonSchema");
            append_notes(&mut builder, schema);
            builder.open_array("schemaRulesNotSatisfied");
            append_rules(&mut builder, schema, &Value::Document(document))?;
            builder.close();
            return Ok(builder.finish());
        }
        ("$not", Value::Document(inner), Some(path)) => {
            let details = of_filter(of_field(path, Value::Document(inner)).view(), asked, !inverted)?;
            builder.append("operatorName", "$not").append("details", &details);
            return Ok(builder.finish());
        }
        _ => {}
    }
    builder.append("operatorName", &*clause.operator).append("specifiedAs", &clause.filter);
    let Some(path) = &clause.path else {
        let (failed, succeeded) = match &*clause.operator {
            "$expr" => ("expression did not match", "expression did match"),
            "$jsonSchema" => ("schema did not match", "schema matched"),
            _ => ("expression always evaluates to false", "expression always evaluates to true"),
        };
        builder.append("reason", if inverted { succeeded } else { failed });
        if clause.operator == "$expr" {
            builder.append("expressionResult", inverted);
        }
        return Ok(builder.finish());
    };
    let values = values_at(document, path, clause)?;
    let of_existence = clause.operator == "$exists";
    if values.is_empty() && !of_existence && !inverted {
        builder.append("reason", "field was missing");
        return Ok(builder.finish());
    }
    builder.append("reason", reason(clause, &values, inverted));
    if !of_existence {
        append_considered(&mut builder, clause, &values);
    }
    Ok(builder.finish())
}

/// The values that a condition on a path was asked of.
fn values_at<'d>(document: Document<'d>, path: &str, clause: &Clause<'_>) -> Result<Vec<Value<'d>>> {
    let whole = matches!(&*clause.operator, "$size" | "$exists" | "$elemMatch" | "$all");
    let arrays = if whole { Arrays::Whole } else { Arrays::Values };
    let mut values = Vec::new();
    walk(document, Path::new(path).parts(), arrays, &mut |found| {
        values.extend(found.value);
        Ok(false)
    })?;
    Ok(values)
}

fn append_considered(builder: &mut DocumentBuilder, clause: &Clause<'_>, values: &[Value<'_>]) {
    match values {
        [] => {}
        [only] => {
            builder.append("consideredValue", *only);
            if clause.operator == "$type" {
                builder.append("consideredType", only.kind().name());
            }
        }
        many => {
            builder.open_array("consideredValues");
            many.iter().take(CONSIDERED_MAX).for_each(|value| {
                builder.push(*value);
            });
            builder.close();
            if clause.operator == "$type" {
                let mut kinds: Vec<&str> = many.iter().map(|value| value.kind().name()).collect();
                kinds.sort_unstable();
                kinds.dedup();
                builder.open_array("consideredTypes");
                kinds.iter().for_each(|kind| {
                    builder.push(*kind);
                });
                builder.close();
            }
        }
    }
}

/// Why a condition on a path failed, or, inverted, that it did not.
fn reason(clause: &Clause<'_>, values: &[Value<'_>], inverted: bool) -> &'static str {
    let ordered = matches!(&*clause.operator, "$gt" | "$gte" | "$lt" | "$lte");
    if ordered && !inverted && values.iter().all(|value| value.class() != clause.operand.class()) {
        return "type did not match";
    }
    let (failed, succeeded) = match &*clause.operator {
        "$exists" if matches!(clause.operand, Value::Bool(false)) => ("path does exist", "path does not exist"),
        "$exists" => ("path does not exist", "path does exist"),
        "$in" => ("no matching value found in array", "matching value found in array"),
        "$nin" => ("matching value found in array", "no matching value found in array"),
        "$type" => ("type did not match", "type did match"),
        "$mod" => ("$mod did not evaluate to expected remainder", "$mod did evaluate to expected remainder"),
        "$regex" => ("regular expression did not match", "regular expression did match"),
        "$size" => ("array length was not equal to given size", "array length was equal to given size"),
        "$all" => ("array did not contain all specified values", "array did contain all specified values"),
        "$elemMatch" => ("array did not satisfy the child predicate", "array did satisfy the child predicate"),
        bits if bits.starts_with("$bits") => {
            ("bitwise operator failed to match", "bitwise operator matched successfully")
        }
        _ => ("comparison failed", "comparison succeeded"),
    };
    if inverted { succeeded } else { failed }
}

/// The conditions of a filter, each on its own.
fn clauses(filter: Document<'_>) -> Vec<Clause<'_>> {
    let mut found = Vec::new();
    for element in filter {
        let (name, operand) = (element.name.to_str_lossy().into_owned(), element.value);
        if name == "$comment" {
            continue;
        }
        let alone = || of_field(&name, operand);
        match operators_of(&operand) {
            _ if name.starts_with('$') => {
                found.push(Clause { filter: alone(), operator: name, path: None, operand });
            }
            None => {
                let operator = if matches!(operand, Value::Regex(_)) { "$regex" } else { "$eq" };
                found.push(Clause { filter: alone(), operator: operator.to_owned(), path: Some(name), operand });
            }
            Some(operators) => {
                for operator in operators.elements().filter(|operator| operator.name != "$options") {
                    let mut condition = DocumentBuilder::new();
                    condition.append_element(&operator);
                    if operator.name == "$regex" {
                        operators.element("$options").iter().for_each(|options| {
                            condition.append_element(options);
                        });
                    }
                    found.push(Clause {
                        operator: operator.name.to_str_lossy().into_owned(),
                        path: Some(name.clone()),
                        operand: operator.value,
                        filter: of_field(&name, Value::Document(condition.finish().view())),
                    });
                }
            }
        }
    }
    found
}

/// The document of operators that an operand is; nothing for a value that is compared.
fn operators_of<'v>(operand: &Value<'v>) -> Option<Document<'v>> {
    let document = operand.as_document()?;
    is_operators(document).then_some(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(filter: &str, document: &str) -> String {
        let parse = |text: &str| DocumentBuf::from_json(text).unwrap();
        details(parse(filter).view(), parse(document).view(), &Context::default()).unwrap().view().to_json()
    }

    #[test]
    fn conditions_that_fail_are_told_with_the_values_that_they_were_asked_of() {
        for (filter, document, expected) in [
            (
                r#"{"a":1}"#,
                r#"{"a":2}"#,
                r#"{"operatorName":"$eq","specifiedAs":{"a":1},"reason":"comparison failed","consideredValue":2}"#,
            ),
            (
                r#"{"a":{"$gt":1}}"#,
                "{}",
                r#"{"operatorName":"$gt","specifiedAs":{"a":{"$gt":1}},"reason":"field was missing"}"#,
            ),
            (
                r#"{"a":{"$gt":1}}"#,
                r#"{"a":"x"}"#,
                r#"{"operatorName":"$gt","specifiedAs":{"a":{"$gt":1}},"reason":"type did not match","consideredValue":"x"}"#,
            ),
            (
                r#"{"a":{"$gt":1,"$lt":5},"b":{"$exists":true}}"#,
                r#"{"a":7}"#,
                r#"{"operatorName":"$and","clausesNotSatisfied":[{"index":1,"details":{"operatorName":"$lt","specifiedAs":{"a":{"$lt":5}},"reason":"comparison failed","consideredValue":7}},{"index":2,"details":{"operatorName":"$exists","specifiedAs":{"b":{"$exists":true}},"reason":"path does not exist"}}]}"#,
            ),
            (
                r#"{"$nor":[{"a":1},{"b":1}]}"#,
                r#"{"a":1,"b":2}"#,
                r#"{"operatorName":"$nor","clausesSatisfied":[{"index":0,"details":{"operatorName":"$eq","specifiedAs":{"a":1},"reason":"comparison succeeded","consideredValue":1}}]}"#,
            ),
            (
                r#"{"a":{"$not":{"$type":"int"}}}"#,
                r#"{"a":1}"#,
                r#"{"operatorName":"$not","details":{"operatorName":"$type","specifiedAs":{"a":{"$type":"int"}},"reason":"type did match","consideredValue":1,"consideredType":"int"}}"#,
            ),
            (
                r#"{"$expr":{"$gt":["$a",1]}}"#,
                r#"{"a":1}"#,
                r#"{"operatorName":"$expr","specifiedAs":{"$expr":{"$gt":["$a",1]}},"reason":"expression did not match","expressionResult":false}"#,
            ),
        ] {
            assert_eq!(told(filter, document), expected, "{filter} {document}");
        }
    }

    #[test]
    fn rules_of_a_schema_that_are_broken_are_told() {
        let rules = |schema: &str, document: &str| {
            let told = told(&format!(r#"{{"$jsonSchema":{schema}}}"#), document);
            told.replacen(r#"{"operatorName":"$jsonSchema","schemaRulesNotSatisfied":"#, "", 1)
        };
        for (schema, document, expected) in [
            (
                r#"{"required":["a","b"]}"#,
                r#"{"b":1}"#,
                r#"[{"operatorName":"required","specifiedAs":{"required":["a","b"]},"missingProperties":["a"]}]}"#,
            ),
            (
                r#"{"properties":{"a":{"bsonType":"int","description":"a whole number","minimum":3}}}"#,
                r#"{"a":2.5}"#,
                r#"[{"operatorName":"properties","propertiesNotSatisfied":[{"propertyName":"a","description":"a whole number","details":[{"operatorName":"bsonType","specifiedAs":{"bsonType":"int"},"reason":"type did not match","consideredValue":2.5,"consideredType":"double"},{"operatorName":"minimum","specifiedAs":{"minimum":3},"reason":"comparison failed","consideredValue":2.5}]}]}]}"#,
            ),
            (
                r#"{"properties":{"a":{}},"additionalProperties":false}"#,
                r#"{"a":2,"b":1}"#,
                r#"[{"operatorName":"additionalProperties","specifiedAs":{"additionalProperties":false},"additionalProperties":["b"]}]}"#,
            ),
            (
                r#"{"properties":{"a":{"items":{"enum":[1,2]},"uniqueItems":true}}}"#,
                r#"{"a":[1,3,1]}"#,
                r#"[{"operatorName":"properties","propertiesNotSatisfied":[{"propertyName":"a","details":[{"operatorName":"items","reason":"At least one item did not match the sub-schema","itemIndex":1,"details":[{"operatorName":"enum","specifiedAs":{"enum":[1,2]},"reason":"value was not found in enum","consideredValue":3}]},{"operatorName":"uniqueItems","specifiedAs":{"uniqueItems":true},"reason":"found a duplicate item","consideredValue":[1,3,1],"duplicatedValue":1}]}]}]}"#,
            ),
            (
                r#"{"oneOf":[{"required":["a"]},{"required":["b"]}]}"#,
                r#"{"a":1,"b":1}"#,
                r#"[{"operatorName":"oneOf","reason":"more than one subschema matched","matchingSchemaIndexes":[0,1]}]}"#,
            ),
            (
                r#"{"dependencies":{"a":["b","c"]},"not":{"required":["a"]}}"#,
                r#"{"a":1,"b":1}"#,
                r#"[{"operatorName":"dependencies","failingDependencies":[{"conditionalProperty":"a","missingProperties":["c"]}]},{"operatorName":"not","reason":"child expression matched"}]}"#,
            ),
        ] {
            assert_eq!(rules(schema, document), expected, "{schema} {document}");
        }
    }
}
