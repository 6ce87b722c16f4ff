//! `doc import`: a file of documents into a collection.

use super::args::{FormatArg, ImportArgs};
use super::documents::Documents;
use crate::failure::{self, Incomplete};
use crate::input::Input;
use crate::output::Output;
use crate::store::{in_new_or_old, refuse_member, show};
use anyhow::{Error, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::json;
use spinney::Options;
use spinney_document::bson::DocumentBuf;
use spinney_document::collection::WriteOptions;
use spinney_document::{Collection, Database};
use spinney_lab::text::{count, counted, digits};
use spinney_lab::{Stop, Stopwatch, progress, signals};
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
    /// The last batch failed, and a part of it may be in the database.
    in_doubt: bool,
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
        let mut target = Target { engine, args, collection: None };
        let tell = |bar: &ProgressBar| show(bar, position.get(), total.max(position.get()));
        let mut imported = Imported::default();
        let done = imported.put_all(&mut documents, &mut target, &stop, || tell(&bar));
        done.map_err(|cause| imported.failed(args, cause))?;
        Ok(imported)
    });
    bar.finish_and_clear();
    print(args, &imported?, watch.elapsed().as_secs_f64(), out)
}

/// Where documents go: a collection that is made when the first of them have been read.
struct Target<'a> {
    engine: &'a spinney::Database,
    args: &'a ImportArgs,
    collection: Option<Collection>,
}

impl Target<'_> {
    fn collection(&mut self) -> Result<&Collection> {
        let made = match self.collection.take() {
            Some(collection) => collection,
            None => {
                Database::with_engine(self.engine.clone())?.collection_or_create(&self.args.collection.namespace)?
            }
        };
        Ok(self.collection.insert(made))
    }
}

impl Imported {
    /// Imports all documents; what was read before an error is kept.
    fn put_all(
        &mut self,
        documents: &mut Documents,
        target: &mut Target<'_>,
        stop: &Stop,
        tell: impl Fn(),
    ) -> Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let next = documents.next();
            let ended = !matches!(next, Ok(Some(_))) || stop.asked();
            let read = next.map(|document| batch.extend(document));
            if batch.len() == BATCH || ended && !batch.is_empty() {
                let args = target.args;
                let collection = target.collection()?;
                self.in_doubt = true;
                self.put(collection, &mut batch, args)?;
                self.in_doubt = false;
                tell();
            }
            read?;
            if ended {
                return Ok(stop.check()?);
            }
        }
    }

    /// The error that ended the import, with how far it came.
    fn failed(&self, args: &ImportArgs, cause: Error) -> Error {
        let Self { inserted, replaced, left_out, in_doubt, .. } = self;
        let at_least = if *in_doubt { "at least " } else { "" };
        let imported = counted(inserted + replaced, "document was", "documents were");
        let left_out = if *left_out == 0 { String::new() } else { format!(", {} left out", count(*left_out)) };
        let why = failure::message(&cause);
        cause.context(format!("{}: {why}; {at_least}{imported} imported{left_out}", args.file.display()))
    }

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
    let Imported { inserted, replaced, left_out, first_left_out, .. } = imported;
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
