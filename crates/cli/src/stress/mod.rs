//! `stress`: threads that commit what only seed, thread and number decide, until the process is killed; and the check
//! of what is left.

mod acks;
mod check;
mod plan;
mod soak;
mod tables;
mod writer;

use crate::args::{CommitArgs, DbArgs};
use crate::failure::Usage;
use crate::output::Output;
use crate::store::in_new_or_old;
use acks::Acks;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use soak::{Slope, Soak};
use spinney::{Database, Durability};
use spinney_lab::text::{count, counted, digits};
use spinney_lab::{Clock, progress, signals};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tables::Tables;
use writer::Shared;

/// How often the threads are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Commits of each thread from which on the data does not grow any more.
const FULL: u64 = 6000;
/// Samples of a soak; the first quarter of its time is for caches and allocators to fill.
const SAMPLES: f64 = 200.0;

/// Commit from many threads what can be checked after a crash, or check it
///
/// Each thread makes its commits 1, 2, 3 and so on, in three tables at once, one for each layout: puts, deletes, ranges
/// deleted, values up to 32 KiB, with options so small that flushes, compactions and merges never pause. What a commit
/// does follows from the seed, the thread and its number alone (docs/stress.md), and the data stops growing after some
/// thousand commits. Prints `ACK THREAD NUMBER` after each commit, line by line: a process that is killed has lost none
/// of them. The next run goes on where the database stopped. A database that stress did not begin is refused.
///
/// With --check: shows that the database holds the first commits of each thread whole and unchanged, nothing else, and
/// all that were acknowledged, and that `verify` is clean; else says what is wrong and fails, also when there is
/// nothing to check.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney stress db --seed 7 --threads 4 --seconds 10
  spinney stress db --commits 1000 --durability buffered >> acks
  spinney stress db >> acks & sleep 3; kill -9 $!; spinney stress --check db --acks acks
  spinney stress db --soak --seconds 600 --durability buffered")]
pub(crate) struct StressArgs {
    #[command(flatten)]
    db: DbArgs,
    /// What the contents follow from; a database keeps the one that it was begun with [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Threads that commit; a database keeps the number that it was begun with [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    /// End after so many commits of each thread [default: go on until ctrl-C]
    #[arg(long, value_name = "N", conflicts_with = "check")]
    commits: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "check")]
    seconds: Option<u64>,
    #[command(flatten)]
    commit: CommitArgs,
    /// Instead of acknowledgements print how fast memory, file descriptors and space on disk grow once the data does
    /// not; fail if one does
    #[arg(long, requires = "seconds", conflicts_with_all = ["check", "commits"])]
    soak: bool,
    /// Check the database instead
    #[arg(long)]
    check: bool,
    /// The acknowledgements that --check looks for: what earlier runs printed, one after the other
    #[arg(long, value_name = "FILE", requires = "check")]
    acks: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// What was done.
#[derive(Debug, Serialize)]
struct Summary {
    seed: u64,
    threads: u16,
    commits: u64,
    seconds: f64,
    flushes: u64,
    compactions: u64,
    log_segments_recycled: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    slopes: Option<Vec<Slope>>,
}

/// Commits or checks.
pub(crate) fn run(args: &StressArgs, out: &mut Output) -> Result<()> {
    if args.check {
        return check::run(args, out);
    }
    let durability = args.commit.durability.into();
    if durability == Durability::Interval {
        bail!(Usage(
            "a killed process may lose commits with --durability interval, so none could be acknowledged: use sync or buffered"
                .to_owned()
        ));
    }
    let log = (args.commit.log_compression.into(), args.commit.log_padding.into());
    let summary = in_new_or_old(&args.db, tables::options(log), |db| stress(db, args, durability))?;
    if args.json {
        out.json_line(&summary)?;
    } else {
        writeln!(
            out,
            "{} in {} s: {}/s, {}, {}",
            counted(summary.commits, "commit", "commits"),
            digits(summary.seconds),
            digits(summary.commits as f64 / summary.seconds),
            counted(summary.flushes, "flush", "flushes"),
            counted(summary.compactions, "compaction", "compactions"),
        )?;
        summary.slopes.iter().flatten().try_for_each(|slope| writeln!(out, "{}", slope.line()))?;
    }
    match summary.slopes.iter().flatten().filter(|slope| slope.is_steep()).count() {
        0 => Ok(()),
        _ => bail!("something grows though the data does not"),
    }
}

