//! Serializable transactions: random ones that take turns, each run again on what was committed when its commit
//! succeeds; it must see the same.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use spinney::env::sim::SimEnv;
use spinney::{Batch, Database, ErrorKind, Isolation, Layout, Options, Result, Table, TableOptions, Transaction};
use spinney_testkit::{Rng, interrupt};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];
const KEYS: u8 = 16;
const SLOTS: usize = 3;

type Model = BTreeMap<u8, u64>;
type Read = Vec<(u8, Option<u64>)>;

/// A step of a transaction.
#[derive(Clone, Debug)]
enum Step {
    Get(u8),
    Contains(u8),
    MultiGet(Vec<u8>),
    Walk(Walk),
    Put(u8, u64),
    Delete(u8),
    Erase(u8, u8),
    Add(u8, u64),
}

/// So many entries from the front of a range, so many from its back, and so many from where it is then sent.
#[derive(Clone, Debug)]
struct Walk {
    bounds: (Bound<u8>, Bound<u8>),
    backward: bool,
    front: usize,
    back: usize,
    seek: Option<(u8, usize)>,
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("all values are numbers"))
}

impl Walk {
    fn draw(rng: &mut Rng) -> Self {
        let mut bound = || match rng.in_range(0..4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(key(rng)),
            _ => Bound::Included(key(rng)),
        };
        let bounds = (bound(), bound());
        let seek = rng.chance(30).then(|| (key(rng), rng.in_range(0..4)));
        let back = if rng.chance(30) { rng.in_range(0..4) } else { 0 };
        Self { bounds, backward: rng.chance(50), front: *rng.pick(&[0, 1, 2, 5, 99]), back, seek }
    }

    fn run(&self, txn: &Transaction, table: &Table) -> Result<Read> {
        let bytes = |bound: &Bound<u8>| bound.as_ref().map(|key| vec![*key]);
        let bounds = (bytes(&self.bounds.0), bytes(&self.bounds.1));
        let mut range = if self.backward { txn.range_rev(table, bounds) } else { txn.range(table, bounds) };
        let mut read = Read::new();
        for at in 0..self.front + self.back {
            let entry = if at < self.front { range.next() } else { range.next_back() };
            read.push(entry.transpose()?.map_or((KEYS, None), |(key, value)| (key[0], Some(number(&value)))));
        }
        let Some((to, count)) = self.seek else { return Ok(read) };
        range.seek([to]);
        for _ in 0..count {
            let entry = range.next().transpose()?;
            read.push(entry.map_or((KEYS, None), |(key, value)| (key[0], Some(number(&value)))));
        }
        Ok(read)
    }

    fn replay(&self, model: &Model) -> Read {
        let (low, high) = self.bounds;
        let within = |key: &u8| {
            let above = match low {
                Bound::Included(low) => *key >= low,
                Bound::Excluded(low) => *key > low,
                Bound::Unbounded => true,
            };
            let below = match high {
                Bound::Included(high) => *key <= high,
                Bound::Excluded(high) => *key < high,
                Bound::Unbounded => true,
            };
            above && below
        };
        let mut entries: Vec<_> =
            model.iter().filter(|(key, _)| within(key)).map(|(key, value)| (*key, *value)).collect();
        if self.backward {
            entries.reverse();
        }
        let (mut front, mut back, mut read) = (0, entries.len(), Read::new());
        for at in 0..self.front + self.back {
            if front == back {
                read.push((KEYS, None));
            } else if at < self.front {
                read.push((entries[front].0, Some(entries[front].1)));
                front += 1;
            } else {
                back -= 1;
                read.push((entries[back].0, Some(entries[back].1)));
            }
        }
        let Some((to, count)) = self.seek else { return read };
        let is_before = |(key, _): &(u8, u64)| if self.backward { *key > to } else { *key < to };
        front = entries[..back].partition_point(is_before);
        for at in front..front + count {
            let entry = entries[..back].get(at);
            read.push(entry.map_or((KEYS, None), |(key, value)| (*key, Some(*value))));
        }
        read
    }
}

