//! `$group`, and `$sortByCount`, which stands for a group and a sort.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::accumulator::{Accumulator, Key, Kind, State};
use super::accumulator_parse;
use super::sort::SortStage;
use super::stage::{Parser, Rows, Run, Stage, deferred, error};
use crate::base::Result;
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::expr::Expression;
use crate::path::Sort;

/// `$group`.
#[derive(Debug)]
pub(super) struct Group {
    id: Expression,
    fields: Vec<(String, Accumulator)>,
}

/// A group: its id, and what its accumulators have gathered.
type Gathered = (ValueBuf, Vec<State>);

impl Group {
    pub(super) const fn new(id: Expression, fields: Vec<(String, Accumulator)>) -> Self {
        Self { id, fields }
    }

    fn gathered(&self, input: Rows<'_>, run: Run<'_>) -> Result<Vec<Gathered>> {
        let mut groups: Vec<Gathered> = Vec::new();
        let mut known: HashMap<Key, usize> = HashMap::new();
        for row in input {
            let document = row?;
            let id = self.id.of(document.view())?.into_buf().unwrap_or_else(|| Value::Null.into());
            let at = match known.entry(Key(id)) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    let id = entry.key().0.clone();
                    let bytes =
                        2 * (id.payload().len() + size_of::<ValueBuf>()) + self.fields.len() * size_of::<State>();
                    run.memory.take(bytes, "$group")?;
                    let of = match id.view() {
                        Value::Document(document) => document,
                        _ => Document::empty(),
                    };
                    let states =
                        self.fields.iter().map(|(_, accumulator)| accumulator.start(of)).collect::<Result<_>>()?;
                    groups.push((id, states));
                    *entry.insert(groups.len() - 1)
                }
            };
            let mut bytes = 0;
            for ((_, accumulator), state) in self.fields.iter().zip(&mut groups[at].1) {
                bytes += accumulator.add(state, document.view())?;
            }
            if bytes > 0 {
                run.memory.take(bytes, "$group")?;
            }
        }
        Ok(groups)
    }

    fn finish(&self, (id, states): Gathered) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.append("_id", id.view());
        for ((name, accumulator), state) in self.fields.iter().zip(states) {
            builder.append(name, accumulator.finish(state).view());
        }
        builder.finish()
    }
}

impl Stage for Group {
    fn name(&self) -> &'static str {
        "$group"
    }

    fn run<'a>(&'a self, input: Rows<'a>, run: Run<'a>) -> Result<Rows<'a>> {
        Ok(deferred(move || Ok(self.gathered(input, run)?.into_iter().map(move |group| Ok(self.finish(group))))))
    }
}

pub(super) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Result<Vec<Box<dyn Stage>>> {
    let Value::Document(spec) = value else {
        return Err(error(15947, "a group's fields must be specified in an object"));
    };
    let (mut id, mut fields) = (None, Vec::new());
    for element in spec {
        if element.name == "_id" {
            id = Some(crate::expr::parse(element.value, parser.context)?);
        } else if element.name == "$doingMerge" {
            return Err(error(17030, "$doingMerge should be true if present"));
        } else {
            fields
                .push((element.name.to_str_lossy().into_owned(), accumulator_parse::field(&element, parser.context)?));
        }
    }
    let id = id.ok_or_else(|| error(15955, "a group specification must include an _id"))?;
    Ok(vec![Box::new(Group { id, fields })])
}

pub(super) fn read_sort_by_count(
    parser: &Parser<'_>,
    _: &'static str,
    value: Value<'_>,
) -> Result<Vec<Box<dyn Stage>>> {
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
    let count = Accumulator { kind: Kind::Sum, argument: Expression::constant(Value::Int32(1)) };
    let group = Group { id, fields: vec![("count".to_owned(), count)] };
    Ok(vec![Box::new(group), Box::new(SortStage::new(Sort::by("count", true)))])
}