/// Lets the threads commit until it is enough.
fn stress(db: &Database, args: &StressArgs, durability: Durability) -> Result<Summary> {
    let tables = Tables::create(db, args)?;
    let threads = tables.plan.threads;
    let shared = Shared {
        db,
        tables: &tables,
        durability,
        acks: if args.soak { None } else { Some(Acks::stdout()?) },
        commits: args.commits.unwrap_or(u64::MAX),
        stop: signals::stop()?,
        done: AtomicU64::new(0),
    };
    let bar = match args.commits {
        Some(commits) => progress::bar(commits.saturating_mul(threads.into()), "stress", "commits"),
        None => progress::wheel("stress"),
    };
    let clock = Clock::real();
    let (done, slopes) = thread::scope(|scope| {
        let shared = &shared;
        let spawn = |thread| thread::Builder::new().spawn_scoped(scope, move || shared.work(thread));
        let (workers, refused): (Vec<_>, Vec<_>) = (0..threads).map(spawn).partition(Result::is_ok);
        if !refused.is_empty() {
            shared.stop.ask();
        }
        let workers: Vec<_> = workers.into_iter().flatten().collect();
        let watched = watch(args, shared, &bar, &clock, || workers.iter().all(thread::ScopedJoinHandle::is_finished));
        shared.stop.ask();
        let joined: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))))
            .collect();
        let refused = refused.into_iter().map(|thread| thread.map(drop).context("cannot start a thread"));
        // One failure is told, of whichever thread: the others end with it.
        (refused.chain(joined).collect::<Result<()>>(), watched)
    });
    bar.finish_and_clear();
    let commits = shared.done.load(Ordering::Relaxed);
    done.map_err(|error| error.context(format!("{} before", counted(commits, "commit", "commits"))))?;
    let stats = db.stats();
    Ok(Summary {
        seed: tables.plan.seed,
        threads,
        commits,
        seconds: clock.now().as_secs_f64(),
        flushes: stats.flush.flushes,
        compactions: stats.flush.compactions,
        log_segments_recycled: stats.log.segments_recycled,
        slopes: slopes?,
    })
}

/// Shows progress, and takes the samples of a soak, until the time is over, somebody asks to stop, or the threads have
/// ended.
fn watch(
    args: &StressArgs,
    shared: &Shared<'_>,
    bar: &ProgressBar,
    clock: &Clock,
    ended: impl Fn() -> bool,
) -> Result<Option<Vec<Slope>>> {
    let seconds = args.seconds.map_or(f64::INFINITY, |seconds| seconds as f64);
    let full = if args.soak { FULL * u64::from(shared.tables.plan.threads) } else { 0 };
    let dirs = [Some(args.db.path.clone()), args.db.log_dir.clone()].into_iter().flatten().collect();
    let mut soak = if args.soak { Some(Soak::new(dirs)?) } else { None };
    let (mut began, mut next) = (None, seconds / 4.0);
    while !ended() && !shared.stop.asked() {
        clock.sleep(LOOK);
        let done = shared.done.load(Ordering::Relaxed);
        bar.set_position(done);
        bar.set_message(format!("{} commits", count(done)));
        if done < full {
            continue;
        }
        // The time of a soak begins when the data is as large as it will be.
        let now = clock.now().as_secs_f64();
        let passed = now - *began.get_or_insert(now);
        if let Some(soak) = soak.as_mut().filter(|_| passed >= next) {
            soak.sample(passed)?;
            next += seconds / SAMPLES;
        }
        if passed >= seconds {
            break;
        }
    }
    Ok(soak.and_then(|soak| soak.slopes()))
}
