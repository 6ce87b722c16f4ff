//! `doc explain`: the plan of a query as a tree.

use super::args::ExplainArgs;
use super::query::{json_of, look_at, query_of};
use crate::output::Output;
use anyhow::Result;
use spinney_document::bson::{Document, DocumentBuf, Value};
use spinney_document::plan::explain::{Executed, Shown, stages, stats};
use spinney_lab::Stopwatch;
use spinney_lab::text::{count, digits};
use std::io::Write as _;

/// What of a stage is told beside its name and what is below it.
const TOLD: [&str; 11] = [
    "filter",
    "indexName",
    "collation",
    "keyPattern",
    "indexBounds",
    "direction",
    "sortPattern",
    "limitAmount",
    "skipAmount",
    "transformBy",
    "merged",
];

pub(super) fn run(args: &ExplainArgs, out: &mut Output) -> Result<()> {
    let document = |what: &str, text: Option<&String>| json_of(what, text.map_or("{}", String::as_str));
    let (filter, sort) = (json_of("FILTER", &args.query.filter)?, document("--sort", args.query.sort.as_ref())?);
    let projection = document("--projection", args.query.projection.as_ref())?;
    let shown = Shown { filter: filter.view(), sort: sort.view(), projection: projection.view() };
    look_at(&args.query.collection, |db, collection| {
        let watch = Stopwatch::start();
        let mut execution = collection.find(query_of(&args.query, db, collection)?)?;
        let mut returned = 0;
        while execution.advance()?.is_some() {
            returned += 1;
        }
        let seconds = watch.elapsed().as_secs_f64();
        let executed = Executed {
            returned,
            keys: execution.counts().keys.get(),
            documents: execution.counts().documents.get(),
            millis: u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        if args.json {
            let tree = stages(execution.plan(), execution.query(), shown, Some(executed));
            return Ok(writeln!(out, "{}", stats(&tree, executed).view().to_json())?);
        }
        let tree = stages(execution.plan(), execution.query(), shown, None);
        print_stage(tree.view(), "", "", out)?;
        writeln!(
            out,
            "\n{} returned, {} entries of indexes and {} documents looked at, in {} ms",
            count(returned),
            count(executed.keys),
            count(executed.documents),
            digits(seconds * 1000.0)
        )?;
        Ok(())
    })
}

/// Prints a stage, and those that it takes documents from below it.
fn print_stage(stage: Document<'_>, head: &str, indent: &str, out: &mut Output) -> Result<()> {
    let text = |name: &str| {
        stage.get(name).map(|value| match value {
            Value::String(text) => text.to_str_lossy().into_owned(),
            other => other.to_json(),
        })
    };
    writeln!(out, "{head}{}", text("stage").unwrap_or_default())?;
    let below: Vec<DocumentBuf> = match (stage.get("inputStage"), stage.get("inputStages")) {
        (Some(Value::Document(input)), _) => vec![input.into()],
        (_, Some(Value::Array(inputs))) => {
            inputs.values().filter_map(|input| input.as_document()).map(DocumentBuf::from).collect()
        }
        _ => Vec::new(),
    };
    let bar = if below.is_empty() { "  " } else { "│ " };
    for name in TOLD {
        if let Some(text) = text(name) {
            writeln!(out, "{indent}{bar}{name} {text}")?;
        }
    }
    for (at, input) in below.iter().enumerate() {
        let (branch, next) = if at + 1 == below.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        print_stage(input.view(), &format!("{indent}{branch}"), &format!("{indent}{next}"), out)?;
    }
    Ok(())
}
