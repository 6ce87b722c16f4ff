//! Crashes and errors at every operation of a workload, and again inside the recovery from each: whatever was
//! acknowledged is there, nothing else than what was appended is, and nothing has holes.

use super::*;
use crate::env::sim::{CrashProfile, Fault, SimEnv};
use crate::log::pool::directory::Directory;
use crate::log::recovery::chain::open_all;
use parking_lot::Mutex;
use spinney_testkit::parallel::count_from_env;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const DIRECTORY: &str = "/log";

/// What the user of the log knows.
#[derive(Clone, Debug, Default)]
struct Ledger {
    /// Every payload, and the position after it; the largest position while it is being appended.
    appended: Vec<(Vec<u8>, Lsn)>,
    /// How many of them are durable.
    durable: usize,
    /// How many of them survive the process.
    written: usize,
    /// Where a recovery begins.
    from: Lsn,
    /// The last position given out.
    last: Lsn,
}

impl Ledger {
    /// Checks what a recovery showed, where `kept` payloads at least must have survived, and returns how many have.
    fn check(&self, found: &[Vec<u8>], kept: usize) -> std::result::Result<usize, String> {
        let released = self.appended.iter().take_while(|(_, end)| *end <= self.from).count();
        let expected: Vec<_> = self.appended[released..].iter().map(|(payload, _)| payload).collect();
        let is_prefix = found.len() <= expected.len() && found.iter().eq(expected[..found.len()].iter().copied());
        let survived = released + found.len();
        match () {
            () if !is_prefix => {
                Err(format!("{} payloads are no prefix of the {} expected", found.len(), expected.len()))
            }
            () if survived < kept => Err(format!("{survived} payloads survived, {kept} were acknowledged")),
            () => Ok(survived),
        }
    }
}

/// A machine that runs a workload.
struct Run {
    sim: SimEnv,
    ledger: Arc<Mutex<Ledger>>,
    random: Random,
    /// Whether payloads tend to be larger than a segment.
    large: bool,
    /// What was appended whole, and where the log ended before it: of earlier opens too.
    bases: Vec<(Lsn, Vec<u8>)>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let sim = SimEnv::new(seed);
        sim.env().fs.create_dir_all(DIRECTORY.as_ref()).unwrap();
        Self { sim, ledger: Arc::default(), random: Random(seed), large: seed.is_multiple_of(4), bases: Vec::new() }
    }

    fn open(&mut self) -> Result<LogWriter> {
        let env = self.sim.env();
        let mut ledger = self.ledger.lock().clone();
        let (found, recovered) = read(&env, DIRECTORY.as_ref(), ledger.from)?;
        let survived = ledger.check(&found, ledger.written).unwrap();
        ledger.appended.truncate(survived);
        (ledger.durable, ledger.written) = (survived, survived);
        let options = LogOptions {
            segment_bytes: [64 << 10, 64 << 10, 128 << 10][self.random.below(3)],
            direct: self.random.below(4) > 0,
            compression: [LogCompression::Off, LogCompression::Lz4, LogCompression::Zstd][self.random.below(3)],
            ..LogOptions::default()
        };
        let log = LogWriter::open(&env, DIRECTORY.as_ref(), options, recovered)?;
        assert!(log.tail() > ledger.last, "no position is given out twice, not even one that was lost");
        *self.ledger.lock() = ledger;
        Ok(log)
    }

    fn append(&mut self, log: &LogWriter) -> Result<Lsn> {
        let bytes = match self.random.below(if self.large { 8 } else { 20 }) {
            0 => 100_000,
            1 | 2 => 20_000,
            3..6 => 4000,
            _ => 200,
        };
        let mut payload = payload(self.ledger.lock().appended.len(), self.random.below(bytes));
        if self.random.below(4) == 0 {
            // Does not compress.
            payload.fill_with(|| u8::try_from(self.random.below(256)).unwrap());
        }
        let base = (self.random.below(3) == 0).then(|| self.bases[self.bases.len().saturating_sub(4)..].first());
        let base = base.flatten().map(|(position, base)| {
            let ends = [0; 4].map(|_| self.random.below(base.len() + 1));
            repeat(*position, base, ends, &mut payload)
        });
        self.ledger.lock().appended.push((payload.clone(), Lsn(u64::MAX)));
        let place = append_repeating(log, &payload, base.as_ref())?;
        if base.is_none() {
            self.bases.push((place.start, payload));
        }
        let end = place.end;
        let mut ledger = self.ledger.lock();
        ledger.appended.last_mut().unwrap().1 = end;
        ledger.last = end;
        Ok(end)
    }

    /// Does something to the log; `None` when it was closed.
    fn step(&mut self, log: &LogWriter) -> Result<Option<()>> {
        match self.random.below(26) {
            0 => {
                log.close()?;
                let mut ledger = self.ledger.lock();
                (ledger.durable, ledger.written) = (ledger.appended.len(), ledger.appended.len());
                return Ok(None);
            }
            1 => return Ok(None),
            2 | 3 => log.prepare_spare()?,
            24 | 25 => log.extend_window()?,
            4 | 5 => {
                // Of what is not durable, too: it may be safe elsewhere.
                let ends: Vec<_> = self.ledger.lock().appended.iter().map(|(_, end)| *end).collect();
                if let Some(end) = ends.get(self.random.below(ends.len() + 1)) {
                    let from = self.ledger.lock().from.max(*end);
                    self.ledger.lock().from = from;
                    log.release(from)?;
                }
            }
            6..12 => {
                let end = self.append(log)?;
                log.sync(end)?;
                let mut ledger = self.ledger.lock();
                (ledger.durable, ledger.written) = (ledger.appended.len(), ledger.appended.len());
            }
            12..19 => {
                let end = self.append(log)?;
                log.write(end)?;
                let mut ledger = self.ledger.lock();
                ledger.written = ledger.appended.len();
            }
            _ => drop(self.append(log)?),
        }
        Ok(Some(()))
    }

    /// Runs `steps` steps, over as many opens as it takes.
    fn go(&mut self, steps: usize) -> Result<()> {
        let mut log = self.open()?;
        for _ in 0..steps {
            if self.step(&log)?.is_none() {
                drop(log);
                log = self.open()?;
            }
        }
        Ok(())
    }
}

