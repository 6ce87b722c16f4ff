//! Random concurrent transactions, recorded as a history: in a deterministic interleaving with crashes, or by threads.
//! Some take locks and some go back to savepoints. All transactions of a history have the same isolation.

use super::check::{Seen, check};
use super::history::{End, Id, Key, Step, Txn};
use crate::config::Config;
use crate::operators::APPEND;
use crate::rng::Rng;
use spinney::env::Env;
use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Database, Durability, Error, ErrorKind, Isolation, Layout, Result, Savepoint, Table, Transaction};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Transactions at a time.
const SESSIONS: usize = 4;
/// Keys that are in use at a time.
const KEYS: u64 = 8;
/// After so many begins and ends the oldest key is left and a new one comes, so that no list grows long.
const KEY_LIFE: u64 = 16;
/// The first of so many keys is a register, the others are lists.
const KINDS: u64 = 4;
const TABLES: usize = 2;
const THREADS: u64 = 4;
/// How many of a hundred transactions of a thread put in so many entries beside what is checked.
const BALLAST_CHANCE: usize = 10;
const BALLAST: usize = 300;

/// The clock and the numbers that a history is made with.
#[derive(Debug, Default)]
struct Counters {
    /// The last moment. Sequentially consistent: what has ended before something began has the smaller number.
    moment: AtomicU64,
    id: AtomicU64,
}

impl Counters {
    fn moment(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The keys in use.
    fn keys(&self) -> Range<Key> {
        let first = self.moment.load(Ordering::SeqCst) / KEY_LIFE;
        first..first + KEYS
    }
}

/// An open database.
struct World {
    database: Database,
    tables: Vec<Table>,
    /// Holds what nobody reads.
    ballast: Table,
    isolation: Isolation,
    /// How long transactions wait for locks.
    lock_wait: Duration,
}

impl World {
    fn open(path: &Path, env: Env, config: &Config, isolation: Isolation) -> Result<Self> {
        let lock_wait = if env.threads.concurrent() { Duration::from_millis(200) } else { Duration::ZERO };
        let database = config.builder(path).env(env).open()?;
        let table = |name: &str, number: usize| {
            let options = config.table_options(number).merge(APPEND).logged(true);
            database.table(name)?.map_or_else(|| database.create_table(name, options), Ok)
        };
        // First, so that a commit puts its ballast in before what others look for.
        let ballast = table("ballast", 0)?;
        let tables = (0..TABLES).map(|number| table(&format!("t{number}"), number)).collect::<Result<_>>()?;
        Ok(Self { database, tables, ballast, isolation, lock_wait })
    }

    fn table(&self, key: Key) -> &Table {
        &self.tables[usize::from(key.is_multiple_of(3))]
    }

    /// Now and then something that must not matter.
    fn disturb(&self, rng: &mut Rng) -> Result<()> {
        let table = rng.pick(&self.tables);
        match rng.in_range(0..100) {
            0 => table.compact(),
            1..4 => table.flush(),
            _ => Ok(()),
        }
    }

    /// A transaction that reads all keys.
    fn read_all(&self, counters: &Counters) -> Result<Txn> {
        let mut session = Session::begin(self, counters);
        let keys = 0..counters.keys().end;
        keys.clone().try_for_each(|key| session.read(self, key))?;
        Ok(Txn { begun: session.begun, ended: counters.moment(), steps: session.steps, end: End::Committed })
    }
}

/// A transaction under way.
struct Session {
    txn: Transaction,
    begun: u64,
    steps: Vec<Step>,
    /// A savepoint, and how many steps came before it.
    savepoint: Option<(Savepoint, usize)>,
}

impl Session {
    fn begin(world: &World, counters: &Counters) -> Self {
        let begun = counters.moment();
        let mut txn = world.database.begin_with(world.isolation);
        txn.set_lock_wait(world.lock_wait);
        Self { txn, begun, steps: Vec::new(), savepoint: None }
    }

    fn read(&mut self, world: &World, key: Key) -> Result<()> {
        let found = self.txn.get(world.table(key), key.to_be_bytes())?;
        self.steps.push(Step::Read(key, ids(found.as_deref().unwrap_or_default())));
        Ok(())
    }

    fn lock(&mut self, world: &World, key: Key, rng: &mut Rng) -> Result<()> {
        let name = key.to_be_bytes();
        if rng.chance(20) {
            self.txn.lock_range(world.table(key), &name[..]..=&(key + 1).to_be_bytes()[..])?;
        }
        let found = self.txn.get_for_update(world.table(key), name)?;
        self.steps.push(Step::Read(key, ids(found.as_deref().unwrap_or_default())));
        Ok(())
    }

