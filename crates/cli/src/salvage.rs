//! `salvage`: a damaged redo log is cut at the damage, or what can be read of a database is copied.

use crate::args::SalvageArgs;
use crate::check::mended;
use crate::escape::escape;
use crate::failure::Incomplete;
use crate::output::{Output, json_of};
use crate::store::{Directories, refuse_inside, show};
use anyhow::{Result, bail};
use indicatif::ProgressDrawTarget;
use serde_json::{Value as Json, json};
use spinney::base::num::u64_of;
use spinney::{Database, LostRange, SalvageMode, SalvageReport, SalvagedCopy, SalvagedTable};
use spinney_document::repair::{Mended, Salvaged};
use spinney_lab::progress;
use spinney_lab::text::{bytes, counted};
use std::io::Write as _;
use std::path::Path;

/// Salvages, and prints what is lost.
pub(crate) fn run(args: &SalvageArgs, out: &mut Output) -> Result<()> {
    if let Some(copy) = &args.out {
        refuse_inside(copy, &args.db)?;
        return run_copy(&args.db, copy, args.json, out);
    }
    let mode = if args.dry_run { SalvageMode::Report } else { SalvageMode::Repair };
    let report = Database::salvage(&args.db, mode)?;
    let is_cut = mode == SalvageMode::Repair && !report.is_complete();
    if !args.json {
        print(&report, mode, args.verbose, out)?;
    }
    let documents = if is_cut { mended::after(&args.db, Salvaged::InPlace(&report)) } else { Ok(None) };
    if args.json {
        let mut json = serde_json::to_value(&report)?;
        if let Ok(Some(documents)) = &documents {
            json["documents"] = mended::json_of(documents);
        }
        out.json(&json)?;
    }
    let documents = documents?;
    if !args.json {
        documents.iter().try_for_each(|documents| mended::print(documents, out))?;
        print_next_step(args, &report, documents.is_some(), out)?;
    }
    if !report.is_complete() {
        let what = if args.dry_run { "would be lost" } else { "was lost" };
        bail!(Incomplete(format!("something {what} of the redo log of {}", args.db.display())));
    }
    Ok(())
}

/// What to do after a salvage in place.
fn print_next_step(args: &SalvageArgs, report: &SalvageReport, has_documents: bool, out: &mut Output) -> Result<()> {
    let db = args.db.display();
    match (args.dry_run, report.is_complete()) {
        (true, true) => writeln!(out, "next: spinney salvage {db} mends this, and loses nothing")?,
        (true, false) => {
            let copy = format!("spinney salvage {db} OUT copies what can be read to a new database");
            writeln!(out, "next: spinney salvage {db} gives up what is named above; {copy}, and changes nothing")?;
        }
        (false, _) if has_documents => {
            writeln!(out, "next: spinney verify --documents {db} checks the tables and the documents")?;
        }
        (false, _) => writeln!(out, "next: spinney verify {db} checks the tables, which were not read")?,
    }
    Ok(())
}

fn print(report: &SalvageReport, mode: SalvageMode, verbose: bool, out: &mut Output) -> Result<()> {
    let (kept, lost) = match mode {
        SalvageMode::Report => ("would be kept", "would be given up"),
        _ => ("kept", "given up"),
    };
    let commits = |count| counted(count, "commit", "commits");
    writeln!(out, "{}", report.damage)?;
    if let Some(damage) = &report.manifest {
        if *damage != report.damage {
            writeln!(out, "{damage}")?;
        }
        writeln!(out, "the manifest loses nothing: other files tell the same")?;
    }
    if report.durable > report.end {
        writeln!(out, "the log is known to have been durable up to position {}", report.durable)?;
    }
    writeln!(out, "{kept}: {} in the log, up to position {}", commits(report.kept_commits), report.end)?;
    let unreadable = match report.unreadable_bytes {
        Some(0) => String::new(),
        Some(unreadable) => format!(", and {} that cannot", bytes(unreadable)),
        None => ", and an unknown number that cannot: files of the log are missing or cut off".to_owned(),
    };
    if report.is_complete() {
        writeln!(out, "{lost}: nothing")?;
    } else {
        writeln!(out, "{lost}: {} that can still be read{unreadable}", commits(report.lost_commits))?;
    }
    for table in &report.lost {
        writeln!(out, "  table {}: {}", table.name, counted(table.changes, "change", "changes"))?;
    }
    for table in &report.ahead {
        let (name, position) = (&table.name, table.position);
        writeln!(out, "table {name} is ahead: all its changes up to position {position} are in its trees")?;
    }
    if let Some(directory) = report.kept_files.first().and_then(|file| file.parent()) {
        let files = counted(u64_of(report.kept_files.len()), "file", "files");
        writeln!(out, "kept beside: {files} of the log, as they were, in {}", directory.display())?;
    }
    for file in report.kept_files.iter().filter(|_| verbose) {
        writeln!(out, "  {}", file.display())?;
    }
    Ok(())
}

