//! `$group`, and `$sortByCount`, which stands for a group and a sort.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::accumulator::{Accumulator, Key, State};
use super::accumulator_parse;
use super::effect::{Effect, Fields};
use super::sort::SortStage;
use super::sorter::{Row, Sorted, Sorter};
use super::stage::{Parser, Rows, Run, Stage, Stages, deferred, error};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::collation::Collated;
use crate::expr::Expression;
use crate::keys;
use crate::path::Sort;

/// `$group`.
#[derive(Debug)]
pub(super) struct Group {
    id: Expression,
    fields: Vec<(String, Accumulator)>,
    /// How ids are compared.
    collation: Collated,
}

/// A group: its id, and what its accumulators have gathered.
type Gathered = (ValueBuf, Vec<State>);

/// The groups in memory, and the rows of all others, if there was no room for them.
type Groups = (Vec<Gathered>, usize, Option<Sorter>);

impl Group {
    pub(super) const fn new(id: Expression, fields: Vec<(String, Accumulator)>, collation: Collated) -> Self {
        Self { id, fields, collation }
    }

    fn id_of(&self, document: Document<'_>) -> Result<ValueBuf> {
        Ok(self.id.of(document)?.into_buf().unwrap_or_else(|| Value::Null.into()))
    }

    fn start(&self, id: ValueBuf) -> Result<Gathered> {
        let of = match id.view() {
            Value::Document(document) => document,
            _ => Document::empty(),
        };
        let states = self.fields.iter().map(|(_, accumulator)| accumulator.start(of)).collect::<Result<_>>()?;
        Ok((id, states))
    }

    /// Adds a document to its group. The bytes that are kept of it.
    fn add(&self, group: &mut Gathered, document: Document<'_>) -> Result<usize> {
        let mut bytes = 0;
        for ((_, accumulator), state) in self.fields.iter().zip(&mut group.1) {
            bytes += accumulator.add(state, document).map_err(as_in_groups)?;
        }
        Ok(bytes)
    }

    /// Gathers the groups. When there is no room for another one, the documents of all further groups go to a table, in
    /// the order of their groups.
    fn gathered(&self, input: Rows, run: &Run) -> Result<Groups> {
        let mut groups: Vec<Gathered> = Vec::new();
        let mut known: HashMap<Key, usize> = HashMap::new();
        let mut others: Option<Sorter> = None;
        let (mut kept, mut last) = (0, 0);
        for row in input {
            let document = row?;
            let id = self.id_of(document.view())?;
            // Rows of one group often come together, as those that an index has in its order.
            if !groups.get(last).is_some_and(|(group, _)| is_same(group, &id)) {
                let (key, id) = Key::of_owned(id, self.collation.as_deref());
                last = match known.entry(key) {
                    Entry::Occupied(entry) => *entry.get(),
                    Entry::Vacant(entry) => {
                        if let Some(others) = &mut others {
                            others.push(encoded(entry.key().value()), document)?;
                            continue;
                        }
                        let id = id.unwrap_or_else(|| entry.key().value().clone());
                        let bytes = self.bytes_of(&id);
                        kept += bytes;
                        if !run.memory.try_take(bytes) {
                            others = Some(self.overflow(run)?);
                        }
                        groups.push(self.start(id)?);
                        *entry.insert(groups.len() - 1)
                    }
                };
            }
            let bytes = self.add(&mut groups[last], document.view())?;
            kept += bytes;
            if bytes > 0 && !run.memory.try_take(bytes) {
                if others.is_none() {
                    others = Some(self.overflow(run)?);
                }
                if run.memory.is_far_exceeded() {
                    return Err(run.memory.exceeded("$group"));
                }
            }
        }
        Ok((groups, kept, others))
    }

    /// The memory of a group with an id.
    fn bytes_of(&self, id: &ValueBuf) -> usize {
        2 * (id.payload().len() + size_of::<ValueBuf>()) + self.fields.len() * size_of::<State>()
    }

    fn overflow(&self, run: &Run) -> Result<Sorter> {
        let mut sorter = Sorter::new("$group", Arc::clone(&run.memory), None);
        sorter.spill()?;
        Ok(sorter)
    }

    fn finish(&self, (id, states): Gathered) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.append("_id", id.view());
        for ((name, accumulator), state) in self.fields.iter().zip(states) {
            builder.append(name, accumulator.finish(state).view());
        }
        builder.finish()
    }

    /// The next group of rows that come in the order of their groups. `next` is the row that begins it.
    fn next_group(&self, rows: &mut Sorted, next: &mut Option<Row>) -> Result<Option<DocumentBuf>> {
        let first = match next.take() {
            Some(row) => row,
            None => match rows.next().transpose()? {
                Some(row) => row,
                None => return Ok(None),
            },
        };
        let mut group = self.start(self.id_of(first.1.view())?)?;
        self.add(&mut group, first.1.view())?;
        while let Some((key, document)) = rows.next().transpose()? {
            if key != first.0 {
                *next = Some((key, document));
                break;
            }
            self.add(&mut group, document.view())?;
        }
        Ok(Some(self.finish(group)))
    }
}

/// Whether two ids have the same bytes, and so are equal; others may be equal too.
fn is_same(one: &ValueBuf, other: &ValueBuf) -> bool {
    one.kind() == other.kind() && one.payload() == other.payload()
}

/// Divisions by zero have codes of their own in groups.
fn as_in_groups(wrong: Error) -> Error {
    let code = match wrong.code() {
        ErrorCode::BAD_VALUE if wrong.message() == "can't $divide by zero" => 4_848_401,
        code if code.number() == 16610 => 4_848_403,
        _ => return wrong,
    };
    error(code, wrong.message())
}

/// The key by which the rows of a group come together, of the id with sort keys.
fn encoded(id: &ValueBuf) -> Vec<u8> {
    let mut key = Vec::with_capacity(16);
    keys::encode_id(&mut key, &id.view(), None);
    key
}

impl Stage for Group {
    fn name(&self) -> &'static str {
        "$group"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let run = run.clone();
        Ok(deferred(move || {
            let (groups, kept, others) = self.gathered(input, &run)?;
            let (this, memory) = (Arc::clone(&self), Arc::clone(&run.memory));
            let mut groups = groups.into_iter();
            let mut rows = others.map(Sorter::finish).transpose()?;
            let (mut next, mut kept) = (None, Some(kept));
            Ok(std::iter::from_fn(move || {
                if let Some(group) = groups.next() {
                    return Some(Ok(this.finish(group)));
                }
                if let Some(kept) = kept.take() {
                    memory.give(kept);
                }
                this.next_group(rows.as_mut()?, &mut next).transpose()
            }))
        }))
    }

    fn effect(&self) -> Option<Effect> {
        let mut reads = Fields::none();
        reads.add_expression(&self.id);
        self.fields.iter().for_each(|(_, accumulator)| accumulator.add_fields(&mut reads));
        Some(Effect::making(reads))
    }
}

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

pub(super) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
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
    Ok(vec![Arc::new(Group { id, fields, collation: parser.context.collation.clone() })])
}

pub(super) fn read_sort_by_count(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
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
    let group = Group { id, fields, collation: parser.context.collation.clone() };
    Ok(vec![Arc::new(group), Arc::new(SortStage::new(Sort::by("count", true, None)))])
}
