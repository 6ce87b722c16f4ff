//! `verify --documents`: documents are compared with their indexes.

use crate::store::show;
use anyhow::Result;
use indicatif::ProgressDrawTarget;
use serde_json::{Value as Json, json};
use spinney::base::num::u64_of;
use spinney_document::catalog::settle::has_documents;
use spinney_document::catalog::{CollectionState, Entry};
use spinney_document::collection::Validation;
use spinney_lab::progress;
use spinney_lab::text::counted;
use std::io::Write;

/// What a comparison of documents with their indexes found.
#[derive(Debug)]
pub(crate) enum Documents {
    /// The database has none.
    None,
    /// It was not asked for.
    NotCompared,
    /// By collection.
    Compared(Vec<Checked>),
    /// The database of documents cannot be opened.
    Unreadable(String),
}

/// What was found in a collection.
#[derive(Debug)]
pub(crate) struct Checked {
    namespace: String,
    found: Result<Validation, String>,
}

impl Documents {
    /// Compares the documents of a database that is open, if that is asked for and there are some.
    pub(crate) fn of(engine: &spinney::Database, is_asked_for: bool) -> Result<Self> {
        // A damaged catalog tells nothing.
        if !has_documents(engine).unwrap_or(true) {
            return Ok(Self::None);
        }
        if !is_asked_for {
            return Ok(Self::NotCompared);
        }
        match spinney_document::Database::with_engine(engine.clone()) {
            Ok(database) => compare(&database).map(Self::Compared),
            Err(error) => Ok(Self::Unreadable(error.to_string())),
        }
    }

    /// How many things are wrong.
    pub(crate) fn problem_count(&self) -> u64 {
        let problems = |checked: &Checked| checked.found.as_ref().map_or(1, |found| found.problem_count);
        match self {
            Self::None | Self::NotCompared => 0,
            Self::Compared(checked) => checked.iter().map(problems).sum(),
            Self::Unreadable(_) => 1,
        }
    }

    /// Prints what is wrong, a line each, and what was compared.
    pub(crate) fn print(&self, db: &str, out: &mut dyn Write) -> Result<()> {
        let checked = match self {
            Self::None => return Ok(()),
            Self::NotCompared => {
                writeln!(out, "documents were not compared with their indexes: spinney verify --documents {db} does")?;
                return Ok(());
            }
            Self::Unreadable(error) => return Ok(writeln!(out, "documents: {error}")?),
            Self::Compared(checked) => checked,
        };
        let (mut documents, mut entries) = (0, 0);
        for Checked { namespace, found } in checked {
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    writeln!(out, "{namespace}: {error}")?;
                    continue;
                }
            };
            for problem in &found.problems {
                writeln!(out, "{namespace}: {problem}")?;
            }
            let more = found.problem_count - u64_of(found.problems.len());
            if more > 0 {
                writeln!(out, "{namespace}: and {} more", counted(more, "problem", "problems"))?;
            }
            for warning in &found.warnings {
                writeln!(out, "{namespace}: warning: {warning}")?;
            }
            documents += found.documents;
            entries += found.entries.iter().map(|(_, entries)| entries).sum::<u64>();
        }
        let collections = counted(u64_of(checked.len()), "collection", "collections");
        let (documents, entries) = (counted(documents, "document", "documents"), counted(entries, "entry", "entries"));
        Ok(writeln!(out, "{collections} compared with their indexes: {documents}, {entries}")?)
    }

    pub(crate) fn json(&self) -> Json {
        match self {
            Self::None | Self::NotCompared => Json::Null,
            Self::Unreadable(error) => json!({ "error": error }),
            Self::Compared(checked) => checked.iter().map(json_of).collect(),
        }
    }
}

fn json_of(checked: &Checked) -> Json {
    match &checked.found {
        Err(error) => json!({ "ns": checked.namespace, "valid": false, "error": error }),
        Ok(found) => json!({
            "ns": checked.namespace,
            "valid": found.is_valid(),
            "documents": found.documents,
            "entries": found.entries.iter().map(|(name, entries)| (name.clone(), json!(entries))).collect::<serde_json::Map<_, _>>(),
            "damaged_indexes": found.damaged_indexes,
            "problem_count": found.problem_count,
            "problems": found.problems,
            "warnings": found.warnings,
        }),
    }
}

/// Compares the documents of all collections with their indexes.
fn compare(database: &spinney_document::Database) -> Result<Vec<Checked>> {
    let entries = database.catalog().list(None);
    let mut total = 0;
    for (_, entry) in &entries {
        if let Entry::Collection(state) = entry {
            total += entries_of(state)?;
        }
    }
    let bar = progress::bar(total, "documents", "entries");
    bar.set_draw_target(ProgressDrawTarget::hidden());
    let (mut checked, mut done) = (Vec::new(), 0);
    for (namespace, entry) in &entries {
        if matches!(entry, Entry::View(_)) {
            continue;
        }
        let mut read = 0;
        let found = database.collection(namespace.as_str()).and_then(|collection| match collection {
            Some(collection) => collection.validate_with(&mut |now| {
                read = now;
                show(&bar, (done + now).min(total), total);
                Ok(())
            }),
            None => Ok(Validation::default()),
        });
        done += read;
        let found = found.map_err(|error| error.to_string());
        checked.push(Checked { namespace: namespace.as_str().to_owned(), found });
    }
    bar.finish_and_clear();
    Ok(checked)
}

/// About how many documents and entries of indexes a collection has.
fn entries_of(state: &CollectionState) -> Result<u64> {
    let schema = state.schema();
    let tables = schema.indexes.iter().map(|index| &index.table).chain([&state.table]);
    let mut total = 0;
    for table in tables {
        total += crate::tables::Size::of(&table.shape()?).entries;
    }
    Ok(total)
}
