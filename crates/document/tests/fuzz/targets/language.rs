//! Filters, updates, projections, expressions and pipelines: any document is refused or read, and what is read gives
//! for any document an error or an answer with the properties that all answers have.

use spinney_document::aggregate::{self, Memory, Run};
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, ObjectId, Value, ValueBuf};
use spinney_document::expr::{self, Context, Val};
use spinney_document::path::Path;
use spinney_document::path::collect::collect;
use spinney_document::projection::{Projection, Use};
use spinney_document::query::bounds::Held;
use spinney_document::query::{Bounds, Filter};
use spinney_document::update::Update;

/// What the stages of a pipeline may keep.
const MEMORY_BYTES: usize = 4 << 20;

/// The documents of a pipeline that are looked at.
const ROWS: usize = 100;

/// The paths whose bounds are checked.
const PATHS: [&str; 4] = ["a", "b", "a.b", "a.0"];

fn context() -> Context {
    let mut context = Context::new(1_700_000_000_123);
    context.seed = 7;
    context
}

/// The input: a filter, and documents.
pub(super) fn filter(input: &[u8]) -> bool {
    let (documents, all) = super::split(input);
    let Some((spec, documents)) = documents.split_first() else { return false };
    let Ok(filter) = Filter::parse(*spec, &context()) else { return false };
    let not = around("$nor", *spec);
    // A nesting that is one level too deep is refused.
    let (not, same) = (Filter::parse(not.view(), &context()), around("$and", *spec));
    let same = Filter::parse(same.view(), &context());
    for document in documents {
        let Ok(matched) = filter.matches(*document) else { continue };
        if let Ok(not) = &not {
            assert_eq!(not.matches(*document).ok(), Some(!matched), "$nor: {}", spec.to_json());
        }
        if let Ok(same) = &same {
            assert_eq!(same.matches(*document).ok(), Some(matched), "$and: {}", spec.to_json());
        }
        assert_eq!(filter.matches_at(*document).expect("it matched before").0, matched);
        if matched {
            check_bounds(&filter, *spec, *document);
        }
    }
    all
}

fn around(operator: &str, filter: Document<'_>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.open_array(operator).push(filter).close();
    builder.finish()
}

/// A document that matches has a value within the bounds that the filter implies for a path.
fn check_bounds(filter: &Filter, spec: Document<'_>, document: Document<'_>) {
    for path in PATHS.map(Path::new) {
        let bounds = Bounds::of(filter.root(), &path, Held { multikey: true, collation: None });
        let mut within = false;
        collect(document, path.parts(), &mut |value| within |= bounds.contains(&value));
        assert!(within, "{} at {path:?} of {}: {bounds:?}", spec.to_json(), document.to_json());
    }
}

/// The input: `{u: UPDATE, f: ARRAY FILTERS}`, a filter for upserts, and documents.
pub(super) fn update(input: &[u8]) -> bool {
    let (documents, all) = super::split(input);
    let [spec, filter, documents @ ..] = &documents[..] else { return false };
    let Some(change) = spec.get("u") else { return false };
    let filters = spec.get("f").and_then(|filters| filters.as_array());
    let Ok(update) = Update::parse(change, filters, &context()) else { return false };
    if let Ok(filter) = Filter::parse(*filter, &context())
        && let Ok(inserted) = update.insert(&filter, ObjectId::from_bytes([1; 12]))
    {
        super::check_made(&inserted);
        assert!(inserted.view().first().is_some_and(|first| first.name == "_id"), "{inserted:?}");
    }
    for document in documents {
        for position in [None, Some(0), Some(7)] {
            let Ok(updated) = update.apply(*document, position) else { continue };
            super::check_made(&updated.document);
            let same = updated.document.as_bytes() == document.as_bytes();
            assert!(updated.is_modified() || same, "{}: {:?}", spec.to_json(), updated.document);
        }
    }
    all
}

/// The input: a projection, and documents.
pub(super) fn projection(input: &[u8]) -> bool {
    let (documents, all) = super::split(input);
    let Some((spec, documents)) = documents.split_first() else { return false };
    let mut read = false;
    for used_in in [Use::Find, Use::Pipeline] {
        let Ok(projection) = Projection::parse(*spec, used_in, &context()) else { continue };
        read = true;
        for document in documents {
            for position in [None, Some(1)] {
                let Ok(made) = projection.apply(*document, position) else { continue };
                super::check_made(&made);
                let same = made.as_bytes() == document.as_bytes();
                assert!(!projection.is_identity() || same, "{}", spec.to_json());
            }
        }
    }
    if let Ok(added) = Projection::of_added(*spec, &context()) {
        documents.iter().filter_map(|document| added.apply(*document, None).ok()).for_each(|made| {
            super::check_made(&made);
        });
    }
    all && read
}

/// The input: `{e: EXPRESSION}`, and documents.
pub(super) fn expression(input: &[u8]) -> bool {
    let (documents, all) = super::split(input);
    let Some((spec, documents)) = documents.split_first() else { return false };
    let Some(value) = spec.get("e") else { return false };
    let Ok(expression) = expr::parse(value, &context()) else { return false };
    for document in documents {
        let Ok(value) = expression.of(*document) else { continue };
        check_value(&value);
        assert_eq!(expression.test(*document).ok(), Some(value.truth()), "{}", spec.to_json());
    }
    all
}

fn check_value(value: &Val<'_>) {
    if let Some(value) = value.view() {
        let mut builder = DocumentBuilder::new();
        builder.append("v", ValueBuf::from(value).view());
        super::check_made(&builder.finish());
    }
}

/// The input: `{p: PIPELINE}`, and documents.
pub(super) fn pipeline(input: &[u8]) -> bool {
    let (documents, all) = super::split(input);
    let Some((spec, documents)) = documents.split_first() else { return false };
    let Some(Value::Array(stages)) = spec.get("p") else { return false };
    let Ok(pipeline) = aggregate::parse(stages, &context()) else { return false };
    let run = Run { memory: Memory::new(MEMORY_BYTES).into(), ..Run::new(context()) };
    let input: Vec<DocumentBuf> = documents.iter().map(|document| DocumentBuf::from(*document)).collect();
    let Ok(rows) = pipeline.run(Box::new(input.into_iter().map(Ok)), &run) else { return false };
    for row in rows.take(ROWS) {
        let Ok(row) = row else { break };
        super::check_made(&row);
    }
    all
}
