//! Updates: operators such as `$set` and `$push`, replacements, and pipelines, applied to one document.
//!
//! [`Update::parse`] reads an update strictly; [`Update::apply`] gives the new document and the paths that changed, or
//! says that nothing did; [`Update::insert`] makes the document of an upsert.

mod act;
mod apply;
mod array;
mod outcome;
mod parse;
mod path;
mod result;
mod tree;
mod upsert;

use crate::aggregate::{Pipeline, Run};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, Document, DocumentBuf, DocumentBuilder, ObjectId, Value, compare};
use crate::expr::Context;
use crate::query::Filter;

pub use result::Updated;

/// A compiled update.
#[derive(Debug)]
pub struct Update {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Replace(DocumentBuf),
    Operators(apply::Operators),
    Pipeline(Box<(Pipeline, Run)>),
}

/// The stages that an update may have.
const STAGES: [&str; 6] = ["$addFields", "$set", "$project", "$unset", "$replaceRoot", "$replaceWith"];

impl Update {
    /// Reads an update: a document of operators, a document that replaces the old one, or an array of stages.
    ///
    /// # Errors
    /// MongoDB's, such as `FailedToParse` (9) for an operator that there is not and `ConflictingUpdateOperators` (40).
    pub fn parse(update: Value<'_>, array_filters: Option<Array<'_>>, context: &Context) -> Result<Self> {
        let filters = array_filters.is_some_and(|filters| !filters.is_empty());
        let kind = match update {
            Value::Array(stages) => {
                if filters {
                    let what = "arrayFilters may not be specified for pipeline-style updates";
                    return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
                }
                let pipeline = crate::aggregate::parse(stages, &context.clone().of_update())?;
                if let Some(stage) = pipeline.stages().iter().find(|stage| !STAGES.contains(&stage.name())) {
                    let what = format!("{} is not allowed to be used within an update", stage.name());
                    return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
                }
                Kind::Pipeline(Box::new((pipeline, Run::new(context.clone()))))
            }
            Value::Document(document)
                if document.first().is_some_and(|first| first.name.as_bytes().starts_with(b"$")) =>
            {
                Kind::Operators(parse::operators(document, array_filters, context)?)
            }
            Value::Document(document) => {
                if filters {
                    let what = "arrayFilters may not be specified for replacement-style updates";
                    return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
                }
                check_replacement(document)?;
                Kind::Replace(document.into())
            }
            _ => {
                return Err(Error::new(
                    ErrorCode::FAILED_TO_PARSE,
                    "Update argument must be either an object or an array",
                ));
            }
        };
        Ok(Self { kind })
    }

    /// Whether the update replaces whole documents, which only one document at a time may be.
    #[must_use]
    pub const fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replace(_))
    }

    /// Applies the update to a document. `position` is where the filter matched in an array.
    ///
    /// # Errors
    /// MongoDB's, such as `PathNotViable` (28) and `ImmutableField` (66).
    pub fn apply(&self, document: Document<'_>, position: Option<usize>) -> Result<Updated> {
        let updated = match &self.kind {
            Kind::Replace(new) => replaced(document, new.view())?,
            Kind::Operators(operators) => operators.apply(document, position, false)?,
            Kind::Pipeline(pipeline) => transformed(&pipeline.0, &pipeline.1, document)?,
        };
        check_id(document, updated.document.view())?;
        Ok(updated)
    }

    /// The document that an upsert inserts when nothing matched the filter; its `_id` is `id` where neither the filter
    /// nor the update gives one.
    ///
    /// # Errors
    /// As [`Self::apply`], and `NotSingleValueField` (54) when the filter gives a field two values.
    pub fn insert(&self, filter: &Filter, id: ObjectId) -> Result<DocumentBuf> {
        let document = match &self.kind {
            Kind::Replace(new) => {
                let from_filter = upsert::id_of(filter);
                match (new.view().get("_id"), from_filter) {
                    (Some(new_id), Some(old)) if !compare(&new_id, &old.view()).is_eq() => return Err(immutable()),
                    (Some(_), _) => new.clone(),
                    (None, Some(id)) => with_id(new.view(), id.view()),
                    (None, None) => new.clone(),
                }
            }
            Kind::Operators(operators) => {
                let base = upsert::document_of(filter)?;
                let updated = operators.apply(base.view(), None, true)?.document;
                if let Some(old) = base.view().get("_id")
                    && !updated.view().get("_id").is_some_and(|new| compare(&old, &new).is_eq())
                {
                    return Err(immutable());
                }
                updated
            }
            Kind::Pipeline(pipeline) => {
                let base = upsert::document_of(filter)?;
                transformed(&pipeline.0, &pipeline.1, base.view())?.document
            }
        };
        // The id comes first.
        Ok(match document.view().get("_id") {
            Some(id) => with_id(document.view(), id),
            None => with_id(document.view(), Value::ObjectId(id)),
        })
    }
}

/// The document with an id in front.
fn with_id(document: Document<'_>, id: Value<'_>) -> DocumentBuf {
    if document.first().is_some_and(|first| first.name == "_id") {
        return document.into();
    }
    let mut builder = DocumentBuilder::new();
    builder.append("_id", id);
    // A second one stays, so that the collection refuses it.
    let mut is_first = true;
    let others = document.elements().filter(|element| element.name != "_id" || !std::mem::take(&mut is_first));
    others.for_each(|element| {
        builder.append_element(&element);
    });
    builder.finish()
}

fn immutable() -> Error {
    let what = "Performing an update on the path '_id' would modify the immutable field '_id'";
    Error::new(ErrorCode::IMMUTABLE_FIELD, what)
}

/// Refuses a new document whose id is another one.
fn check_id(old: Document<'_>, new: Document<'_>) -> Result<()> {
    match (old.get("_id"), new.get("_id")) {
        (Some(old), Some(new)) if compare(&old, &new).is_eq() => Ok(()),
        (None, _) => Ok(()),
        _ => Err(immutable()),
    }
}

fn check_replacement(document: Document<'_>) -> Result<()> {
    for element in document {
        if element.name.as_bytes().starts_with(b"$") {
            let name = element.name.to_str_lossy();
            return Err(path::refused_top(&name, &name));
        }
    }
    Ok(())
}

fn replaced(old: Document<'_>, new: Document<'_>) -> Result<Updated> {
    let document = match (new.get("_id"), old.get("_id")) {
        (None, Some(id)) => with_id(new, id),
        _ => new.into(),
    };
    Ok(changed_or_not(old, document))
}

/// A new document, of which it is known only whether it is another one.
fn changed_or_not(old: Document<'_>, document: DocumentBuf) -> Updated {
    let same = document.as_bytes() == old.as_bytes();
    Updated { document, changed: same.then(Vec::new) }
}

fn transformed(pipeline: &Pipeline, run: &Run, old: Document<'_>) -> Result<Updated> {
    let mut rows = pipeline.run(Box::new(std::iter::once(Ok(old.into()))), run)?;
    let new: DocumentBuf = rows.next().transpose()?.unwrap_or_default();
    let new = match (new.view().get("_id"), old.get("_id")) {
        (None, Some(id)) => with_id(new.view(), id),
        _ => new,
    };
    Ok(changed_or_not(old, new))
}