/// Copies, and prints what was copied and what is lost.
fn run_copy(db: &Path, copy: &Path, as_json: bool, out: &mut Output) -> Result<()> {
    let bar = progress::byte_bar(0, "salvage");
    bar.set_draw_target(ProgressDrawTarget::hidden());
    let told = bar.clone();
    let made = Directories::missing([&copy.to_owned()].into_iter());
    let report = Database::builder(db).salvage_to(copy, move |now| show(&told, now.bytes, now.bytes_total));
    bar.finish_and_clear();
    if report.is_err() {
        made.remove();
    }
    let report = report?;
    let documents = mended::after(copy, Salvaged::Copy(&report));
    if as_json {
        out.json(&json_of_copy(&report, documents.as_ref().ok().and_then(Option::as_ref)))?;
    } else {
        print_copy(&report, documents.as_ref().ok().and_then(Option::as_ref), out)?;
    }
    let documents = documents?;
    if !as_json {
        let option = if documents.is_some() { "--documents " } else { "" };
        writeln!(
            out,
            "next: spinney verify {option}{0} checks the copy; if you go on with it, keep {1} until you are sure",
            copy.display(),
            db.display()
        )?;
    }
    if !report.is_complete() || documents.is_some_and(|documents| !documents.is_complete()) {
        bail!(Incomplete(format!("something was lost: {} has what could be read of {}", copy.display(), db.display())));
    }
    Ok(())
}

fn print_copy(report: &SalvagedCopy, documents: Option<&Mended>, out: &mut Output) -> Result<()> {
    // Those of documents are named by collections and `_id`s, below.
    let is_shown = |table: &&SalvagedTable| documents.is_none() || !mended::is_of_documents(&table.name);
    let tables: Vec<_> = report.tables.iter().filter(is_shown).collect();
    if !tables.is_empty() || documents.is_none() {
        let name_width = tables.iter().map(|table| table.name.chars().count()).max().unwrap_or(0).max("table".len());
        writeln!(out, "{:name_width$}  {:>12}  {:>7}", "table", "entries", "damaged")?;
        for table in &tables {
            writeln!(out, "{:name_width$}  {:>12}  {:>7}", table.name, table.entries, table.lost.len())?;
        }
    }
    for table in tables.iter().filter(|table| !table.lost.is_empty()) {
        writeln!(out, "table {}: lost, or older than they were, are the keys", table.name)?;
        for lost in &table.lost {
            writeln!(out, "  {}: {}", keys(lost), lost.damage)?;
        }
    }
    documents.into_iter().try_for_each(|documents| mended::print(documents, out))?;
    if let Some(log) = &report.log {
        let lost = if log.is_complete() { "and nothing of it is lost" } else { "so any key may be older than it was" };
        writeln!(out, "the redo log is damaged, {lost}:")?;
        print(log, SalvageMode::Report, false, out)?;
    }
    if let Some(damage) = &report.manifest {
        writeln!(out, "the manifest is damaged, so any key may be missing or older than it was: {damage}")?;
    }
    if let Some(damage) = &report.mended {
        writeln!(out, "the manifest is damaged, and other files tell the same: {damage}")?;
    }
    Ok(())
}

/// A range of keys as text.
fn keys(lost: &LostRange) -> String {
    let from = if lost.from.is_empty() { "the first".to_owned() } else { escape(&lost.from) };
    match &lost.to {
        Some(to) if *to == lost.from => from,
        Some(to) => format!("{from} to {}", escape(to)),
        None => format!("{from} to the last"),
    }
}

fn json_of_copy(report: &SalvagedCopy, documents: Option<&Mended>) -> Json {
    let lost = |lost: &LostRange| {
        json!({
            "from": json_of(&lost.from),
            "to": lost.to.as_deref().map(json_of),
            "file": lost.file,
            "offset": lost.offset,
            "damage": lost.damage,
        })
    };
    let tables = report.tables.iter().map(|table| {
        json!({ "name": table.name, "entries": table.entries, "lost": table.lost.iter().map(lost).collect::<Vec<_>>() })
    });
    let tables: Vec<_> = tables.collect();
    json!({ "complete": report.is_complete(), "tables": tables, "log": report.log, "manifest": report.manifest, "mended": report.mended, "documents": documents.map(mended::json_of) })
}
