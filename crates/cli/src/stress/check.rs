//! The check after a crash: what is there must be the first commits of each thread, whole, and all that were
//! acknowledged.

use super::acks;
use super::args::StressArgs;
use super::plan::{JOURNAL, LAST, Work, Written, key};
use super::tables::{self, Tables, number};
use crate::output::Output;
use crate::store::{close_after, opened};
use anyhow::{Result, bail};
use serde::Serialize;
use spinney::{Database, LogCompression, Snapshot, Table};
use spinney_lab::progress;
use spinney_lab::text::{count, counted};
use std::collections::BTreeMap;
use std::io::Write as _;

/// More wrong entries of a table than these are only counted.
const WRONG_MAX: usize = 8;

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Report {
    seed: Option<u64>,
    threads: Vec<Thread>,
    problems: Vec<String>,
}

/// What was found of one thread.
#[derive(Debug, Serialize)]
struct Thread {
    commits: u64,
    acknowledged: u64,
}

/// Checks a database; fails if something is wrong.
pub(super) fn run(args: &StressArgs, out: &mut Output) -> Result<()> {
    let acknowledged = args.acks.as_deref().map(acks::read).transpose()?.unwrap_or_default();
    let wheel = progress::wheel("check");
    let db = opened(&args.db, tables::options(LogCompression::Off), false)?;
    let report = close_after(db, |db| check(db, args, &acknowledged));
    wheel.finish_and_clear();
    let report = report?;
    if args.json {
        out.json(&report)?;
    } else {
        for (thread, found) in report.threads.iter().enumerate() {
            let (commits, acknowledged) = (counted(found.commits, "commit", "commits"), count(found.acknowledged));
            writeln!(out, "thread {thread}: {commits}, {acknowledged} acknowledged")?;
        }
        report.problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
    }
    match report.problems.len() {
        0 if report.seed.is_none() => {
            bail!("{} was not begun by stress: there is nothing to check", args.db.path.display())
        }
        0 => Ok(()),
        n => bail!(
            "{} is not as its commits left it: {}",
            args.db.path.display(),
            counted(n as u64, "problem", "problems")
        ),
    }
}

fn check(db: &Database, args: &StressArgs, acknowledged: &BTreeMap<u16, u64>) -> Result<Report> {
    let problems = db.verify()?.problems.iter().map(ToString::to_string).collect();
    let mut report = Report { problems, ..Report::default() };
    let snapshot = db.snapshot();
    let tables = Tables::find(db, args)?;
    let (seed, threads) = tables.as_ref().map_or((0, 0), |tables| (tables.plan.seed, tables.plan.threads));
    report.seed = tables.as_ref().map(|tables| tables.plan.seed);
    let mut written = Vec::new();
    for thread in 0..threads {
        let Some(tables) = &tables else { continue };
        let last = tables.last(&snapshot, thread)?;
        if last != [last[0]; 3] {
            let names = tables.all().map(|table| table.name().to_owned()).join(", ");
            report.problems.push(format!("thread {thread}: the last commits in {names} are {last:?}"));
        }
        let commits = last.into_iter().max().unwrap_or(0);
        let acknowledged = acknowledged.get(&thread).copied().unwrap_or(0);
        report.threads.push(Thread { commits, acknowledged });
        written.push(Written::after(seed, thread, commits));
    }
    for (thread, commit) in acknowledged {
        let commits = written.get(usize::from(*thread)).map_or(0, |written| written.commits);
        if *commit > commits {
            let lost =
                format!("thread {thread}: commit {commit} was acknowledged, and the last one there is {commits}");
            report.problems.push(lost);
        }
    }
    if let Some(tables) = &tables {
        let slots = expected(&written, |written| {
            let filled = (0..).zip(&written.slots).filter(|(_, commit)| **commit > 0);
            filled.map(|(slot, commit)| (slot, Value { commit: *commit, slot })).collect()
        });
        let journal = expected(&written, |written| {
            written.journal().map(|commit| (commit, Value { commit, slot: JOURNAL })).collect()
        });
        for (table, expected) in tables.all().into_iter().zip([&slots, &slots, &journal]) {
            compare(seed, table, &snapshot, expected.clone(), &mut report.problems)?;
        }
    }
    Ok(report)
}

/// A value as the commit that wrote it.
#[derive(Clone, Copy, Debug)]
struct Value {
    commit: u64,
    /// [`LAST`] for the number alone.
    slot: u64,
}

/// The entries of a table: those of `of`, and the number of the last commit of each thread.
fn expected(written: &[Written], of: impl Fn(&Written) -> Vec<(u64, Value)>) -> BTreeMap<Vec<u8>, (u16, Value)> {
    let mut entries = BTreeMap::new();
    for (thread, written) in (0..).zip(written).filter(|(_, written)| written.commits > 0) {
        let last = (LAST, Value { commit: written.commits, slot: LAST });
        entries
            .extend(of(written).into_iter().chain([last]).map(|(place, value)| (key(thread, place), (thread, value))));
    }
    entries
}

/// Compares a table with what it must hold.
fn compare(
    seed: u64,
    table: &Table,
    snapshot: &Snapshot,
    mut expected: BTreeMap<Vec<u8>, (u16, Value)>,
    problems: &mut Vec<String>,
) -> Result<()> {
    let mut wrong = Vec::new();
    for entry in snapshot.range(table, ..) {
        let (key, found) = entry?;
        let place = place(&key);
        match expected.remove(&key) {
            None => wrong.push(format!("{place} should not be there (a value of commit {})", number(&found))),
            Some((thread, value)) if *found != *bytes(seed, thread, value) => {
                let (found, expected) = (number(&found), value.commit);
                wrong.push(format!("{place} has a value of commit {found}, not what commit {expected} put"));
            }
            Some(_) => {}
        }
    }
    wrong.extend(
        expected.iter().map(|(key, (_, value))| format!("{} is missing (commit {})", place(key), value.commit)),
    );
    let more = wrong.len().saturating_sub(WRONG_MAX);
    wrong.truncate(WRONG_MAX);
    if more > 0 {
        wrong.push(format!("{more} more wrong entries"));
    }
    problems.extend(wrong.into_iter().map(|what| format!("{}: {what}", table.name())));
    Ok(())
}

/// The bytes of a value.
fn bytes(seed: u64, thread: u16, value: Value) -> Vec<u8> {
    match value.slot {
        LAST => value.commit.to_le_bytes().to_vec(),
        slot => Work::new(seed, thread, value.commit).value(slot),
    }
}

/// A key in words.
fn place(key: &[u8]) -> String {
    let Some((thread, place)) = key.split_first_chunk() else { return format!("key {}", key.escape_ascii()) };
    match place.try_into().map(u64::from_be_bytes) {
        Ok(LAST) => format!("thread {}, its last commit", u16::from_be_bytes(*thread)),
        Ok(place) => format!("thread {}, place {place}", u16::from_be_bytes(*thread)),
        Err(_) => format!("key {}", key.escape_ascii()),
    }
}
