//! `doc find` and `doc aggregate`, and what other commands about documents share.

use super::args::{AggregateArgs, CollectionArgs, FindArgs, QueryArgs};
use crate::failure::Usage;
use crate::output::Output;
use crate::store::{look, with_db};
use anyhow::{Context as _, Result, anyhow, bail};
use spinney_document::bson::{Document, DocumentBuf, Value};
use spinney_document::collation::Collation;
use spinney_document::expr::Context;
use spinney_document::path::Sort;
use spinney_document::plan::{Hint, Query};
use spinney_document::projection::{Projection, Use};
use spinney_document::query::Filter;
use spinney_document::{Collection, Database};
use std::io::Write as _;

/// The document that an argument is.
pub(super) fn json_of(what: &str, text: &str) -> Result<DocumentBuf> {
    DocumentBuf::from_json(text).map_err(|error| anyhow!(Usage(format!("{what}: {}", error.message()))))
}

/// The collection that the arguments name, which is only read.
pub(super) fn look_at<T>(args: &CollectionArgs, work: impl FnOnce(&Database, &Collection) -> Result<T>) -> Result<T> {
    look(&args.db, |engine| {
        let db = Database::with_engine(engine.clone())?;
        work(&db, &existing(&db, &args.namespace)?)
    })
}

/// The collection with a name.
pub(super) fn existing(db: &Database, namespace: &str) -> Result<Collection> {
    let found = db.collection(namespace)?;
    found.ok_or_else(|| anyhow!("{} has no collection {namespace}", db.engine().path().display()))
}

/// The constants of a query over a collection that begins now.
pub(super) fn context(db: &Database, collection: &Collection) -> Context {
    Context::new(db.environment().now_ms()).collated(collection.schema().options.collation.clone())
}

/// The query of arguments over a collection, whose strings are compared as they or the collection say.
pub(super) fn query_of(args: &QueryArgs, db: &Database, collection: &Collection) -> Result<Query> {
    let mut context = context(db, collection);
    if let Some(text) = &args.collation {
        context.collation = Collation::parse(&Value::Document(json_of("--collation", text)?.view()))?;
    }
    let context = &context;
    let mut query = Query::new(Filter::parse(json_of("FILTER", &args.filter)?.view(), context)?);
    query.collation.clone_from(&context.collation);
    if let Some(sort) = &args.sort {
        query.sort = Some(Sort::parse(json_of("--sort", sort)?.view(), context.collation.as_ref())?);
    }
    if let Some(projection) = &args.projection {
        query.projection = Some(Projection::parse(json_of("--projection", projection)?.view(), Use::Find, context)?);
    }
    (query.skip, query.limit) = (args.skip, args.limit);
    query.hint = args.hint.clone().map(Hint::Name);
    Ok(query)
}

/// Prints a document on a line.
pub(super) fn print(document: Document<'_>, canonical: bool, out: &mut Output) -> Result<()> {
    let text = if canonical { document.to_canonical_json() } else { document.to_json() };
    Ok(writeln!(out, "{text}")?)
}

/// Prints the documents that match a filter.
pub(super) fn find(args: &FindArgs, out: &mut Output) -> Result<()> {
    look_at(&args.query.collection, |db, collection| {
        let query = query_of(&args.query, db, collection)?;
        for document in collection.find(query)? {
            print(document?.view(), args.canonical, out)?;
        }
        Ok(())
    })
}

/// Prints the documents that a pipeline gives.
pub(super) fn aggregate(args: &AggregateArgs, out: &mut Output) -> Result<()> {
    let wrapped = json_of("PIPELINE", &format!("{{\"stages\":{}}}", args.pipeline))?;
    let Some(Value::Array(stages)) = wrapped.view().get("stages") else {
        bail!(Usage("PIPELINE: an array of stages is needed".to_owned()));
    };
    let writes = stages.values().any(|stage| {
        let first = stage.as_document().and_then(Document::first);
        first.is_some_and(|first| first.name == "$out" || first.name == "$merge")
    });
    let work = |engine: &spinney::Database| {
        let db = Database::with_engine(engine.clone())?;
        let rows = db.aggregate_on(&args.collection.namespace, stages, Default::default());
        for document in rows.with_context(|| args.collection.namespace.clone())? {
            print(document?.view(), args.canonical, out)?;
        }
        Ok(())
    };
    if writes { with_db(&args.collection.db, work) } else { look(&args.collection.db, work) }
}
