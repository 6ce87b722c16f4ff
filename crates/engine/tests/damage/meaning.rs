//! Which bytes of a database's files mean something: the list of `docs/format.md`, from what the formats say and not
//! from what is read.

use crate::database::Database;
use spinney::base::checksum::checksum;
use spinney::base::codec::Decoder;
use spinney::base::num::{u64_of, usize_of, usize_of32};
use spinney::base::{FileId, Kind};
use spinney::block::{BlockKind, BlockPointer};
use spinney::cache::{Cache, Fill};
use spinney::env::sim::SimEnv;
use spinney::env::{Access, Env};
use spinney::store::{BlockFile, StoreStats};
use spinney::table::catalog::Catalog;
use spinney::table::manifest::Manifest;
use spinney::table::record::TableRecord;
use spinney::tree::Cursor;
use spinney::tree::run::{Run, RunCursor};
use spinney::tree::values::ValuePointer;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The parts of a file that mean something.
#[derive(Default)]
pub(crate) struct Meaning {
    parts: Vec<Range<usize>>,
    /// Of each byte whether it lies in a part.
    means: Vec<bool>,
    /// Where the part begins of which a crash may leave anything, because nothing behind it proves that it was durable.
    pub(crate) tail: Option<usize>,
}

impl Meaning {
    /// Those of all files of a database. A file that is missing means nothing at all, like the lock and spare segments.
    pub(crate) fn of_files(database: &Database) -> BTreeMap<PathBuf, Self> {
        let (sim, dir) = (&database.sim, &*database.path);
        let env = sim.env();
        let (catalog, manifest) = Manifest::load(&env, dir).expect("it is sound").expect("it is there");
        let mut files = Files { env: &env, dir, id: catalog.database_id, found: BTreeMap::new() };
        catalog.tables.values().for_each(|table| files.table(table));
        let mut found = files.found;
        let current = dir.join("CURRENT");
        let bytes = sim.read_file(&current).expect("it is there");
        found.insert(current, Self::of(0..bytes.len()));
        let path = dir.join(format!("{:06}.manifest", manifest.0));
        found.insert(path.clone(), manifest_frames(&sim.read_file(path).expect("it is there")));
        found.extend(log(sim, &dir.join("log"), &catalog));
        found
    }

    fn of(part: Range<usize>) -> Self {
        let mut meaning = Self::default();
        meaning.add(part);
        meaning
    }

    fn add(&mut self, part: Range<usize>) {
        self.means.resize(self.means.len().max(part.end), false);
        self.means[part.clone()].fill(true);
        self.parts.push(part);
    }

    /// Whether nothing in the file means anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn parts(&self) -> &[Range<usize>] {
        &self.parts
    }

    /// Where parts begin and end.
    pub(crate) fn borders(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().flat_map(|part| [part.start, part.end])
    }

    /// Whether one of the bytes means something.
    pub(crate) fn meets(&self, bytes: &[usize]) -> bool {
        bytes.iter().any(|at| self.means.get(*at).is_some_and(|means| *means))
    }
}

/// The trees' files.
struct Files<'a> {
    env: &'a Env,
    dir: &'a Path,
    /// The database's.
    id: u64,
    found: BTreeMap<PathBuf, Meaning>,
}

impl Files<'_> {
    fn open(&self, id: FileId, extension: &str) -> (PathBuf, BlockFile) {
        let path = self.dir.join(format!("{:06}.{extension}", id.0));
        let identity = self.id ^ (id.0 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let file = BlockFile::open(self.env, &path, identity, Access::Read, false, Arc::new(StoreStats::default()));
        (path, file.expect("it is there"))
    }

    fn table(&mut self, table: &TableRecord) {
        for run in table.runs() {
            let (path, file) = self.open(run.id, "run");
            // Frames and the footer, without anything between them.
            self.found.entry(path).or_default().add(0..usize_of(run.meta.bytes));
            let run = Run::of(file, run.meta.clone(), Arc::new(Cache::new(1 << 20))).expect("it is sound");
            let mut cursor = RunCursor::over(&run, Fill::Bypass);
            cursor.first().expect("it can be read");
            while let Some(entry) = cursor.entry() {
                if entry.kind == Kind::PutPointer {
                    let pointer = ValuePointer::decode(entry.value).expect("it is sound");
                    let (path, _) = self.open(pointer.file, "values");
                    self.found.entry(path).or_default().add(frame_of(pointer.block));
                }
                cursor.next().expect("it can be read");
            }
        }
        if let Some((id, meta)) = &table.tree {
            let (path, file) = self.open(*id, "tree");
            let mut meaning = Meaning::of(0..32);
            meta.free_list.into_iter().for_each(|pointer| meaning.add(frame_of(pointer)));
            meta.root.into_iter().for_each(|root| blocks_below(&file, root, &mut meaning));
            self.found.insert(path, meaning);
        }
    }
}