/// No crash leaves a segment's name to a file that is not that segment, needed or not: such a file tells of damage.
fn every_segment_is_whole(env: &Env) -> std::result::Result<(), String> {
    let directory = Directory { env: env.clone(), path: DIRECTORY.into() };
    let listing = directory.list().map_err(|error| error.to_string())?;
    let segments = open_all(&directory, &listing, Some(DATABASE), false).map_err(|error| error.to_string())?;
    let bad = segments.found.iter().find_map(|(number, found)| Some((number, found.as_ref().err()?)));
    bad.map_or(Ok(()), |(number, damage)| Err(format!("segment {number}: {damage:?}")))
}

/// Recovers on a machine after a crash, and goes on: checks that the log still works, and that crashes inside do no
/// harm.
fn recover_and_go_on(
    sim: &SimEnv,
    ledger: &Ledger,
    kept: usize,
    again: Option<CrashProfile>,
) -> std::result::Result<(), String> {
    let env = sim.env();
    every_segment_is_whole(&env)?;
    let (found, recovered) = read(&env, DIRECTORY.as_ref(), ledger.from).map_err(|error| error.to_string())?;
    let survived = ledger.check(&found, kept)?;
    let mut ledger = ledger.clone();
    ledger.appended.truncate(survived);
    let last = b"after the crash ".repeat(500);
    let failures = Arc::new(Mutex::new(Vec::new()));
    if let Some(profile) = again {
        // What the first recovery found may have been served, so the second must find no less; and no more.
        let (failures, ledger) = (Arc::clone(&failures), ledger.clone());
        let last = last.clone();
        sim.observe(Some(Box::new(move |fork| {
            fork.power_crash(profile);
            let mut ledger = ledger.clone();
            ledger.appended.push((last.clone(), Lsn(u64::MAX)));
            if let Err(error) = recover_and_go_on(&fork, &ledger, survived, None) {
                failures.lock().push(format!("in the second crash, {profile:?}: {error}"));
            }
        })));
    }
    let went_on = (|| {
        let log = LogWriter::open(&env, DIRECTORY.as_ref(), small_in(FORMS[survived % 3]), recovered)?;
        let end = append(&log, &last)?;
        log.sync(end)?;
        sim.observe(None);
        drop(log);
        sim.power_crash(CrashProfile::Strict);
        read(&sim.env(), DIRECTORY.as_ref(), ledger.from)
    })();
    let (found, _) = went_on.map_err(|error| format!("going on: {error}"))?;
    ledger.appended.push((last, Lsn(u64::MAX)));
    ledger.check(&found, survived + 1)?;
    failures.lock().pop().map_or(Ok(()), Err)
}

/// How many crashes the test tries: `SPINNEY_CRASH_POINTS`, or 2000.
fn crash_points() -> usize {
    usize_of(count_from_env("SPINNEY_CRASH_POINTS", 2000))
}

