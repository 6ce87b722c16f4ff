//! `shell`: commands on one database, typed on a terminal or from stdin.
//!
//! # Invariants
//! 1. A command that fails changes nothing but what the same command of the command line would.
//! 2. A batch ends at the first command that fails, unless told otherwise, and tells its line.
//! 3. What was committed stays; a transaction that is open when the shell ends is rolled back.

pub(crate) mod args;
mod line;
mod prompt;
mod session;
mod words;

use crate::failure;
use crate::output::Output;
use crate::store::with_db;
use anyhow::{Context as _, Result, anyhow, bail};
use args::ShellArgs;
use prompt::{Prompt, Typed};
use session::{Session, Then};
use spinney::Database;
use spinney_lab::{Stop, signals};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::atomic::Ordering;

/// Runs commands until the end of stdin.
pub(crate) fn run(args: &ShellArgs, out: &mut Output) -> Result<()> {
    let stop = signals::stop()?;
    out.set_lines_only();
    with_db(&args.db, |db| {
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            converse(args, db, &stop, out)
        } else {
            run_batch(args, db, &stop, out)
        }
    })
}

/// Runs what is typed.
fn converse(args: &ShellArgs, db: &Database, stop: &Stop, out: &mut Output) -> Result<()> {
    let mut prompt = Prompt::new(args, db)?;
    let mut session = Session::new(db, &args.db.path, stop);
    let name = db.path().file_name().map_or_else(|| "spinney".to_owned(), |name| name.to_string_lossy().into_owned());
    loop {
        let mark = if session.is_in_transaction() { '*' } else { '>' };
        let line = match prompt.read(&format!("{}{mark} ", crate::escape::one_line(&name)))? {
            Typed::Line(line) => line,
            Typed::Cleared => continue,
            Typed::End => break,
        };
        let ran = session.run(&line, out);
        out.flush()?;
        // What was interrupted is over.
        stop.flag().store(false, Ordering::Relaxed);
        match ran {
            Ok(Then::GoOn) => {}
            Ok(Then::End) => break,
            Err(error) => eprintln!("{}", failure::message(&error)),
        }
    }
    if session.is_in_transaction() {
        eprintln!("the transaction was rolled back");
    }
    prompt.save()
}

/// Runs the lines of stdin.
fn run_batch(args: &ShellArgs, db: &Database, stop: &Stop, out: &mut Output) -> Result<()> {
    let mut session = Session::new(db, &args.db.path, stop);
    let (mut failed, mut number) = (0_u64, 0_u64);
    for line in io::stdin().lock().lines() {
        number += 1;
        let line = line.with_context(|| format!("line {number}"))?;
        match session.run(&line, out).and_then(|then| stop.check().map(|()| then).map_err(Into::into)) {
            Ok(Then::GoOn) => {}
            Ok(Then::End) => break,
            Err(error) if !args.keep_going || stop.asked() || failure::reader_left(&error) => {
                return Err(error.context(format!("line {number}")));
            }
            Err(error) => {
                // In the order in which they come.
                out.flush()?;
                eprintln!("spinney: line {number}: {}", failure::message(&error));
                failed += 1;
            }
        }
    }
    if session.is_in_transaction() {
        return Err(anyhow!("the input ended within a transaction, which was rolled back"));
    }
    match failed {
        0 => Ok(()),
        1 => bail!("1 command failed"),
        failed => bail!("{failed} commands failed"),
    }
}
