//! How `$group` and `$sortByCount`, which stands for a group and a sort, are read.

use std::sync::Arc;

use super::spec::Group;
use crate::aggregate::accumulator::Accumulator;
use crate::aggregate::accumulator_parse;
use crate::aggregate::sort::SortStage;
use crate::aggregate::stage::{Parser, Stages, error};
use crate::base::Result;
use crate::bson::Value;
use crate::path::Sort;

/// Refuses an id that looks like a projection.
fn check_id(id: Value<'_>) -> Result<()> {
    for field in id.as_document().into_iter().flatten() {
        let plain = matches!(field.value, Value::Bool(_)) || field.value.kind().is_number();
        if plain && !field.name.as_bytes().starts_with(b"$") {
            let what = format!("$group does not support inclusion-style expressions: '{}'", field.name);
            return Err(error(17390, what));
        }
    }
    Ok(())
}

pub(in crate::aggregate) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(error(15947, "a group's fields must be specified in an object"));
    };
    let (mut id, mut fields) = (None, Vec::new());
    for element in spec {
        if element.name == "_id" {
            check_id(element.value)?;
            id = Some(crate::expr::parse(element.value, parser.context)?);
        } else if element.name == "$doingMerge" {
            return Err(error(17030, "$doingMerge should be true if present"));
        } else {
            fields
                .push((element.name.to_str_lossy().into_owned(), accumulator_parse::field(&element, parser.context)?));
        }
    }
    let id = id.ok_or_else(|| error(15955, "a group specification must include an _id"))?;
    Ok(vec![Arc::new(Group::new(id, fields, parser.context.collation.clone()))])
}

pub(in crate::aggregate) fn read_sort_by_count(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    match value {
        Value::Document(document) if !document.first().is_some_and(|first| first.name.as_bytes().starts_with(b"$")) => {
            return Err(error(
                40147,
                format!(
                    "the sortByCount field must be defined as a $-prefixed path or an expression inside an object, but found {}",
                    value.to_json()
                ),
            ));
        }
        Value::Document(_) => {}
        Value::String(path) if path.as_bytes().starts_with(b"$") => {}
        Value::String(path) => {
            return Err(error(
                40148,
                format!(
                    "the sortByCount field must be defined as a $-prefixed path or an expression inside an object, but found '{path}'"
                ),
            ));
        }
        other => {
            return Err(error(
                40149,
                format!(
                    "the sortByCount field must be specified as a string or as an object, but found {}",
                    other.kind().name()
                ),
            ));
        }
    }
    let id = crate::expr::parse(value, parser.context)?;
    let fields = vec![("count".to_owned(), Accumulator::counting())];
    let group = Group::new(id, fields, parser.context.collation.clone());
    Ok(vec![Arc::new(group), Arc::new(SortStage::new(Sort::by("count", true, None)))])
}
