//! Drops, closes and checkpoints in the pauses of jobs: each job is held before one of its calls of the file system,
//! another thread acts, and whatever both wait for comes: the job ends, and so do the other thread, the background and
//! the close.
//!
//! Jobs look from time to time whether their table was dropped or the database closed, and do work for other tables
//! meanwhile; what they find then is what a loop without progress is made of. Nothing here knows of any of these loops:
//! whatever takes longer than [`STUCK`] never ends.

#![expect(clippy::disallowed_methods, reason = "a thread that never ends must not be waited for")]

use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::base::{ErrorKind, Result};
use crate::db::jobs::job::{Job as _, JobContext};
use crate::db::jobs::run_merge::relieve_l0;
use crate::db::jobs::sorted_view::MakeView;
use crate::db::{Batch, Database, Durability, Options, Snapshot, Table};
use crate::env::sim::SimEnv;
use crate::table::{Layout, TableOptions};

/// How many seeds each job and act have, and at how many calls of the job the act comes for each of them.
const SEEDS: u64 = 2;
const PLACES: usize = 6;

/// The other thread has met a latch of the job when it has not ended after this time.
const PATIENCE: Duration = Duration::from_millis(3);

/// No case needs a hundredth of this time.
const STUCK: Duration = Duration::from_secs(20);

/// Steps of the background after which it never ends.
const WORK_MAX: u64 = 20_000;

const LIFE: Duration = Duration::from_secs(300);

/// The table of the job, another one with more runs in L0 than the pauses of a job leave there, and a small one.
const TABLES: [&str; 3] = ["own", "other", "small"];
const OWN: usize = 0;
const OTHER: usize = 1;
const SMALL: usize = 2;

/// A job of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Flush,
    GroupFlush,
    BTreeMerge,
    BTreeRewrite,
    Compaction,
    CompactAll,
    WithinL0,
    ValueCollection,
    View,
    Expiry,
    RangeDelete,
    Load,
    LoadBelow,
    WaitIdle,
}

impl Job {
    const EVERY: [Self; 14] = [
        Self::Flush,
        Self::GroupFlush,
        Self::BTreeMerge,
        Self::BTreeRewrite,
        Self::Compaction,
        Self::CompactAll,
        Self::WithinL0,
        Self::ValueCollection,
        Self::View,
        Self::Expiry,
        Self::RangeDelete,
        Self::Load,
        Self::LoadBelow,
        Self::WaitIdle,
    ];
}

/// What the other thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    DropOwn,
    DropOther,
    DropAll,
    Recreate,
    Close,
    Checkpoint,
    Flush,
}

impl Act {
    const EVERY: [Self; 7] =
        [Self::DropOwn, Self::DropOther, Self::DropAll, Self::Recreate, Self::Close, Self::Checkpoint, Self::Flush];
}

/// A job, an act and a seed.
#[derive(Clone, Copy, Debug)]
struct Case {
    job: Job,
    act: Act,
    seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:?}/{}", self.job, self.act, self.seed)
    }
}

/// A number below `end`.
fn below(sim: &SimEnv, end: u64) -> u64 {
    sim.env().random.next() % end
}

fn open(sim: &SimEnv) -> Result<Database> {
    let options = Options { memory_bytes: 8 << 20, log_segment_bytes: 64 << 10, ..Options::default() };
    Database::builder("/db").env(sim.env()).options(options).open()
}

fn table(db: &Database, table: usize) -> Result<Table> {
    db.table(TABLES[table])?.ok_or_else(|| crate::base::Error::dropped(TABLES[table]))
}

/// Writes every `step`th of so many keys.
fn write(db: &Database, tables: &[&Table], (keys, step): (u32, usize), value_bytes: usize) -> Result<()> {
    let mut batch = Batch::new();
    for number in (0..keys).step_by(step) {
        tables.iter().for_each(|table| batch.put(table, number.to_be_bytes(), vec![7; value_bytes]));
    }
    db.write_with(&batch, Durability::Sync)
}

