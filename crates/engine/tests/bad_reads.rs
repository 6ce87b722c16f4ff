//! A damaged block or a failing read of what a job of the background reads fails that job and nothing else: under every
//! job, layout and kind of file, a byte is flipped on the disk, and each read of the job fails or gives a flipped bit.
//! The other tables are read, written, flushed and compacted; nothing acknowledged is lost; statistics or an error tell
//! of it; and with the byte mended all is as if nothing had been.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::{Call, Fault, SimEnv};
use spinney::table::manifest::Manifest;
use spinney::{Batch, Compression, Database, Durability, ErrorKind, Layout, Options, Result, Table, TableOptions};
use spinney_testkit::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

const DIR: &str = "/db";
/// Rows of the table that meets the faults.
const ROWS: u32 = 2000;
/// Places in each file at which a byte is flipped.
const FLIPS: u64 = 8;
/// Reads of a job that fail, each by itself.
const READS: usize = 12;

type Model = BTreeMap<u32, Vec<u8>>;

/// What reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// Merges a memtable into a B-tree.
    Flush,
    /// Merges the runs over a B-tree into it.
    Merge,
    Compaction,
    /// Empties value files that are mostly dead.
    Values,
    /// Applies a range delete.
    RangeDelete,
    /// Makes the sorted view that reads paid for.
    View,
    Checkpoint,
    /// Replays more of the log than memory takes, so that it flushes.
    Recovery,
}

/// A kind of file that belongs to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Run,
    Values,
    Tree,
}

impl FileKind {
    const fn extension(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Values => "values",
            Self::Tree => "tree",
        }
    }
}

/// Each job with a layout and a kind of file that it reads there.
const CELLS: [(Job, Layout, FileKind); 17] = [
    (Job::Flush, Layout::BTree, FileKind::Tree),
    (Job::Merge, Layout::BTree, FileKind::Tree),
    (Job::Merge, Layout::BTree, FileKind::Run),
    (Job::Compaction, Layout::BTree, FileKind::Run),
    (Job::Compaction, Layout::Lsm, FileKind::Run),
    (Job::Compaction, Layout::LsmTiered, FileKind::Run),
    (Job::Values, Layout::Lsm, FileKind::Run),
    (Job::Values, Layout::Lsm, FileKind::Values),
    (Job::Values, Layout::LsmTiered, FileKind::Run),
    (Job::Values, Layout::LsmTiered, FileKind::Values),
    (Job::RangeDelete, Layout::BTree, FileKind::Tree),
    (Job::RangeDelete, Layout::Lsm, FileKind::Run),
    (Job::RangeDelete, Layout::LsmTiered, FileKind::Run),
    (Job::View, Layout::Lsm, FileKind::Run),
    (Job::View, Layout::LsmTiered, FileKind::Run),
    (Job::Checkpoint, Layout::BTree, FileKind::Tree),
    (Job::Recovery, Layout::BTree, FileKind::Tree),
];

/// What a job reads nothing of: it does not meet the damage, and goes on.
const UNREAD: [(Job, Layout, FileKind); 7] = [
    (Job::Flush, Layout::Lsm, FileKind::Run),
    (Job::Flush, Layout::LsmTiered, FileKind::Run),
    (Job::Checkpoint, Layout::Lsm, FileKind::Run),
    (Job::Checkpoint, Layout::LsmTiered, FileKind::Run),
    (Job::Recovery, Layout::Lsm, FileKind::Run),
    (Job::Recovery, Layout::LsmTiered, FileKind::Run),
    (Job::Flush, Layout::Lsm, FileKind::Values),
];

/// How often the faults of a cell were met.
#[derive(Debug, Default)]
struct Met {
    cases: u32,
    /// Cases in which statistics or an error told of the fault.
    told: u32,
    /// Cases in which a walk over the table failed before the job.
    unreadable: u32,
}

