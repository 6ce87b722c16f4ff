//! `doc import`: a file of documents into a collection.

use super::args::{FormatArg, ImportArgs};
use super::documents::Documents;
use crate::failure::Incomplete;
use crate::input::Input;
use crate::output::Output;
use crate::store::{in_new_or_old, refuse_member, show};
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::json;
use spinney::Options;
use spinney_document::bson::DocumentBuf;
use spinney_document::collection::WriteOptions;
use spinney_document::{Collection, Database};
use spinney_lab::text::{counted, digits};
use spinney_lab::{Stopwatch, progress, signals};
use std::io::Write as _;

/// Documents that are inserted at once.
const BATCH: usize = 1000;

/// What became of the documents.
#[derive(Default)]
struct Imported {
    inserted: u64,
    replaced: u64,
    left_out: u64,
    first_left_out: Option<String>,
}

pub(super) fn run(args: &ImportArgs, out: &mut Output) -> Result<()> {
    let format = args.format.or_else(|| FormatArg::of(&args.file));
    let binary = format == Some(FormatArg::Bson);
    let input = if binary { Input::open_bytes(&args.file)? } else { Input::open(&args.file)? };
    let (position, total) = (input.position(), input.total_bytes().unwrap_or(0));
    let mut documents = Documents::open(&args.file, format, input)?;
    let stop = signals::stop()?;
    let watch = Stopwatch::start();
    let bar = progress::byte_bar(0, "import");
    bar.set_draw_target(ProgressDrawTarget::hidden());
    let imported = in_new_or_old(&args.collection.db, Options::default(), |engine| {
        refuse_member(engine)?;
        let db = Database::with_engine(engine.clone())?;
        let collection = db.collection_or_create(&args.collection.namespace)?;
        let tell = |bar: &ProgressBar| show(bar, position.get(), total.max(position.get()));
        let mut imported = Imported::default();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let read = imported.inserted + imported.replaced + imported.left_out;
            let next = documents.next().with_context(|| format!("{}: {read} documents were read", args.file.display()));
            let document = match next {
                Ok(document) => document,
                Err(error) => {
                    // What was read before is kept.
                    imported.put(&collection, &mut batch, args)?;
                    return Err(error);
                }
            };
            let ended = document.is_none() || stop.asked();
            batch.extend(document);
            if ended || batch.len() == BATCH {
                imported.put(&collection, &mut batch, args)?;
                tell(&bar);
            }
            if ended {
                stop.check()?;
                return Ok(imported);
            }
        }
    });
    bar.finish_and_clear();
    print(args, &imported?, watch.elapsed().as_secs_f64(), out)
}

impl Imported {
    fn put(&mut self, collection: &Collection, batch: &mut Vec<DocumentBuf>, args: &ImportArgs) -> Result<()> {
        let options = WriteOptions { durability: Some(args.durability.into()), ..WriteOptions::default() };
        if args.replace {
            for document in batch.drain(..) {
                self.replace(collection, &document, options)?;
            }
            return Ok(());
        }
        let done = collection.insert_many(batch.iter().map(DocumentBuf::view), false, options)?;
        self.inserted += u64::try_from(done.inserted).unwrap_or(u64::MAX);
        self.left_out += u64::try_from(done.errors.len()).unwrap_or(u64::MAX);
        if let Some((_, error)) = done.errors.first() {
            self.first_left_out.get_or_insert_with(|| error.message().to_owned());
        }
        batch.clear();
        Ok(())
    }

    fn replace(&mut self, collection: &Collection, document: &DocumentBuf, options: WriteOptions) -> Result<()> {
        let view = document.view();
        let replaced = match view.get("_id") {
            Some(id) => collection.replace_by_id(id, view)?.0,
            None => false,
        };
        if replaced {
            self.replaced += 1;
        } else {
            collection.insert_one_with(view, options)?;
            self.inserted += 1;
        }
        Ok(())
    }
}

fn print(args: &ImportArgs, imported: &Imported, seconds: f64, out: &mut Output) -> Result<()> {
    let Imported { inserted, replaced, left_out, first_left_out } = imported;
    if args.json {
        out.json_line(&json!({
            "inserted": inserted, "replaced": replaced, "left_out": left_out, "first_left_out": first_left_out,
            "seconds": seconds,
        }))?;
    } else {
        let rate = digits((inserted + replaced) as f64 / seconds.max(1e-9));
        let what = counted(inserted + replaced, "document", "documents");
        writeln!(
            out,
            "imported {what} into {} in {} s: {rate} documents/s",
            args.collection.namespace,
            digits(seconds)
        )?;
        if *replaced > 0 {
            writeln!(out, "{} of them replaced others", counted(*replaced, "document", "documents"))?;
        }
    }
    if *left_out > 0 {
        let first = first_left_out.as_deref().unwrap_or_default();
        bail!(Incomplete(format!(
            "{} left out; the first: {first}",
            counted(*left_out, "document was", "documents were")
        )));
    }
    Ok(())
}
