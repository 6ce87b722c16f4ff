//! The application of update operators to a document.

use super::act::Act;
use super::outcome::{Outcome, Told};
use super::path::{Step, UpdatePath};
use super::result::Updated;
use super::tree::Tree;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::{DOCUMENT_BYTES_MAX, Document, DocumentBuilder, Kind, Value, ValueBuf};
use crate::collation::Collated;
use crate::query::Filter;

/// The operators of an update, in the order of their paths.
#[derive(Debug)]
pub(super) struct Operators {
    pub(super) acts: Vec<(UpdatePath, Act)>,
    /// The array filters by their identifiers.
    pub(super) filters: Vec<(String, Filter)>,
    /// How strings are compared.
    pub(super) collation: Collated,
}

/// The most values that are put before a new one in an array.
const PADDING_MAX: usize = 1_500_000;

/// The most bytes of the paths whose values an update changes.
const PATH_BYTES_MAX: usize = 100 << 20;

/// What steps need to know.
struct Apply<'u> {
    operators: &'u Operators,
    document: Document<'u>,
    position: Option<usize>,
    changed: Vec<String>,
    /// The bytes of the values that were made, all of which are in the new document.
    made_bytes: usize,
    /// The bytes of the paths in `changed`.
    path_bytes: usize,
}

impl Operators {
    pub(super) fn apply(&self, document: Document<'_>, position: Option<usize>, inserting: bool) -> Result<Updated> {
        let mut tree = Tree::View(Value::Document(document));
        let mut apply =
            Apply { operators: self, document, position, changed: Vec::new(), made_bytes: 0, path_bytes: 0 };
        for (path, act) in &self.acts {
            interrupt::work(4)?;
            match act {
                Act::SetOnInsert(_) if !inserting => continue,
                act if !inserting && (act.creates() || matches!(act, Act::Rename(_))) => path.check_top()?,
                _ => {}
            }
            match act {
                Act::Rename(from) => apply.rename(&mut tree, from, path)?,
                act => apply.step(&mut tree, &path.steps, act, "")?,
            }
        }
        let changed = apply.changed;
        let document = if changed.is_empty() { document.into() } else { tree.to_document() };
        Ok(Updated { document, changed: Some(changed) })
    }
}