fn open(sim: &SimEnv, memory_bytes: u64) -> Result<Database> {
    sim.set_lazy_workers(true);
    let options = Options::default().memory_bytes(memory_bytes).log_segment_bytes(64 << 10);
    Database::builder(DIR).env(sim.env()).options(options).open()
}

fn table(db: &Database, name: &str) -> Table {
    db.table(name).unwrap().unwrap()
}

fn write(
    db: &Database,
    table: &Table,
    model: &mut Model,
    rows: impl Iterator<Item = u32>,
    (bytes, round): (usize, u64),
) {
    let mut batch = Batch::new();
    for row in rows {
        let value = Rng::new(u64::from(row) * 100 + round).bytes(bytes);
        batch.put(table, row.to_be_bytes(), &value);
        model.insert(row, value);
    }
    db.write_with(&batch, Durability::Sync).unwrap();
}

/// Does all work of the background, of which there is an end also where it fails.
fn work(sim: &SimEnv) {
    let steps = (0..2000).take_while(|_| sim.work(0)).count();
    assert!(steps < 2000, "the background does the same again and again");
}

/// A machine on which a job is due.
struct Fixture {
    sim: SimEnv,
    job: Job,
    layout: Layout,
    model: Model,
}

impl Fixture {
    fn new(job: Job, layout: Layout, kind: FileKind) -> Self {
        let sim = SimEnv::new(1);
        let db = open(&sim, 16 << 20).unwrap();
        for (name, layout) in [("good", Layout::Lsm), ("good tree", Layout::BTree)] {
            let options = TableOptions::default().layout(layout).run_bytes_max(16 << 10);
            let good = db.create_table(name, options).unwrap();
            write(&db, &good, &mut Model::new(), 0..100, (50, 0));
            good.flush().unwrap();
        }
        let apart = job == Job::Values || kind == FileKind::Values;
        let options = TableOptions::default()
            .layout(layout)
            .block_bytes(if layout == Layout::BTree { 4096 } else { 512 })
            .compression(Compression::None)
            .run_bytes_max(16 << 10)
            .fanout(4)
            .large_value_bytes(if apart { 100 } else { 0 });
        let bad = db.create_table("bad", options).unwrap();
        let mut fixture = Self { sim, job, layout, model: Model::new() };
        fixture.prepare(&db, &bad);
        drop((bad, db));
        fixture
    }

    fn prepare(&mut self, db: &Database, bad: &Table) {
        let (model, layout) = (&mut self.model, self.layout);
        let mut put = |rows: &mut dyn Iterator<Item = u32>, round, flush: bool| {
            write(db, bad, model, rows, (120, round));
            if flush {
                bad.flush().unwrap();
            }
        };
        put(&mut (0..ROWS), 0, true);
        match self.job {
            Job::Flush | Job::RangeDelete | Job::Checkpoint => {}
            Job::Recovery => (1..20).for_each(|round| put(&mut (0..ROWS), round, false)),
            Job::Merge => {
                // A row for each leaf: too few to be merged at once.
                put(&mut (0..ROWS).step_by(30), 1, true);
                put(&mut (0..ROWS).step_by(2), 2, true);
            }
            // Over a B-tree they must not be enough to be merged into it.
            Job::Compaction if layout == Layout::BTree => {
                (1..6).for_each(|round| put(&mut (0..ROWS).step_by(31), round, true));
            }
            Job::Compaction => (1..5).for_each(|round| put(&mut (0..ROWS).step_by(2), round, true)),
            Job::Values => (1..3).for_each(|round| put(&mut (0..ROWS).filter(|row| row % 8 != 0), round, true)),
            Job::View => (1..4).for_each(|round| put(&mut (0..ROWS).step_by(2), round, true)),
        }
        if self.job == Job::Values {
            // An eighth of the first file lives, and nothing of the others.
            let mut batch = Batch::new();
            self.model.keys().filter(|row| *row % 8 != 0).for_each(|row| batch.delete(bad, row.to_be_bytes()));
            self.model.retain(|row, _| row % 8 == 0);
            db.write_with(&batch, Durability::Sync).unwrap();
            bad.flush().unwrap();
        }
    }