impl Case {
    fn options(self, sim: &SimEnv) -> TableOptions {
        let layout = match self.job {
            Job::BTreeMerge | Job::BTreeRewrite => Layout::BTree,
            Job::Flush | Job::GroupFlush | Job::Load | Job::LoadBelow | Job::RangeDelete if below(sim, 3) == 0 => {
                Layout::BTree
            }
            _ if below(sim, 3) == 0 => Layout::LsmTiered,
            _ => Layout::Lsm,
        };
        TableOptions {
            layout,
            run_bytes_max: 4 << 10,
            fanout: 2,
            block_bytes: 512,
            large_value_bytes: if self.job == Job::ValueCollection { 64 } else { 0 },
            time_to_live: (self.job == Job::Expiry).then_some(LIFE),
            ..TableOptions::default()
        }
    }

    /// The machine on which the case begins: tables with levels, and runs in L0.
    fn machine(self) -> Result<SimEnv> {
        let sim = SimEnv::new(self.seed * 1009 + self.job as u64 * 31 + self.act as u64);
        sim.set_lazy_workers(true);
        let db = open(&sim)?;
        let options = self.options(&sim);
        let own = db.create_table(TABLES[OWN], options.clone())?;
        let others = TableOptions { layout: Layout::Lsm, time_to_live: None, ..options };
        let other = db.create_table(TABLES[OTHER], others.clone())?;
        db.create_table(TABLES[SMALL], others)?;
        let value_bytes = if self.job == Job::ValueCollection { 100 } else { 20 };
        if below(&sim, 2) == 0 {
            write(&db, &[&own], (1500, 1), value_bytes)?;
            own.compact()?;
        }
        // What layouts and pauses want to merge is there: nothing of it is done before the job.
        let (own_runs, other_runs) = (2 + below(&sim, 14), 8 + below(&sim, 12));
        for (table, runs) in [(&own, own_runs), (&other, other_runs)] {
            for run in 0..runs {
                write(&db, &[table], (300, 1 + usize::try_from(run % 3).unwrap()), value_bytes)?;
                table.flush()?;
            }
        }
        drop((own, other));
        db.close()?;
        Ok(sim)
    }

    /// What the job finds in memory; what it needs.
    fn prepare(self, sim: &SimEnv, db: &Database) -> Result<Option<Snapshot>> {
        let own = table(db, OWN)?;
        let all = [own, table(db, OTHER)?, table(db, SMALL)?];
        match self.job {
            Job::Flush | Job::Expiry => write(db, &[&all[OWN]], (400, 1), 20)?,
            Job::GroupFlush => write(db, &all.each_ref(), (20, 1), 20)?,
            Job::BTreeMerge => write(db, &[&all[OWN]], (1500, 90), 20)?,
            Job::RangeDelete => all[OWN].delete_range(&10_u32.to_be_bytes()[..]..&250_u32.to_be_bytes()[..])?,
            Job::LoadBelow => {
                db.drop_table(TABLES[OWN])?;
                let snapshot = db.snapshot();
                db.create_table(TABLES[OWN], self.options(sim))?;
                return Ok(Some(snapshot));
            }
            _ => {}
        }
        if self.job == Job::Expiry {
            (0..8).for_each(|_| sim.advance(LIFE / 4));
        }
        Ok(None)
    }

    /// Does the job.
    fn work(self, db: &Database, snapshot: Option<&Snapshot>) -> Result<()> {
        let (own, core) = (table(db, OWN)?, db.core());
        let context = JobContext { state: &core.state, throttle: &core.throttle };
        let compact = || (0..8).try_for_each(|_| core.compactor.step().map(drop));
        match self.job {
            Job::Flush => own.flush(),
            Job::GroupFlush => db.flush(),
            Job::BTreeMerge => own.flush().and_then(|()| core.compactor.merge_into_btree(own.state(), false)),
            Job::BTreeRewrite | Job::CompactAll | Job::ValueCollection => own.compact(),
            Job::Compaction => compact(),
            Job::WithinL0 => relieve_l0(context, own.state(), &[]),
            Job::View => {
                let viewable = own.state().version.load().trees.view_candidate();
                MakeView { table: own.state(), viewable }.run(context).map(drop)
            }
            Job::Expiry => core.expirer.step().and_then(|_| own.flush()).and_then(|()| compact()),
            Job::RangeDelete => own.flush().and_then(|()| compact()),
            Job::Load | Job::LoadBelow => {
                let mut load = match snapshot {
                    Some(snapshot) => own.bulk_load_below(snapshot)?,
                    None => own.bulk_load()?,
                };
                (0..600_u32).try_for_each(|number| load.push(&number.to_be_bytes(), &[9; 30]))?;
                load.finish()
            }
            Job::WaitIdle => own.wait_idle(),
        }
    }