fn key(rng: &mut Rng) -> u8 {
    u8::try_from(rng.in_range(0..usize::from(KEYS))).expect("small")
}

impl Step {
    fn draw(rng: &mut Rng) -> Self {
        match rng.in_range(0..20) {
            0..4 => Self::Get(key(rng)),
            4 => Self::Contains(key(rng)),
            5 => Self::MultiGet((0..4).map(|_| key(rng)).collect()),
            6..11 => Self::Walk(Walk::draw(rng)),
            11..15 => Self::Put(key(rng), rng.number() % 1000),
            15..17 => Self::Delete(key(rng)),
            17 => {
                let (low, high) = (key(rng), key(rng));
                Self::Erase(low, high.min(low + 3))
            }
            _ => Self::Add(key(rng), rng.number() % 10),
        }
    }

    fn run(&self, txn: &mut Transaction, table: &Table) -> Result<Read> {
        match self {
            Self::Get(key) => Ok(vec![(*key, txn.get(table, [*key])?.map(|value| number(&value)))]),
            Self::Contains(key) => Ok(vec![(*key, txn.contains(table, [*key])?.then_some(0))]),
            Self::MultiGet(keys) => {
                let values = txn.multi_get(table, &keys.iter().map(|key| [*key]).collect::<Vec<_>>())?;
                Ok(keys.iter().zip(values).map(|(key, value)| (*key, value.map(|value| number(&value)))).collect())
            }
            Self::Walk(walk) => walk.run(txn, table),
            Self::Put(key, value) => txn.put(table, [*key], value.to_le_bytes()).map(|()| Read::new()),
            Self::Delete(key) => txn.delete(table, [*key]).map(|()| Read::new()),
            Self::Erase(low, high) => txn.delete_range(table, [*low]..[*high]).map(|()| Read::new()),
            Self::Add(key, operand) => txn.merge(table, [*key], operand.to_le_bytes()).map(|()| Read::new()),
        }
    }

    fn replay(&self, model: &mut Model) -> Read {
        match self {
            Self::Get(key) => return vec![(*key, model.get(key).copied())],
            Self::Contains(key) => return vec![(*key, model.contains_key(key).then_some(0))],
            Self::MultiGet(keys) => return keys.iter().map(|key| (*key, model.get(key).copied())).collect(),
            Self::Walk(walk) => return walk.replay(model),
            Self::Put(key, value) => drop(model.insert(*key, *value)),
            Self::Delete(key) => drop(model.remove(key)),
            Self::Erase(low, high) => model.retain(|key, _| !(low..high).contains(&key)),
            Self::Add(key, operand) => *model.entry(*key).or_default() += operand,
        }
        Read::new()
    }

    fn writes(&self) -> bool {
        match self {
            Self::Put(..) | Self::Delete(_) | Self::Add(..) => true,
            Self::Erase(low, high) => low < high,
            _ => false,
        }
    }
}

/// A transaction under way, what it has read, and how many commits came before it.
struct Session {
    txn: Transaction,
    steps: Vec<(Step, Read)>,
    begun: usize,
}

#[derive(Default)]
struct Seen {
    committed: usize,
    conflicts: usize,
    skews: usize,
}

/// Now and then a flush, a compaction, a write or a load beside the transactions; says whether it changed rows.
fn change_outside(rng: &mut Rng, table: &Table, model: &mut Model) -> bool {
    match rng.in_range(0..40) {
        0 => table.flush().expect("a machine in order"),
        1 => table.compact().expect("a machine in order"),
        2 => {
            let (key, value) = (key(rng), rng.number() % 1000);
            table.put([key], value.to_le_bytes()).expect("a write");
            Step::Put(key, value).replay(model);
            return true;
        }
        3 => {
            let mut load = table.bulk_load().expect("a load");
            for key in (key(rng)..KEYS).step_by(3) {
                load.push(&[key], &7_u64.to_le_bytes()).expect("a load");
                model.insert(key, 7);
            }
            load.finish().expect("a load");
            return true;
        }
        _ => {}
    }
    false
}