fn joined(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

impl Apply<'_> {
    fn told(&self) -> Told<'_> {
        Told { document: self.document, collation: self.operators.collation.as_deref() }
    }

    /// What an operator makes of a value, whose bytes are counted: one of a path with `$[]` is made many times.
    fn act(&mut self, act: &Act, value: Option<Value<'_>>, path: &str) -> Result<Outcome> {
        let outcome = act.on(value, path, &self.told())?;
        if let Outcome::New(value) = &outcome {
            self.count(value.payload().len())?;
        }
        Ok(outcome)
    }

    /// Counts bytes that the new document has.
    fn count(&mut self, bytes: usize) -> Result<()> {
        self.made_bytes += bytes;
        if self.made_bytes > DOCUMENT_BYTES_MAX {
            let what = format!("Resulting document after update is larger than {DOCUMENT_BYTES_MAX}");
            return Err(Error::new(ErrorCode::new(17419), what));
        }
        Ok(())
    }

    /// Takes note of a path whose value has changed.
    fn record(&mut self, path: String) -> Result<()> {
        self.path_bytes += path.len();
        if self.path_bytes > PATH_BYTES_MAX {
            let what = format!("the paths that the update changes take more than {PATH_BYTES_MAX} bytes");
            return Err(Error::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, what));
        }
        self.changed.push(path);
        Ok(())
    }

    /// Applies an operator at what is left of its path; `at` is the path so far.
    fn step(&mut self, tree: &mut Tree<'_>, steps: &[Step], act: &Act, at: &str) -> Result<()> {
        let Some((first, rest)) = steps.split_first() else { return Ok(()) };
        match first {
            Step::Field(part) => {
                let name = String::from_utf8_lossy(part.name()).into_owned();
                match tree.kind() {
                    Kind::Document => self.field(tree, &name, rest, act, at),
                    Kind::Array => match part.index() {
                        Some(index) => self.element(tree, index, rest, act, at),
                        None if act.creates() || matches!(act, Act::Pop { .. }) => Err(not_viable(&name, tree, at)),
                        None => Ok(()),
                    },
                    _ if act.creates() || matches!(act, Act::Pop { .. }) => Err(not_viable(&name, tree, at)),
                    _ => Ok(()),
                }
            }
            Step::First => {
                let missing = "The positional operator did not find the match needed from the query.";
                let index = self.position.ok_or_else(|| Error::bad_value(missing))?;
                match tree.kind() {
                    Kind::Array => self.element(tree, index, rest, act, at),
                    Kind::Document => self.field(tree, &index.to_string(), rest, act, at),
                    _ => Err(Error::bad_value(missing)),
                }
            }
            Step::All | Step::Filtered(_) => self.elements(tree, first, rest, act, at),
        }
    }

    fn field(&mut self, tree: &mut Tree<'_>, name: &str, rest: &[Step], act: &Act, at: &str) -> Result<()> {
        let path = joined(at, name);
        tree.open();
        let Tree::Document(fields) = tree else { return Ok(()) };
        let place = fields.place(name.as_bytes());
        match place.map(|place| fields.value_mut(place)) {
            Some(slot @ Some(_)) if rest.is_empty() => {
                let before = slot.as_ref().map(Tree::to_buf);
                match self.act(act, before.as_ref().map(ValueBuf::view), &path)? {
                    Outcome::Keep => {}
                    Outcome::New(new) => {
                        *slot = Some(Tree::Own(new));
                        self.record(path)?;
                    }
                    Outcome::Gone => {
                        *slot = None;
                        self.record(path)?;
                    }
                }
            }
            Some(Some(value)) => self.step(value, rest, act, &path)?,
            Some(None) | None if !act.creates() => {
                let positional = rest.first().is_some_and(|step| matches!(step, Step::All | Step::Filtered(_)));
                if positional {
                    return Err(must_exist(&path));
                }
            }
            Some(None) | None => {
                if let Outcome::New(value) = self.made(rest, act, &path)? {
                    fields.set(name.as_bytes().into(), Some(Tree::Own(value)));
                    self.record(path)?;
                }
            }
        }
        Ok(())
    }

    /// What is made where nothing is: the value, in documents for what is left of the path.
    fn made(&mut self, rest: &[Step], act: &Act, path: &str) -> Result<Outcome> {
        let Some((first, further)) = rest.split_first() else { return self.act(act, None, path) };
        let Step::Field(part) = first else { return Err(must_exist(path)) };
        let name = String::from_utf8_lossy(part.name());
        Ok(match self.made(further, act, &joined(path, &name))? {
            Outcome::New(value) => {
                let mut builder = DocumentBuilder::new();
                builder.append(part.name(), value.view());
                Outcome::New(builder.finish().into())
            }
            other => other,
        })
    }

    fn element(&mut self, tree: &mut Tree<'_>, index: usize, rest: &[Step], act: &Act, at: &str) -> Result<()> {
        let path = joined(at, &index.to_string());
        tree.open();
        let Tree::Array(values) = tree else { return Ok(()) };
        match values.get_mut(index) {
            Some(value) if rest.is_empty() => match self.act(act, Some(value.to_buf().view()), &path)? {
                Outcome::Keep => {}
                Outcome::New(new) => {
                    *value = Tree::Own(new);
                    self.record(path)?;
                }
                Outcome::Gone => {
                    // The others keep their positions.
                    if value.kind() != Kind::Null {
                        *value = Tree::Own(Value::Null.into());
                        self.record(path)?;
                    }
                }
            },
            Some(value) => self.step(value, rest, act, &path)?,
            None if act.creates() => {
                if index - values.len() > PADDING_MAX {
                    let what = format!("can't backfill array to larger than {PADDING_MAX} elements");
                    return Err(Error::new(ErrorCode::CANNOT_BACKFILL_ARRAY, what));
                }
                if let Outcome::New(value) = self.made(rest, act, &path)? {
                    // An element takes its type, its position and a zero; few positions have two digits less.
                    self.count(index.to_string().len() * (index - values.len()))?;
                    // For the new element too, or the array would double once more.
                    values.reserve(index + 1 - values.len());
                    values.resize(index, Tree::Own(Value::Null.into()));
                    values.push(Tree::Own(value));
                    // The array has another length, which is a change of the array itself.
                    self.record(if at.is_empty() { path } else { at.to_owned() })?;
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Applies an operator to all values of an array, or to those that a filter matches.
    fn elements(&mut self, tree: &mut Tree<'_>, step: &Step, rest: &[Step], act: &Act, at: &str) -> Result<()> {
        if tree.kind() != Kind::Array {
            let what =
                format!("Cannot apply array updates to non-array element {at}: {}", tree.to_buf().view().to_json());
            return Err(Error::bad_value(what));
        }
        tree.open();
        let count = if let Tree::Array(values) = &*tree { values.len() } else { 0 };
        for index in 0..count {
            interrupt::work(4)?;
            if let (Step::Filtered(identifier), Tree::Array(values)) = (step, &*tree)
                && !self.matches(identifier, &values[index].to_buf())?
            {
                continue;
            }
            self.element(tree, index, rest, act, at)?;
        }
        Ok(())
    }

    fn matches(&self, identifier: &str, value: &ValueBuf) -> Result<bool> {
        let Some((_, filter)) = self.operators.filters.iter().find(|(known, _)| known == identifier) else {
            return Ok(false);
        };
        let mut builder = DocumentBuilder::new();
        builder.append(identifier, value.view());
        filter.matches(builder.finish().view())
    }

    fn rename(&mut self, tree: &mut Tree<'_>, from: &UpdatePath, to: &UpdatePath) -> Result<()> {
        let Some(value) = taken(tree, &from.steps, from, "source")? else { return Ok(()) };
        if [from, to].iter().any(|path| path.text == "_id" || path.text.starts_with("_id.")) {
            let what = "Performing an update on the path '_id' would modify the immutable field '_id'";
            return Err(Error::new(ErrorCode::IMMUTABLE_FIELD, what));
        }
        check_no_array(tree, &to.steps, to)?;
        self.record(from.text.clone())?;
        self.step(tree, &to.steps, &Act::Set(value), "")
    }
}

/// Takes the value at a path of fields out.
fn taken(tree: &mut Tree<'_>, steps: &[Step], path: &UpdatePath, which: &str) -> Result<Option<ValueBuf>> {
    let Some((Step::Field(part), rest)) = steps.split_first() else { return Ok(None) };
    match tree.kind() {
        Kind::Document => {}
        Kind::Array => {
            let what =
                format!("The {which} field cannot be an array element, '{}' in doc has an array field", path.text);
            return Err(Error::bad_value(what));
        }
        _ => {
            let what = format!(
                "cannot use the part ({}) of ({}) to traverse the element",
                String::from_utf8_lossy(part.name()),
                path.text
            );
            return Err(Error::new(ErrorCode::PATH_NOT_VIABLE, what));
        }
    }
    tree.open();
    let Tree::Document(fields) = tree else { return Ok(None) };
    let Some(place) = fields.place(part.name()) else { return Ok(None) };
    let slot = fields.value_mut(place);
    if rest.is_empty() {
        return Ok(slot.take().map(|value| value.to_buf()));
    }
    slot.as_mut().map_or(Ok(None), |value| taken(value, rest, path, which))
}

/// Refuses a path that leads into an array.
fn check_no_array(tree: &mut Tree<'_>, steps: &[Step], path: &UpdatePath) -> Result<()> {
    let Some((Step::Field(part), rest)) = steps.split_first() else { return Ok(()) };
    if tree.kind() == Kind::Array {
        let what =
            format!("The destination field cannot be an array element, '{}' in doc has an array field", path.text);
        return Err(Error::bad_value(what));
    }
    tree.open();
    let Tree::Document(fields) = tree else { return Ok(()) };
    let slot = fields.place(part.name()).map(|place| fields.value_mut(place));
    slot.and_then(Option::as_mut).map_or(Ok(()), |value| check_no_array(value, rest, path))
}

fn not_viable(name: &str, tree: &Tree<'_>, at: &str) -> Error {
    let last = at.rsplit('.').next().unwrap_or(at);
    let what = format!("Cannot create field '{name}' in element {{{last}: {}}}", tree.to_buf().view().to_json());
    Error::new(ErrorCode::PATH_NOT_VIABLE, what)
}

fn must_exist(path: &str) -> Error {
    Error::bad_value(format!("The path '{path}' must exist in the document in order to apply array updates."))
}
