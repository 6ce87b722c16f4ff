//! `salvage`: a damaged redo log is cut at the damage.

use crate::args::SalvageArgs;
use crate::output::Output;
use anyhow::Result;
use spinney::base::num::u64_of;
use spinney::{Database, SalvageMode, SalvageReport};
use spinney_lab::text::{bytes, counted};
use std::io::Write as _;

/// Salvages, and prints what is lost.
pub(crate) fn run(args: &SalvageArgs, out: &mut Output) -> Result<()> {
    let mode = if args.dry_run { SalvageMode::Report } else { SalvageMode::Repair };
    let report = Database::salvage(&args.db, mode)?;
    if args.json { out.json(&report) } else { print(&report, mode, args.verbose, out) }
}

fn print(report: &SalvageReport, mode: SalvageMode, verbose: bool, out: &mut Output) -> Result<()> {
    let (kept, lost) = match mode {
        SalvageMode::Report => ("would be kept", "would be given up"),
        SalvageMode::Repair => ("kept", "given up"),
    };
    let commits = |count| counted(count, "commit", "commits");
    writeln!(out, "{}", report.damage)?;
    writeln!(out, "the log was known to be durable up to position {}", report.durable)?;
    writeln!(out, "{kept}: {} in the log, up to position {}", commits(report.kept_commits), report.end)?;
    writeln!(
        out,
        "{lost}: {} that can still be read, and {} that cannot",
        commits(report.lost_commits),
        bytes(report.unreadable_bytes)
    )?;
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
