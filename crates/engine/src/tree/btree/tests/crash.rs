//! Crashes at every change of the disk that merges, installs and returns of space make, and again inside the merge
//! after each: the installed root is there with all that it had, whatever its readers hold and wherever freed extents
//! were used again.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use spinney_testkit::parallel::count_from_env;

use super::*;
use crate::env::sim::CrashProfile;

/// How many merges a tree lives through.
const ROUNDS: u64 = 24;

/// The root that the manifest names, and what it shows.
#[derive(Clone)]
struct Durable {
    meta: TreeMeta,
    entries: Arc<Vec<OwnedEntry>>,
    model: Arc<Model>,
}

impl Durable {
    fn of(meta: TreeMeta, fixture: &Fixture, tree: &BTree) -> Self {
        let model = Model { batch: BTreeMap::new(), snapshots: Vec::new(), ..fixture.model.clone() };
        Self { meta, entries: Arc::new(entries(&tree.root())), model: Arc::new(model) }
    }
}

/// How many crashes there were, and what else happened that the test is about.
#[derive(Debug, Default)]
struct Tally {
    crashes: AtomicU64,
    again: AtomicU64,
    /// Merges while readers held older roots.
    held: AtomicU64,
    /// Merges that wrote to space which was freed before.
    reused: AtomicU64,
}

impl Tally {
    fn add(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A tree on a machine that crashes.
struct Run {
    seed: u64,
    fixture: Fixture,
    random: Random,
    durable: Arc<Mutex<Durable>>,
    held: Vec<(Arc<TreeRoot>, Vec<OwnedEntry>)>,
    tally: Arc<Tally>,
}

impl Run {
    fn new(seed: u64, tally: &Arc<Tally>) -> Self {
        let mut random = Random(seed);
        let block_bytes = [400, 400, 1000, 4096][usize_of(random.below(4))];
        let compression = [Compression::None, Compression::Lz4][usize_of(random.below(2))];
        let mut fixture = Fixture::new(block_bytes, compression, random.below(2) == 0);
        (0..random.below(1500)).for_each(|i| fixture.model.put(key(i), "value"));
        fixture.merge(false);
        Self::on(seed, fixture, random, tally)
    }

    fn on(seed: u64, fixture: Fixture, random: Random, tally: &Arc<Tally>) -> Self {
        let durable = Arc::new(Mutex::new(Durable::of(fixture.meta(), &fixture, &fixture.tree)));
        Self { seed, fixture, random, durable, held: Vec::new(), tally: Arc::clone(tally) }
    }

    /// Crashes the machine in all changes of the disk that follow; with `again`, now and then once more in the merge
    /// after a crash.
    fn crash_from_here(&mut self, again: bool) {
        let (durable, options, tally) = (Arc::clone(&self.durable), self.fixture.options, Arc::clone(&self.tally));
        let (seed, mut random) = (self.seed, Random(self.random.next()));
        self.fixture.sim.observe(Some(Box::new(move |fork| {
            let durable = durable.lock().clone();
            recover(seed, fork, options, &durable, &mut random, again, &tally);
        })));
    }

    /// Changes, a merge of them, and its root in place of the one before.
    fn round(&mut self) {
        random_batch(&mut self.random, &mut self.fixture.model);
        let end = self.fixture.meta().file_bytes;
        let rewrite = self.random.below(6) == 0;
        let pending = self.fixture.prepare(rewrite).unwrap();
        if pending.meta().file_bytes <= end {
            Tally::add(&self.tally.reused);
        }
        let installed = self.fixture.meta().generation;
        if self.held.iter().any(|(root, _)| root.meta().generation < installed) {
            Tally::add(&self.tally.held);
        }
        // The manifest is written, and the crash comes before readers see the new root.
        let sim = self.fixture.sim.fork();
        let found = self.fixture.reopen(&sim, *pending.meta()).unwrap();
        let next = Durable::of(*pending.meta(), &self.fixture, &found);
        check(&found.root(), &self.fixture.model, self.fixture.model.seqnum);
        recover(self.seed, sim, self.fixture.options, &next, &mut self.random, false, &self.tally);
        *self.durable.lock() = next;
        self.fixture.tree.install(pending).unwrap();
        if self.random.below(4) == 0 {
            let permit = self.fixture.tree.merge_permit().unwrap();
            self.fixture.tree.punch_free(&permit, self.random.below(3) * 20_000).unwrap();
        }
    }

    /// Readers come and go, and see all the time what they came for.
    fn read(&mut self) {
        if self.random.below(3) == 0 {
            let root = self.fixture.tree.root();
            self.held.push((Arc::clone(&root), entries(&root)));
        }
        if self.held.len() > usize_of(self.random.below(4)) {
            self.held.remove(0);
        }
        for (root, expected) in &self.held {
            assert!(entries(root) == *expected, "what a reader holds has changed");
        }
    }
}

/// Crashes a machine, finds the root that is durable, goes on with it, and crashes in that too, if `again`.
fn recover(
    seed: u64,
    sim: SimEnv,
    options: TreeOptions,
    durable: &Durable,
    random: &mut Random,
    again: bool,
    tally: &Arc<Tally>,
) {
    sim.reseed(random.next());
    let profile = CrashProfile::EVERY[usize_of(random.below(u64_of(CrashProfile::EVERY.len())))];
    let change = sim.write_and_sync_count();
    let what = if random.below(6) == 0 {
        sim.process_crash();
        "the process died".to_owned()
    } else {
        sim.power_crash(profile);
        format!("the power failed, {profile:?}")
    };
    let fault = |fault: &dyn Display| format!("seed {seed}, before change {change}, {what}: {fault}");
    Tally::add(&tally.crashes);
    let tree = open(&sim, options, durable.meta).unwrap_or_else(|error| panic!("{}", fault(&error)));
    tree.verify(&tree.root()).unwrap_or_else(|error| panic!("{}", fault(&error)));
    assert!(entries(&tree.root()) == *durable.entries, "{}", fault(&"other entries"));
    if !again || random.below(4) > 0 {
        return;
    }
    Tally::add(&tally.again);
    let (model, cache) = (Model::clone(&durable.model), Arc::new(Cache::new(1 << 20)));
    let fixture = Fixture { sim, tree, model, options, cache };
    let mut run = Run::on(seed, fixture, Random(random.next()), tally);
    run.crash_from_here(false);
    run.round();
    run.fixture.sim.observe(None);
    run.fixture.tree.verify(&run.fixture.tree.root()).unwrap();
    check(&run.fixture.tree.root(), &run.fixture.model, run.fixture.model.seqnum);
}

/// How many crashes the test tries: `SPINNEY_CRASH_POINTS`, or 2000.
fn crash_points() -> u64 {
    count_from_env("SPINNEY_CRASH_POINTS", 2000)
}

#[test]
fn a_crash_at_any_moment_leaves_the_last_installed_root() {
    let tally = Arc::new(Tally::default());
    for seed in 1.. {
        if tally.crashes.load(Ordering::Relaxed) >= crash_points() {
            break;
        }
        let mut run = Run::new(seed, &tally);
        run.crash_from_here(true);
        for _ in 0..ROUNDS {
            run.read();
            run.round();
        }
        run.fixture.sim.observe(None);
        run.fixture.check();
    }
    eprintln!("{tally:?}");
    let reached = [&tally.again, &tally.held, &tally.reused].map(|count| count.load(Ordering::Relaxed));
    assert!(crash_points() < 2000 || reached.iter().all(|count| *count > 20), "{tally:?}");
}