    /// Opens the database and does the job, or has the background do it. What it writes of its own enters the model.
    /// The database, unless the open failed, and whether an error told that the job failed.
    fn act(&self, sim: &SimEnv, model: &mut Model) -> (Result<Database>, Option<spinney::Error>) {
        let small = if self.job == Job::Recovery { 2 << 20 } else { 16 << 20 };
        let db = match open(sim, small) {
            Ok(db) => db,
            failed => return (failed, None),
        };
        let bad = table(&db, "bad");
        let mut failed = None;
        match self.job {
            Job::Recovery => {}
            Job::Flush => {
                write(&db, &bad, model, 0..ROWS, (120, 50));
                bad.flush().unwrap();
            }
            Job::Merge | Job::Compaction | Job::Values => work(sim),
            Job::RangeDelete => {
                let (low, high) = ((ROWS / 4).to_be_bytes(), (3 * ROWS / 4).to_be_bytes());
                let mut batch = Batch::new();
                batch.delete_range(&bad, (Bound::Included(&low[..]), Bound::Excluded(&high[..])));
                db.write_with(&batch, Durability::Sync).unwrap();
                model.retain(|row, _| !(ROWS / 4..3 * ROWS / 4).contains(row));
                write(&db, &bad, model, (0..ROWS).step_by(9), (120, 50));
                bad.flush().unwrap();
                failed = bad.compact().err();
            }
            Job::View => {
                bad.hold().unwrap();
                for _ in 0..40 {
                    (0..100_u32).for_each(|row| _ = db.snapshot().range(&bad, &row.to_be_bytes()[..]..).next());
                    work(sim);
                }
            }
            Job::Checkpoint => {
                write(&db, &bad, model, 0..ROWS, (120, 50));
                failed = db.checkpoint("/copy").err();
            }
        }
        (Ok(db), failed)
    }

    /// The files of a kind that the table has.
    fn files(&self, kind: FileKind) -> Vec<PathBuf> {
        let (catalog, _) = Manifest::load(&self.sim.env(), Path::new(DIR)).unwrap().unwrap();
        let bad = catalog.tables.values().find(|table| table.name == "bad").unwrap();
        let ids: Vec<_> = match kind {
            FileKind::Run => bad.runs().map(|run| run.id).collect(),
            FileKind::Values => bad.values().into_iter().collect(),
            FileKind::Tree => bad.tree.iter().map(|(id, _)| *id).collect(),
        };
        ids.into_iter().map(|id| Path::new(DIR).join(format!("{:06}.{}", id.0, kind.extension()))).collect()
    }

    /// Flips a byte, does the job, and looks at everything; then with the byte mended.
    fn flip(&self, path: &Path, offset: u64, met: &mut Met) {
        let sim = self.sim.fork();
        sim.corrupt(path, offset, 0x10).unwrap();
        let unreadable = Unreadable::of(&open(&sim.fork(), 16 << 20).unwrap());
        let unit = || {
            let bytes = sim.read_file(path).ok()?;
            let start = usize::try_from(offset / 4096 * 4096).unwrap();
            Some(bytes[start..bytes.len().min(start + 4096)].to_vec())
        };
        let damaged = unit();
        let mut model = self.model.clone();
        let (db, failed) = self.act(&sim, &mut model);
        let db = db.unwrap_or_else(|error| panic!("a block that no open needs keeps it from opening: {error}"));
        let told = is_told(&db, failed.as_ref(), path);
        check(&sim, &db, &model, &unreadable);
        drop(db);
        met.cases += 1;
        met.told += u32::from(told);
        met.unreadable += u32::from(unreadable.walk);
        check(&sim, &open(&sim, 16 << 20).unwrap(), &model, &unreadable);
        if unit() == damaged && damaged.is_some() {
            sim.corrupt(path, offset, 0x10).unwrap();
        }
        let db = open(&sim, 16 << 20).unwrap();
        check(&sim, &db, &model, &Unreadable::default());
        table(&db, "bad").compact().unwrap();
        check(&sim, &db, &model, &Unreadable::default());
        assert_eq!(db.verify().unwrap().problems, []);
    }