fn run(seed: u64, isolation: Isolation, seen: &mut Seen) {
    let (sim, mut rng) = (SimEnv::new(seed), Rng::new(seed));
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    let db = Database::builder("/db").env(sim.env()).options(options).open().expect("a machine in order");
    let options = TableOptions::default().layout(*rng.pick(&LAYOUTS)).merge("add");
    let table = db.create_table("t", options).expect("a machine in order");
    let (mut model, mut commits) = (Model::new(), 0);
    let mut slots = <[Option<Session>; SLOTS]>::default();
    for _ in 0..200 {
        commits += usize::from(change_outside(&mut rng, &table, &mut model));
        let slot = &mut slots[rng.in_range(0..SLOTS)];
        let Some(session) = slot else {
            *slot = Some(Session { txn: db.begin_with(isolation), steps: Vec::new(), begun: commits });
            continue;
        };
        if session.steps.len() < 2 || rng.chance(70) {
            let step = Step::draw(&mut rng);
            let read = step.run(&mut session.txn, &table).expect("a step");
            session.steps.push((step, read));
            continue;
        }
        let Some(Session { txn, steps, begun }) = slot.take() else { continue };
        let mut after = model.clone();
        let changed = steps.iter().filter(|(step, read)| step.replay(&mut after) != *read).count();
        let unchanged = changed == 0;
        match txn.commit() {
            Ok(()) => {
                let writes = steps.iter().any(|(step, _)| step.writes());
                seen.skews += usize::from(writes && !unchanged);
                assert!(
                    isolation == Isolation::Snapshot || !writes || unchanged,
                    "seed {seed}: {steps:#?} on {model:?}"
                );
                seen.committed += 1;
                if writes {
                    model = after;
                    commits += 1;
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "seed {seed}: {error}");
                assert!(commits > begun, "seed {seed}: nothing was committed meanwhile");
                assert!(steps.iter().any(|(step, _)| step.writes()), "seed {seed}: it wrote nothing");
                seen.conflicts += 1;
            }
        }
    }
    drop(slots);
    let found = table.range(..).map(|entry| entry.map(|(key, value)| (key[0], number(&value))));
    assert_eq!(found.collect::<Result<Model>>().expect("a read"), model, "seed {seed}");
}

fn count() -> u64 {
    std::env::var("SPINNEY_SERIALIZABLE").map_or(2000, |count| count.parse().expect("a number of histories"))
}

#[test]
fn what_a_serializable_transaction_read_is_true_when_it_commits() {
    let mut seen = Seen::default();
    (0..count()).for_each(|seed| run(seed, Isolation::Serializable, &mut seen));
    assert!(seen.committed > seen.conflicts && seen.conflicts > 1000 && seen.skews == 0);
}

/// So the test can fail.
#[test]
fn what_a_snapshot_transaction_read_may_have_changed_when_it_commits() {
    let mut seen = Seen::default();
    (0..200).for_each(|seed| run(seed, Isolation::Snapshot, &mut seen));
    assert!(seen.skews > 100, "{}", seen.skews);
}

/// Beside what it read others may change what they like.
#[test]
fn a_serializable_transaction_conflicts_with_nothing_that_it_did_not_read() {
    for layout in LAYOUTS {
        let db = Database::builder("/db").env(SimEnv::new(1).env()).open().expect("a machine in order");
        let options = TableOptions::default().layout(layout);
        let table = db.create_table("t", options).expect("a machine in order");
        for key in 0..100_u8 {
            table.put([key], "v").expect("a put");
        }
        let mut txn = db.begin_with(Isolation::Serializable);
        let mut front = txn.range(&table, [10]..);
        for key in 10..13 {
            assert_eq!(front.next().expect("an entry").expect("a read").0, [key]);
        }
        drop(front);
        let mut both = txn.range_rev(&table, [30]..[40]);
        assert_eq!(both.next().expect("an entry").expect("a read").0, [39]);
        assert_eq!(both.next_back().expect("an entry").expect("a read").0, [30]);
        both.seek([35]);
        assert_eq!(both.next().expect("an entry").expect("a read").0, [35]);
        drop(both);
        txn.get(&table, [50]).expect("a read");
        txn.put(&table, [99], "own").expect("a put");
        for key in (0..99_u8).filter(|key| ![10, 11, 12, 30, 35, 39, 50].contains(key)) {
            table.put([key], "other").expect("a put");
        }
        let mut batch = Batch::new();
        batch.delete_range(&table, &[60][..]..&[70][..]);
        db.write(&batch).expect("a write");
        txn.commit().unwrap_or_else(|error| panic!("{layout:?}: {error}"));
    }
}