fn frame_of(pointer: BlockPointer) -> Range<usize> {
    usize_of(pointer.offset)..usize_of(pointer.end())
}

/// The block that `pointer` names and all that it leads to.
fn blocks_below(file: &BlockFile, pointer: BlockPointer, meaning: &mut Meaning) {
    meaning.add(frame_of(pointer));
    let block = file.read(pointer).expect("it is sound");
    for child in (0..block.count()).filter(|_| block.kind() == BlockKind::Branch) {
        let child = BlockPointer::decode(&mut Decoder::new(block.value(child))).expect("it is sound");
        blocks_below(file, child, meaning);
    }
}

/// Header and frames, without the zeros behind them.
fn manifest_frames(bytes: &[u8]) -> Meaning {
    let (mut meaning, mut at) = (Meaning::of(0..32), 32);
    while bytes[at..].iter().any(|byte| *byte != 0) {
        let end = at + 16 + usize_of32(Decoder::new(&bytes[at + 8..]).u32().expect("a length"));
        meaning.add(at..end);
        // Without its first record there is no manifest.
        if at > 32 {
            meaning.tail = Some(at);
        }
        at = end;
    }
    meaning
}

/// The kind of a record that begins a group.
const GROUP: u32 = 5;
/// The kind of the record with which a closed log ends.
const END: u32 = 6;

/// A segment's header, as far as it is needed here.
struct Segment {
    path: PathBuf,
    bytes: Vec<u8>,
    seals: bool,
    identity: u64,
    number: u64,
    first: u64,
    previous: u64,
    previous_end: u64,
}

impl Segment {
    fn new(path: PathBuf, bytes: Vec<u8>) -> Self {
        let field = |at: usize| Decoder::new(&bytes[at..]).u64().expect("a field");
        let (database, number) = (field(16), field(24));
        let identity = checksum(database, number, b"segment");
        let (seals, first, previous, previous_end) = (field(12) & 0xff == 2, field(40), field(48), field(56));
        Self { path, bytes, seals, identity, number, first, previous, previous_end }
    }

    /// Where the record at `at` ends, if there is one, and its kind.
    fn record(&self, at: usize) -> Option<(usize, u32)> {
        let word = Decoder::new(self.bytes.get(at + 8..)?).u32().ok()?;
        let end = at + 12 + usize_of32(word & 0x0fff_ffff);
        let lsn = self.first + u64_of(at) - 4096;
        let sum = checksum(self.identity, lsn, self.bytes.get(at + 8..end)?);
        (self.bytes[at..at + 8] == sum.to_le_bytes()).then_some((end, word >> 28))
    }

    /// The header and the records up to where a later segment sealed this one.
    fn meaning(&self, sealed: Option<u64>) -> Meaning {
        let (mut meaning, mut at) = (Meaning::of(0..4096), 4096);
        let end = sealed.map_or(self.bytes.len(), |lsn| usize_of((lsn + 4096).saturating_sub(self.first)));
        while at < end {
            let start = if self.record(at).is_some() { at } else { at.next_multiple_of(4096) };
            let Some((next, kind)) = self.record(start) else { break };
            // A group of the end mark alone says nothing of the data.
            if kind == GROUP && self.record(next).is_some_and(|(_, kind)| kind == END) {
                break;
            }
            if kind == GROUP {
                meaning.tail = Some(start);
            }
            meaning.add(start..next);
            at = next;
        }
        meaning
    }
}

/// The segments that a recovery reads.
fn log(sim: &SimEnv, dir: &Path, catalog: &Catalog) -> BTreeMap<PathBuf, Meaning> {
    let paths = crate::matrix::files_below(sim, dir).into_iter();
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let segment = |path: PathBuf| {
        let segment = Segment::new(path.clone(), sim.read_file(path).expect("it is there"));
        (segment.number, segment)
    };
    let segments: BTreeMap<_, _> = paths.map(segment).collect();
    let mut found = BTreeMap::new();
    let mut next: Option<&Segment> = None;
    let mut wanted = segments.last_key_value().map(|(_, segment)| segment);
    while let Some(segment) = wanted {
        let sealed = next.filter(|next| next.seals).map(|next| next.previous_end);
        let mut meaning = segment.meaning(sealed);
        if next.is_some() {
            meaning.tail = None;
        }
        found.insert(segment.path.clone(), meaning);
        next = Some(segment);
        wanted = segments.get(&segment.previous).filter(|_| segment.previous_end > catalog.log_from.0);
    }
    found
}