    /// The reads of the job, by the numbers of their calls from its beginning, in files of a kind that were there
    /// before.
    fn reads(&self, kind: FileKind) -> Vec<u64> {
        let (sim, files) = (self.sim.fork(), self.files(kind));
        sim.begin_trace();
        let (db, _) = self.act(&sim, &mut self.model.clone());
        let viewed = table(&db.unwrap(), "bad").shape().unwrap().viewed;
        assert_eq!(viewed > 0, self.job == Job::View, "{viewed} trees in a view");
        let calls = sim.end_trace().calls;
        // What the open itself reads of trees comes before the log.
        let opened = calls.iter().position(|(_, path)| path.starts_with("/db/log")).unwrap();
        let is_read = |(index, (call, path)): (usize, &(Call, PathBuf))| {
            (*call == Call::Read && files.contains(path)).then(|| u64::try_from(index).unwrap())
        };
        calls.iter().enumerate().skip(opened).filter_map(is_read).collect()
    }

    /// Does the job with a read that fails, and looks at everything.
    fn fail(&self, at: u64, fault: Fault, met: &mut Met) {
        let (sim, mut model) = (self.sim.fork(), self.model.clone());
        sim.fail_at(sim.op_count() + at, fault);
        let (db, failed) = self.act(&sim, &mut model);
        let (call, path) = sim.struck().expect("the same calls as before");
        assert_eq!(call, Call::Read);
        sim.clear_faults();
        let db = db.unwrap();
        met.cases += 1;
        met.told += u32::from(is_told(&db, failed.as_ref(), &path));
        check(&sim, &db, &model, &Unreadable::default());
        table(&db, "bad").wait_idle().unwrap();
        check(&sim, &db, &model, &Unreadable::default());
        drop(db);
        let db = open(&sim, 16 << 20).unwrap();
        check(&sim, &db, &model, &Unreadable::default());
        assert_eq!(db.verify().unwrap().problems, []);
    }
}

/// Whether something told of the fault. What tells of it must name the file.
fn is_told(db: &Database, failed: Option<&spinney::Error>, path: &Path) -> bool {
    let stats = db.stats().flush;
    let name = path.file_name().unwrap().to_str().unwrap();
    if let Some(error) = failed {
        assert!([ErrorKind::Corruption, ErrorKind::Io].contains(&error.kind()), "{error:?}");
        assert!(error.to_string().contains(name), "{name}: {error}");
    }
    let counted = stats.failed_compactions + stats.failed_merges > 0;
    assert_eq!(counted, stats.last_failure.is_some());
    if let Some(message) = stats.last_failure {
        assert!(message.contains(name), "{name}: {message}");
    }
    counted || failed.is_some()
}

/// What cannot be read.
#[derive(Debug, Default)]
struct Unreadable {
    rows: BTreeSet<u32>,
    /// A walk meets blocks of which each row has a newer version elsewhere.
    walk: bool,
}

impl Unreadable {
    fn of(db: &Database) -> Self {
        let (snapshot, bad) = (db.snapshot(), table(db, "bad"));
        let is_unreadable = |row: &u32| snapshot.get(&bad, row.to_be_bytes()).is_err();
        let rows = (0..ROWS).filter(is_unreadable).collect();
        Self { rows, walk: snapshot.range(&bad, ..).any(|entry| entry.is_err()) }
    }
}

