//! `stress`: threads that commit what only seed, thread and number decide, until the process is killed; and the check
//! of what is left.

mod acks;
mod args;
mod check;
mod plan;
mod soak;
mod tables;
mod writer;

pub(crate) use args::StressArgs;

use crate::failure::Usage;
use crate::output::Output;
use crate::store::in_new_or_old;
use acks::Acks;
use anyhow::{Context as _, Result, anyhow, bail};
use indicatif::ProgressBar;
use serde::Serialize;
use soak::{Slope, Soak};
use spinney::{Database, Durability};
use spinney_lab::text::{count, counted, digits};
use spinney_lab::{Clock, progress, signals};
use std::io::Write as _;
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
    let options = tables::options(args.commit.log_compression.into());
    let summary = in_new_or_old(&args.db, options, |db| stress(db, args, durability))?;
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