    /// What the other thread does.
    fn act(self, act: Act, db: &Database, options: &TableOptions) -> Result<()> {
        match act {
            Act::DropOwn => db.drop_table(TABLES[OWN]),
            Act::DropOther => db.drop_table(TABLES[OTHER]),
            Act::DropAll => db.drop_tables(TABLES),
            Act::Recreate => {
                db.drop_table(TABLES[OWN])?;
                db.create_table(TABLES[OWN], options.clone()).map(drop)
            }
            Act::Close => db.clone().close(),
            Act::Checkpoint => db.checkpoint(format!("/copy{}", db.log_end().0)).map(drop),
            Act::Flush => {
                let own = table(db, OWN)?;
                write(db, &[&own], (60, 1), 20).and_then(|()| own.flush())
            }
        }
    }

    /// The act at one call of the job, or after it; how many calls the job made. With `flushes` runs are laid down at
    /// calls before.
    fn at(self, base: &SimEnv, place: usize, flushes: bool) -> std::result::Result<usize, String> {
        let told = |what: &'static str| move |error: crate::base::Error| format!("{what}: {error}");
        let sim = base.fork();
        // What layouts and pauses want to merge is not merged before the job.
        sim.set_lazy_workers(true);
        let db = open(&sim).map_err(told("opening"))?;
        let options = table(&db, OWN).map_err(told("own table"))?.options().clone();
        let snapshot = self.prepare(&sim, &db).map_err(told("preparing"))?;
        let (asked, acts) = channel::<Act>();
        let ((acted, ends), (end, ended)) = (channel(), channel());
        let other = db.clone();
        thread::spawn(move || {
            let mut all = Ok(());
            for act in acts {
                let done = refused(self.act(act, &other, &options)).map_err(|error| format!("{act:?}: {error}"));
                all = all.and(done);
                let _nobody_waits = acted.send(());
            }
            drop(other);
            let _somebody_waits = end.send(all);
        });
        let calls = std::sync::Arc::new(AtomicUsize::new(0));
        let (counted, meeting) = (calls.clone(), Mutex::new(ends));
        let own_act = self.act;
        let to_act = asked.clone();
        sim.interrupt(Some(Box::new(move |_, _| {
            let call = counted.fetch_add(1, Ordering::SeqCst);
            let act = if call == place { Some(own_act) } else { (flushes && call < place).then_some(Act::Flush) };
            let Some(act) = act else { return };
            let ends: &Receiver<()> = &meeting.lock().unwrap();
            // One that waits for the job is asked for no more before it has ended.
            let _is_waited_for = to_act.send(act).is_ok() && ends.recv_timeout(PATIENCE).is_ok();
        })));
        let worked = self.work(&db, snapshot.as_ref());
        sim.interrupt(None);
        drop(snapshot);
        let calls = calls.load(Ordering::SeqCst);
        if place >= calls {
            let _it_ends = asked.send(self.act);
        }
        drop(asked);
        refused(worked).map_err(|error| format!("the job: {error}"))?;
        // It may wait for a worker.
        let acts_ended = loop {
            match ended.recv_timeout(Duration::from_millis(1)) {
                Ok(acts_ended) => break acts_ended,
                Err(_) => drop(sim.work(0)),
            }
        };
        acts_ended?;
        self.end(&sim, &db).map_err(|message| format!("afterwards: {message}"))?;
        Ok(calls)
    }