/// The table has all that the model has, but for rows that cannot be read and could not before; and the other tables
/// work.
fn check(sim: &SimEnv, db: &Database, model: &Model, unreadable: &Unreadable) {
    let (snapshot, bad) = (db.snapshot(), table(db, "bad"));
    for row in 0..ROWS {
        match snapshot.get(&bad, row.to_be_bytes()) {
            Ok(found) => assert_eq!(found.map(|value| value.to_vec()).as_ref(), model.get(&row), "row {row}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error:?}");
                assert!(unreadable.rows.contains(&row), "row {row} could be read before: {error}");
            }
        }
    }
    let walked: Result<Vec<_>> = snapshot.range(&bad, ..).collect();
    match walked {
        Ok(rows) => {
            let rows = rows.iter().map(|(key, value)| (key.clone(), value.to_vec()));
            assert!(rows.eq(model.iter().map(|(row, value)| (row.to_be_bytes().to_vec(), value.clone()))), "a walk");
        }
        Err(error) => assert!(error.kind() == ErrorKind::Corruption && unreadable.walk, "{error:?}"),
    }
    for name in ["good", "good tree"] {
        let (good, mut rows) = (table(db, name), Model::new());
        write(db, &good, &mut rows, 0..100, (50, sim.op_count()));
        good.flush().unwrap();
        good.compact().unwrap();
        let found = db.snapshot().range(&good, ..).map(|entry| entry.unwrap().1.to_vec()).collect::<Vec<_>>();
        assert!(found.iter().eq(rows.values()), "{name}");
    }
    let mut batch = Batch::new();
    batch.put(&bad, b"the table takes writes too", b"");
    batch.delete(&bad, b"the table takes writes too");
    db.write_with(&batch, Durability::Sync).unwrap();
}

#[test]
fn a_flipped_byte_fails_the_job_that_reads_it_and_nothing_else() {
    for (job, layout, kind) in CELLS {
        let (fixture, mut met) = (Fixture::new(job, layout, kind), Met::default());
        fixture.flip_everywhere(kind, &mut met);
        eprintln!("{job:?} {layout:?} {kind:?}: {met:?}");
        assert!(met.unreadable > 0, "{job:?} {layout:?} {kind:?}: no flip was met by a reader: {met:?}");
        // A copy of a damaged block is as damaged as the block.
        assert!(met.told > 0, "{job:?} {layout:?} {kind:?}: the job met no flip: {met:?}");
    }
}

#[test]
fn damage_that_a_job_does_not_read_does_not_fail_it() {
    for (job, layout, kind) in UNREAD {
        let (fixture, mut met) = (Fixture::new(job, layout, kind), Met::default());
        fixture.flip_everywhere(kind, &mut met);
        assert!(met.unreadable > 0, "{job:?} {layout:?} {kind:?}: no flip was met by a reader: {met:?}");
        assert_eq!(met.told, 0, "{job:?} {layout:?} {kind:?}: {met:?}");
    }
}

#[test]
fn a_failing_read_fails_the_job_and_nothing_else() {
    for (job, layout, kind) in CELLS {
        let (fixture, mut met) = (Fixture::new(job, layout, kind), Met::default());
        let reads = fixture.reads(kind);
        let step = reads.len().div_ceil(READS).max(1);
        for at in reads.iter().step_by(step) {
            for fault in [Fault::Error(std::io::ErrorKind::Other), Fault::FlippedRead] {
                fixture.fail(*at, fault, &mut met);
            }
        }
        eprintln!("{job:?} {layout:?} {kind:?}: {} reads, {met:?}", reads.len());
        assert!(met.told > 0, "{job:?} {layout:?} {kind:?}: {met:?}");
    }
}

impl Fixture {
    fn flip_everywhere(&self, kind: FileKind, met: &mut Met) {
        let files = self.files(kind);
        assert!(!files.is_empty(), "{:?} {:?}: no {kind:?}", self.job, self.layout);
        for path in files.iter().take(6) {
            let bytes = u64::try_from(self.sim.read_file(path).unwrap().len()).unwrap();
            // A run's end and the header of a tree are read by the open, which refuses them.
            let (first, last) = match kind {
                FileKind::Run => (0, bytes / 2),
                FileKind::Values => (0, bytes),
                FileKind::Tree => (4096, bytes),
            };
            (0..FLIPS).for_each(|part| self.flip(path, first + (last - first) * part / FLIPS + 100, met));
        }
    }
}