    /// Sets a savepoint, or goes back to the one that was set: what came after it is as if it had not been.
    fn save_or_go_back(&mut self) -> Result<()> {
        match &self.savepoint {
            Some((savepoint, steps)) => {
                self.txn.rollback_to(savepoint)?;
                self.steps.truncate(*steps);
            }
            None => self.savepoint = Some((self.txn.savepoint(), self.steps.len())),
        }
        Ok(())
    }

    /// Reads keys of a table by a range.
    fn scan(&mut self, world: &World, table: usize, keys: Range<Key>, backward: bool) -> Result<()> {
        let (from, to) = (keys.start.to_be_bytes(), keys.end.to_be_bytes());
        let bounds = &from[..]..&to[..];
        let table = &world.tables[table];
        let range = if backward { self.txn.range_rev(table, bounds) } else { self.txn.range(table, bounds) };
        let mut found = range.collect::<Result<std::collections::BTreeMap<_, _>>>()?;
        for key in keys.filter(|key| world.table(*key).name() == table.name()) {
            let value = found.remove(key.to_be_bytes().as_slice());
            self.steps.push(Step::Read(key, ids(value.as_deref().unwrap_or_default())));
        }
        if found.is_empty() {
            Ok(())
        } else {
            Err(Error::invalid(format!("a scan shows keys outside of it: {found:?}")))
        }
    }

    fn step(&mut self, world: &World, counters: &Counters, rng: &mut Rng) -> Result<()> {
        let keys = counters.keys();
        let key = keys.start + rng.number() % KEYS;
        match rng.in_range(0..20) {
            0..5 => self.read(world, key),
            5 => self.save_or_go_back(),
            6..8 => self.scan(world, rng.in_range(0..TABLES), keys, rng.chance(50)),
            8..10 => self.lock(world, key, rng),
            _ => self.write(world, key, counters.id.fetch_add(1, Ordering::Relaxed) + 1, rng),
        }
    }

    fn write(&mut self, world: &World, key: Key, id: Id, rng: &mut Rng) -> Result<()> {
        let (table, name) = (world.table(key), key.to_be_bytes());
        if key.is_multiple_of(KINDS) {
            self.read(world, key)?;
            self.txn.put(table, name, id.to_le_bytes())?;
            self.steps.push(Step::Put(key, id));
            return Ok(());
        }
        if rng.chance(50) {
            self.txn.merge(table, name, id.to_le_bytes())?;
        } else {
            self.read(world, key)?;
            let before = self.txn.get(table, name)?;
            self.txn.put(table, name, [before.as_deref().unwrap_or_default(), &id.to_le_bytes()].concat())?;
        }
        self.steps.push(Step::Append(key, id));
        Ok(())
    }

    /// Commits or rolls back; an error other than a conflict leaves the end open.
    fn end(self, counters: &Counters, durability: Durability, rng: &mut Rng) -> (Txn, Result<()>) {
        let Self { txn, begun, steps, .. } = self;
        let (end, told) = if rng.chance(10) {
            txn.rollback();
            (End::Aborted, Ok(()))
        } else {
            match txn.commit_with(durability) {
                Ok(()) => (End::Committed, Ok(())),
                Err(error) if is_lost(&error) => (End::Aborted, Ok(())),
                Err(error) => (End::Unknown, Err(error)),
            }
        };
        (Txn { begun, ended: counters.moment(), steps, end }, told)
    }

    fn abort(self, counters: &Counters) -> Txn {
        Txn { begun: self.begun, ended: counters.moment(), steps: self.steps, end: End::Aborted }
    }
}

/// Whether a transaction cannot go on because of another.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::Timeout)
}

fn ids(value: &[u8]) -> Vec<Id> {
    value.chunks(8).map(|id| id.try_into().map_or(0, u64::from_le_bytes)).collect()
}

/// The configuration of a seed.
fn config_of(seed: u64) -> Config {
    let layouts = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];
    let sets = ["tiny-everything", "tiny-memtables", "plain", "tiny-log"];
    let mut rng = Rng::new(seed);
    Config::named(*rng.pick(&layouts), sets[rng.in_range(0..sets.len())])
}

/// The isolation of a seed's transactions.
fn isolation_of(seed: u64) -> Isolation {
    if seed % 8 < 4 { Isolation::Snapshot } else { Isolation::Serializable }
}