/// More than the set of reads keeps one by one, and more changes than are kept for the check.
#[test]
fn a_large_serializable_transaction_notices_one_change_among_many() {
    for (others, changed) in [(10, false), (10, true), (10_000, false), (10_000, true)] {
        let db = Database::builder("/db").env(SimEnv::new(1).env()).open().expect("a machine in order");
        let [read, other] =
            ["read", "other"].map(|name| db.create_table(name, TableOptions::default()).expect("a table"));
        let mut batch = Batch::new();
        (0..50_000_u32).for_each(|key| batch.put(&read, key.to_be_bytes(), "v"));
        db.write(&batch).expect("a write");
        let mut txn = db.begin_with(Isolation::Serializable);
        for key in (0..50_000_u32).step_by(2) {
            txn.get(&read, key.to_be_bytes()).expect("a read");
        }
        txn.put(&other, "own", "v").expect("a put");
        for key in 0..others {
            other.put(u32::to_be_bytes(key), "v").expect("a put");
        }
        if changed {
            read.put(40_000_u32.to_be_bytes(), "other").expect("a put");
        }
        let conflicts = txn.commit().is_err_and(|error| error.kind() == ErrorKind::Conflict);
        assert_eq!(conflicts, changed, "{others} other changes");
    }
}

/// The reads of a large transaction are looked up without the commit latch: a commit may come before each of them.
#[test]
fn a_commit_at_any_call_of_the_check_of_a_large_serializable_transaction_is_noticed() {
    const KEYS: u32 = 4000;
    let sim = SimEnv::new(1);
    let options = Options::default().memory_bytes(4 << 20);
    let db = Database::builder("/db").env(sim.env()).options(options).open().expect("a machine in order");
    let [read, own, large] =
        ["read", "own", "large"].map(|name| db.create_table(name, TableOptions::default()).expect("a new table"));
    let load = |table: &Table, bytes: usize| {
        let mut load = table.bulk_load().expect("a load");
        (0..KEYS).for_each(|key| load.push(&key.to_be_bytes(), &vec![7; bytes]).expect("keys ascend"));
        load.finish().expect("a machine in order");
    };
    load(&read, 200);
    load(&large, 2000);
    let mut attempts = 0;
    // Each time of other keys, which the cache does not know to be read often.
    let mut commit = |changed: Option<usize>, place: u64| {
        attempts += 1;
        let keys = [0, 1, 2].map(|part| KEYS / 3 * part + 40 * attempts);
        let mut txn = db.begin_with(Isolation::Serializable);
        for key in keys {
            txn.get(&read, key.to_be_bytes()).expect("a read");
        }
        txn.put(&own, "k", "v").expect("a put");
        // Of the changes before a load none are kept for the check.
        load(&own, 1);
        // What the check looks up is not in the cache any more.
        for key in 0..KEYS {
            large.get(key.to_be_bytes()).expect("a read");
        }
        let change = || changed.map(|key| read.put(keys[key].to_be_bytes(), "changed").expect("a put"));
        let met = interrupt::at_call(&sim, (place, Duration::from_secs(20)), || txn.commit(), change);
        (met.worked.map_err(|error| error.kind()), met.inside, met.calls)
    };
    let (unchanged, _, calls) = commit(None, u64::MAX);
    assert!(unchanged == Ok(()) && calls > 3, "{unchanged:?} after {calls} calls");
    for (place, key) in (0..3).flat_map(|place| [0, 1, 2].map(|key| (place, key))) {
        let (committed, is_inside, _) = commit(Some(key), place);
        assert!(is_inside, "a latch is held at call {place}");
        assert_eq!(committed, Err(ErrorKind::Conflict), "key {key} before call {place}");
    }
}