    /// Both are done, or the other thread is about to be: the background ends, and the close, and all is sound.
    fn end(self, sim: &SimEnv, db: &Database) -> std::result::Result<(), String> {
        let mut left = WORK_MAX;
        while sim.work(left) {
            left = left.checked_sub(1).ok_or("background work never ends")?;
        }
        let sound = |db: &Database| match db.verify() {
            Ok(report) if report.problems.is_empty() => Ok(()),
            Ok(report) => Err(format!("{:?}", report.problems)),
            Err(error) => refused(Err(error)).map_err(|error| format!("verify: {error}")),
        };
        sound(db)?;
        db.clone().close().map_err(|error| format!("closing: {error}"))?;
        let mut paths = vec!["/db".to_owned()];
        let copies = sim.env().fs.list(Path::new("/")).unwrap_or_default();
        paths.extend(
            copies.iter().filter(|entry| entry.name.starts_with("copy")).map(|entry| format!("/{}", entry.name)),
        );
        for path in paths {
            let options = Options { memory_bytes: 8 << 20, ..Options::default() };
            let opened = Database::builder(&path).env(sim.env()).options(options).open();
            match opened {
                Ok(db) => sound(&db).map_err(|message| format!("{path}: {message}"))?,
                Err(error) => return Err(format!("opening {path}: {error}")),
            }
        }
        Ok(())
    }

    /// As [`Self::at`], in a thread that may never end.
    fn watched(self, base: &SimEnv, place: usize, flushes: bool) -> std::result::Result<usize, String> {
        let (send, ended) = channel();
        let base = base.clone();
        thread::spawn(move || {
            let run = || self.at(&base, place, flushes);
            let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let _nobody_waits = send.send(ran.unwrap_or_else(|_| Err("panicked".to_owned())));
        });
        let stuck = |_| Err(format!("has not ended after {} s: it never ends", STUCK.as_secs()));
        ended.recv_timeout(STUCK).unwrap_or_else(stuck)
    }

    /// The act at some calls of the job, or at all.
    fn run(self, places_max: usize) -> std::result::Result<usize, String> {
        let base = self.machine().map_err(|error| format!("{self}: before: {error}"))?;
        let only = std::env::var("SPINNEY_PAUSES_AT").ok().and_then(|place| place.parse().ok());
        let calls = self.watched(&base, usize::MAX, false).map_err(|message| format!("{self}, in order: {message}"))?;
        let mut places: Vec<usize> = only.map_or_else(|| (0..calls).collect(), |place| vec![place]);
        while places.len() > places_max {
            places.remove(usize::try_from(below(&base, places.len() as u64)).unwrap());
        }
        for place in &places {
            let flushes = (self.seed + *place as u64).is_multiple_of(3);
            self.watched(&base, *place, flushes).map_err(|message| {
                format!(
                    "{:?}, and {:?} before its call {place} of {calls}: {message}\nreplay: SPINNEY_PAUSES_ONLY={self} SPINNEY_PAUSES_AT={place} cargo \
                     test -p spinney --lib pauses",
                    self.job, self.act
                )
            })?;
        }
        Ok(places.len())
    }
}

/// What a call gave that may find its table dropped or the database closed.
fn refused(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::Dropped | ErrorKind::NotFound) => Ok(()),
        other => other,
    }
}

/// A table that was dropped while its runs in L0 were merged in the pause of another compaction was picked again and
/// again, with its compaction latch held: the job did nothing for a dropped table and said that it was done. The drop
/// never ended, nor any change of tables behind it, nor the close.
#[test]
fn drops_closes_and_checkpoints_in_the_pauses_of_jobs_end() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (seeds, from) = (number("SPINNEY_PAUSES").unwrap_or(SEEDS), number("SPINNEY_PAUSES_FROM").unwrap_or(0));
    let only = std::env::var("SPINNEY_PAUSES_ONLY").ok();
    let seeds = if only.is_some() { 0..1000 } else { from..from + seeds };
    let cases = seeds
        .flat_map(|seed| Job::EVERY.into_iter().flat_map(move |job| Act::EVERY.map(|act| Case { job, act, seed })));
    let cases = cases.filter(|case| only.as_ref().is_none_or(|only| *only == case.to_string()));
    let (cases, runs) = (Mutex::new(cases), AtomicUsize::new(0));
    let next = || cases.lock().unwrap().next();
    let work = || {
        while let Some(case) = next() {
            let ran = case.run(if only.is_some() { usize::MAX } else { PLACES });
            runs.fetch_add(ran.unwrap_or_else(|message| panic!("{message}")), Ordering::Relaxed);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });
    eprintln!("{} acts in jobs", runs.into_inner());
}