/// Runs and checks so many transactions, whose steps take turns as the seed says, on a simulated machine that crashes
/// now and then.
///
/// # Errors
/// What was wrong.
pub fn simulated(seed: u64, count: usize) -> Result<Seen, String> {
    let config = config_of(seed);
    let told = run_simulated(seed, count, &config);
    let history = told.map_err(|error| format!("seed {seed}, {}: {:?}: {error}", config.name, error.kind()))?;
    let isolation = isolation_of(seed);
    check(&history, isolation).map_err(|anomaly| format!("seed {seed}, {}, {isolation:?}: {anomaly}", config.name))
}

fn run_simulated(seed: u64, count: usize, config: &Config) -> Result<Vec<Txn>> {
    let (sim, counters, mut rng) = (SimEnv::new(seed), Counters::default(), Rng::new(seed ^ 0x5eed));
    let open = |sim: &SimEnv| World::open(Path::new("/db"), sim.env(), config, isolation_of(seed));
    let mut world = open(&sim)?;
    let (mut history, mut sessions) = (Vec::with_capacity(count), <[Option<Session>; SESSIONS]>::default());
    while history.len() < count {
        let slot = rng.in_range(0..SESSIONS);
        if rng.in_range(0..400) == 0 {
            sim.crash_at(sim.write_and_sync_count() + rng.number() % 12);
        }
        let went = match sessions[slot].take() {
            None => {
                sessions[slot] = Some(Session::begin(&world, &counters));
                world.disturb(&mut rng)
            }
            Some(session) if rng.chance(20) => {
                let (txn, told) = session.end(&counters, Durability::Sync, &mut rng);
                history.push(txn);
                told
            }
            Some(mut session) => match session.step(&world, &counters, &mut rng) {
                Err(error) if is_lost(&error) => {
                    history.push(session.abort(&counters));
                    Ok(())
                }
                went => {
                    sessions[slot] = Some(session);
                    went
                }
            },
        };
        if !sim.is_down() {
            went?;
            continue;
        }
        history.extend(sessions.iter_mut().filter_map(Option::take).map(|session| session.abort(&counters)));
        drop(world);
        sim.power_crash(*rng.pick(&CrashProfile::EVERY));
        world = open(&sim)?;
    }
    sim.process_crash();
    drop((sessions, world));
    history.push(open(&sim)?.read_all(&counters)?);
    Ok(history)
}

/// Runs and checks so many transactions of several threads on the database in `path`, which is left and opened again
/// now and then.
///
/// # Errors
/// What was wrong.
///
/// # Panics
/// When a thread does.
pub fn threaded(path: &Path, seed: u64, count: usize) -> Result<Seen, String> {
    let (config, counters) = (config_of(seed), Counters::default());
    let explain = |error: Error| format!("threads, seed {seed}, {}: {:?}: {error}", config.name, error.kind());
    let mut history = Vec::with_capacity(count);
    for round in 0.. {
        let world = World::open(path, Env::os(), &config, isolation_of(seed)).map_err(explain)?;
        if history.len() >= count {
            history.push(world.read_all(&counters).map_err(explain)?);
            break;
        }
        let client = |number: u64| client(&world, &counters, Rng::new(seed + 1000 * round + number), count / 20);
        let told: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || client(number))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a client panicked")).collect()
        });
        for txns in told {
            history.extend(txns.map_err(explain)?);
        }
    }
    let isolation = isolation_of(seed);
    let explain = |anomaly| format!("threads, seed {seed}, {}, {isolation:?}: {anomaly}", config.name);
    check(&history, isolation).map_err(explain)
}

/// So many transactions, one after the other.
fn client(world: &World, counters: &Counters, mut rng: Rng, count: usize) -> Result<Vec<Txn>> {
    let mut history = Vec::with_capacity(count);
    for _ in 0..count {
        let mut session = Session::begin(world, counters);
        let mut went = Ok(());
        while went.is_ok() && rng.chance(80) {
            went = session.step(world, counters, &mut rng);
            // So that transactions overlap also where there are few processors.
            thread::yield_now();
        }
        match went {
            Err(error) if is_lost(&error) => {
                history.push(session.abort(counters));
                continue;
            }
            went => went?,
        }
        if rng.chance(BALLAST_CHANCE) {
            // Others then commit, and begin, while this commit is on its way into memory.
            for _ in 0..BALLAST {
                session.txn.put(&world.ballast, rng.bytes(6), [7; 50])?;
            }
        }
        let (txn, told) = session.end(counters, Durability::Buffered, &mut rng);
        told?;
        history.push(txn);
        world.disturb(&mut rng)?;
    }
    Ok(history)
}