#[test]
fn crashes_at_every_write_and_sync_lose_nothing_that_was_acknowledged() {
    let tried = Arc::new(AtomicUsize::new(0));
    for seed in 1.. {
        if tried.load(Ordering::Relaxed) >= crash_points() {
            return;
        }
        let mut run = Run::new(seed);
        let (ledger, tried, mut random) = (Arc::clone(&run.ledger), Arc::clone(&tried), Random(seed));
        run.sim.observe(Some(Box::new(move |fork| {
            let ledger = ledger.lock().clone();
            let profiles = CrashProfile::EVERY;
            let profile = profiles[random.below(profiles.len())];
            let again = (random.below(4) == 0).then(|| profiles[random.below(profiles.len())]);
            fork.reseed(u64_of(random.below(1 << 30)));
            let kept = if random.below(6) == 0 {
                fork.process_crash();
                ledger.written
            } else {
                fork.power_crash(profile);
                ledger.durable
            };
            let change = fork.write_and_sync_count();
            if let Err(error) = recover_and_go_on(&fork, &ledger, kept, again) {
                panic!("seed {seed}, change {change}, {profile:?}, again {again:?}: {error}");
            }
            tried.fetch_add(1, Ordering::Relaxed);
        })));
        run.go(60).unwrap();
    }
}

#[test]
fn the_first_error_ends_the_log_and_loses_nothing_that_was_acknowledged() {
    let (mut poisoned, mut tried) = (0, 0);
    let faults = [Fault::Error(std::io::ErrorKind::Other), Fault::ShortWrite, Fault::SyncLost, Fault::NoSpace];
    for seed in 1..=3 {
        for (at, fault) in (5..).flat_map(|at| faults.map(|fault| (at, fault))) {
            let mut run = Run::new(seed);
            run.sim.fail_at(at, fault);
            let mut log = None;
            let outcome: Result<()> = (0..40).try_for_each(|_| {
                if log.is_none() {
                    log = Some(run.open()?);
                }
                if let Some(writer) = &log
                    && run.step(writer)?.is_none()
                {
                    log = None;
                }
                Ok(())
            });
            if run.sim.op_count() <= at {
                break;
            }
            tried += 1;
            let Err(error) = outcome else { continue };
            if error.kind() == ErrorKind::Poisoned {
                poisoned += 1;
                let log = log.as_ref().unwrap();
                assert_eq!(log.append_parts(&[b"more"]).unwrap_err().kind(), ErrorKind::Poisoned);
                assert_eq!(log.close().unwrap_err().kind(), ErrorKind::Poisoned);
            }
            let ledger = run.ledger.lock().clone();
            run.sim.clear_faults();
            run.sim.power_crash(CrashProfile::EVERY[run.random.below(6)]);
            if let Err(error) = recover_and_go_on(&run.sim, &ledger, ledger.durable, None) {
                panic!("seed {seed}, {fault:?} at {at}: {error}");
            }
        }
    }
    assert!(tried > 1000 && poisoned > 300, "{tried} faults, {poisoned} of them ended the log");
}

#[test]
fn no_open_rests_on_what_a_lost_sync_left_in_the_cache() {
    let directory: &Path = DIRECTORY.as_ref();
    let mut poisoned = 0;
    for (form, buffered) in FORMS.into_iter().flat_map(|form| [(form, false), (form, true)]) {
        for later in 0..4 {
            let sim = SimEnv::new(later);
            let open = |env: &Env| {
                let (found, recovered) = read(env, directory, Lsn(0)).unwrap();
                (found, LogWriter::open(env, directory, small_in(form), recovered).unwrap())
            };
            sim.env().fs.create_dir_all(directory).unwrap();
            let (_, log) = open(&sim.env());
            log.sync(append(&log, &payload(0, 100)).unwrap()).unwrap();
            sim.fail_at(sim.op_count() + later, Fault::SyncLost);
            let end = append(&log, &payload(1, 100)).unwrap();
            let written = if buffered { log.write(end) } else { Ok(()) };
            let written = written.and_then(|()| log.sync(end));
            poisoned += u64::from(written.is_err());
            drop(log);
            // The machine goes on, and its cache with it.
            sim.clear_faults();
            sim.process_crash();
            let (mut found, log) = open(&sim.env());
            assert_eq!(found[0], payload(0, 100));
            found.push(payload(2, 100));
            log.sync(append(&log, &payload(2, 100)).unwrap()).unwrap();
            drop(log);
            sim.power_crash(CrashProfile::Strict);
            assert_eq!(open(&sim.env()).0, found, "{form:?}, buffered {buffered}, {later} calls later");
        }
    }
    assert!(poisoned >= 4, "{poisoned}");
}

#[test]
fn an_error_while_recovering_is_an_error_and_never_a_shorter_log() {
    let mut run = Run::new(7);
    run.go(100).unwrap();
    let from = run.ledger.lock().from;
    let expected = read(&run.sim.env(), DIRECTORY.as_ref(), from).unwrap();
    for at in 0.. {
        let fork = run.sim.fork();
        let before = fork.op_count();
        fork.fail_at(before + at, Fault::Error(std::io::ErrorKind::Other));
        let found = read(&fork.env(), DIRECTORY.as_ref(), from);
        if fork.op_count() <= before + at {
            assert_eq!(found.unwrap().0.len(), expected.0.len());
            assert!(at > 10);
            return;
        }
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Io);
    }
}
