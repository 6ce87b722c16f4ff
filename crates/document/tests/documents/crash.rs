//! Crashes at changes of the disk while documents, indexes and collections change: what is left is a state after a
//! statement, everything acknowledged is in it, and each index agrees with its collection.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Durability, Options};
use spinney_document::bson::{DocumentBuf, DocumentBuilder, Value};
use spinney_document::{Database, Result, doc};
use spinney_testkit::Rng;

use crate::collections::json;

/// Statements of a run.
const STATEMENTS: usize = 60;

/// The specifications that collections get indexes of.
const INDEXES: [&str; 6] = [
    r#"{"key":{"a":1},"name":"a"}"#,
    r#"{"key":{"b":-1,"a":1},"name":"ba"}"#,
    r#"{"key":{"u":1},"name":"u","unique":true,"sparse":true}"#,
    r#"{"key":{"$**":1},"name":"all"}"#,
    r#"{"key":{"b":"hashed"},"name":"hb"}"#,
    r#"{"key":{"a":1},"name":"part","partialFilterExpression":{"b":{"$gt":1}}}"#,
];

const NAMES: [&str; 3] = ["t.one", "t.two", "s.three"];

/// A collection: its documents by `_id`, and the names of its indexes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shape {
    documents: BTreeMap<i64, String>,
    indexes: BTreeSet<String>,
}

type State = BTreeMap<String, Shape>;

/// What may be found after a crash: the state before the statement that runs, or behind it.
#[derive(Debug, Default)]
struct Progress {
    before: State,
    after: State,
    statement: String,
    crashes: usize,
    failure: Option<String>,
}

fn open(machine: &SimEnv, seed: u64) -> Result<Database> {
    let mut options = Options::default().memory_bytes(16 << 20).durability(Durability::Sync);
    if seed % 3 == 1 {
        // Commits have notes then.
        options = options.log_keep_bytes(256 << 10);
    }
    if seed.is_multiple_of(2) {
        options = options.memtable_bytes(4096).log_segment_bytes(64 << 10).log_bytes_max(128 << 10);
    }
    Database::with_engine(spinney::Database::builder("/db").options(options).env(machine.env()).open()?)
}

/// The state of a database, each of whose collections must be valid.
fn read(db: &Database) -> Result<State> {
    let (mut state, mut tables) = (State::new(), 1);
    for name in db.list_databases() {
        for listed in db.list_collections(&name) {
            let namespace = format!("{name}.{}", listed.view().get("name").unwrap().as_str().unwrap());
            let collection = db.collection(&namespace)?.unwrap();
            let validation = collection.validate()?;
            assert!(validation.is_valid(), "{namespace}: {validation:?}");
            let schema = collection.schema();
            assert!(schema.indexes.iter().all(|index| index.ready), "{namespace}: an index that is not ready");
            let mut shape = Shape::default();
            shape.indexes.extend(schema.indexes.iter().map(|index| index.spec.name.clone()));
            for document in collection.documents() {
                let document = document?;
                let id = document.view().get("_id").and_then(|id| id.as_exact_i64()).unwrap();
                shape.documents.insert(id, document.view().to_canonical_json());
            }
            tables += 1 + shape.indexes.len();
            state.insert(namespace, shape);
        }
    }
    assert_eq!(db.engine().tables()?.len(), tables, "tables that no collection or index has");
    Ok(state)
}

/// A document of few values, so that keys meet.
fn document(rng: &mut Rng, id: i64) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append("_id", id);
    let number = |rng: &mut Rng| i32::try_from(rng.in_range(0..4)).unwrap();
    match rng.in_range(0..4) {
        0 => builder.append("a", number(rng)),
        1 => builder.append("a", f64::from(number(rng))),
        2 => builder.open_array("a").push(number(rng)).push("x").push(number(rng)).close(),
        _ => &mut builder,
    };
    if rng.chance(70) {
        builder.append("b", number(rng));
    }
    if rng.chance(40) {
        builder.append("u", i32::try_from(rng.in_range(0..30)).unwrap());
    }
    builder.append("pad", "p".repeat(rng.in_range(0..200)).as_str());
    builder.finish()
}

/// A statement and the state behind it.
#[derive(Clone, Debug)]
enum Statement {
    Create(&'static str),
    Drop(&'static str),
    Rename(&'static str, &'static str),
    Index(&'static str, usize),
    DropIndex(&'static str, usize),
    Insert(&'static str, Vec<DocumentBuf>),
    Replace(&'static str, DocumentBuf),
    Delete(&'static str, i64),
    /// An insert into one collection and a removal from another, in one transaction.
    Move(&'static str, &'static str, i64),
}

impl Statement {
    fn draw(rng: &mut Rng) -> Self {
        let (name, other) = (*rng.pick(&NAMES), *rng.pick(&NAMES));
        let id = |rng: &mut Rng| i64::try_from(rng.in_range(0..25)).unwrap();
        match rng.weighted(&[4, 1, 1, 8, 2, 30, 20, 12, 8]) {
            0 => Self::Create(name),
            1 => Self::Drop(name),
            2 => Self::Rename(name, other),
            3 => Self::Index(name, rng.in_range(0..INDEXES.len())),
            4 => Self::DropIndex(name, rng.in_range(0..INDEXES.len())),
            5 => {
                let ids: Vec<i64> = (0..rng.in_range(1..6)).map(|_| id(rng)).collect();
                Self::Insert(name, ids.into_iter().map(|id| document(rng, id)).collect())
            }
            6 => {
                let id = id(rng);
                Self::Replace(name, document(rng, id))
            }
            7 => Self::Delete(name, id(rng)),
            _ => Self::Move(name, other, id(rng)),
        }
    }

    /// The state behind the statement; those that cannot be applied change nothing.
    fn apply(&self, state: &State) -> State {
        let mut after = state.clone();
        match self {
            Self::Create(name) => drop(after.entry((*name).to_owned()).or_default()),
            Self::Drop(name) => drop(after.remove(*name)),
            Self::Rename(from, to) if !state.contains_key(*to) => {
                after.remove(*from).into_iter().for_each(|shape| drop(after.insert((*to).to_owned(), shape)));
            }
            Self::Rename(..) => {}
            Self::Index(name, index) => {
                let shape = after.get_mut(*name);
                let name = json(INDEXES[*index]).view().get("name").unwrap().as_str().unwrap().to_owned();
                let can = |shape: &&mut Shape| match name.as_str() {
                    "u" => {
                        let mut seen = BTreeSet::new();
                        shape.documents.values().filter_map(|text| unique_value(text)).all(|value| seen.insert(value))
                    }
                    _ => true,
                };
                shape.filter(can).into_iter().for_each(|shape| shape.indexes.extend([name.clone()]));
            }
            Self::DropIndex(name, index) => {
                let index = json(INDEXES[*index]).view().get("name").unwrap().as_str().unwrap().to_owned();
                after.get_mut(*name).into_iter().for_each(|shape| shape.indexes.retain(|name| *name != index));
            }
            Self::Insert(name, documents) => {
                let Some(shape) = after.get_mut(*name) else { return after };
                for document in documents {
                    let id = document.view().get("_id").and_then(|id| id.as_exact_i64()).unwrap();
                    if !shape.documents.contains_key(&id) && shape.takes(id, document) {
                        shape.documents.insert(id, document.view().to_canonical_json());
                    }
                }
            }
            Self::Replace(name, document) => {
                let id = document.view().get("_id").and_then(|id| id.as_exact_i64()).unwrap();
                let shape = after.get_mut(*name);
                let shape = shape.filter(|shape| shape.documents.contains_key(&id) && shape.takes(id, document));
                shape.into_iter().for_each(|shape| {
                    shape.documents.insert(id, document.view().to_canonical_json());
                });
            }
            Self::Delete(name, id) => {
                after.get_mut(*name).into_iter().for_each(|shape| drop(shape.documents.remove(id)));
            }
            Self::Move(from, to, id) => {
                let Some(text) = state.get(*from).and_then(|shape| shape.documents.get(id)) else { return after };
                let Some(target) = after.get_mut(*to).filter(|_| from != to) else { return after };
                if target.documents.contains_key(id) || !target.takes(*id, &json(text)) {
                    return after;
                }
                target.documents.insert(*id, text.clone());
                after.get_mut(*from).into_iter().for_each(|shape| drop(shape.documents.remove(id)));
            }
        }
        after
    }

    /// Runs the statement. Refusals are part of the game: the state behind it tells whether they were right.
    fn run(&self, db: &Database) -> Result<()> {
        let spec = |index: &usize| json(INDEXES[*index]);
        match self {
            Self::Create(name) => db.create_collection(name, doc! {}.view()),
            Self::Drop(name) => db.drop_collection(name).map(drop),
            Self::Rename(from, to) => db.rename_collection(from, to, false),
            Self::Index(name, index) => match db.collection(name)? {
                Some(_) => db.create_indexes(name, &[spec(index)]).map(drop),
                None => Ok(()),
            },
            Self::DropIndex(name, index) => {
                db.drop_indexes(name, spec(index).view().get("name").unwrap().as_str().unwrap())
            }
            Self::Insert(name, documents) => {
                let Some(collection) = db.collection(name)? else { return Ok(()) };
                let documents = documents.iter().map(DocumentBuf::view);
                collection
                    .insert_many(documents, false, spinney_document::collection::WriteOptions::default())
                    .map(drop)
            }
            Self::Replace(name, document) => {
                let Some(collection) = db.collection(name)? else { return Ok(()) };
                collection.replace_by_id(document.view().get("_id").unwrap(), document.view()).map(drop)
            }
            Self::Delete(name, id) => {
                let Some(collection) = db.collection(name)? else { return Ok(()) };
                collection.delete_by_id(*id).map(drop)
            }
            Self::Move(from, to, id) => {
                let (Some(from), Some(to)) = (db.collection(from)?, db.collection(to)?) else { return Ok(()) };
                let mut txn = db.begin();
                let Some(document) = txn.find_by_id(from.state(), &Value::from(*id))? else { return Ok(()) };
                txn.insert(to.state(), document.view())?;
                txn.delete(from.state(), document.view())?;
                txn.commit()
            }
        }
    }
}

fn unique_value(text: &str) -> Option<i64> {
    json(text).view().get("u").and_then(|value| value.as_exact_i64())
}

impl Shape {
    /// Whether the constraint of the unique index lets a document in, in the place of one with its `_id`.
    fn takes(&self, id: i64, document: &DocumentBuf) -> bool {
        let value = unique_value(&document.view().to_canonical_json());
        let taken = |(other, text): (&i64, &String)| *other != id && unique_value(text) == value;
        !(self.indexes.contains("u") && value.is_some() && self.documents.iter().any(taken))
    }
}

/// Crashes a fork of the machine and looks at what is left.
fn examine(fork: &SimEnv, seed: u64, point: u64, progress: &Progress) {
    let mut rng = Rng::new(seed ^ point.wrapping_mul(0x2545_f491_4f6c_dd1d));
    fork.reseed(rng.number());
    if rng.chance(20) {
        fork.process_crash();
    } else {
        fork.power_crash(*rng.pick(&CrashProfile::EVERY));
    }
    let db = open(fork, seed).unwrap();
    let found = read(&db).unwrap();
    assert!(found == progress.before || found == progress.after, "found {found:#?}\nof {progress:#?}");
    // Life goes on, through another crash.
    let mut state = found;
    for _ in 0..4 {
        let statement = Statement::draw(&mut rng);
        let after = statement.apply(&state);
        let done = statement.run(&db);
        state = after;
        assert_eq!(read(&db).unwrap(), state, "{statement:?}: {done:?}");
    }
    fork.power_crash(CrashProfile::Strict);
    drop(db);
    assert_eq!(read(&open(fork, seed).unwrap()).unwrap(), state);
}

/// Runs the statements of a seed, and crashes one of `every` changes of the disk; how many that were.
fn run(seed: u64, every: u64) -> usize {
    let machine = SimEnv::new(seed);
    machine.set_lazy_workers(seed.is_multiple_of(3));
    let progress = Arc::new(Mutex::new(Progress::default()));
    let db = open(&machine, seed).unwrap();
    let seen = Arc::clone(&progress);
    machine.observe(Some(Box::new(move |fork| {
        let point = fork.write_and_sync_count();
        let mut progress = seen.lock().unwrap();
        if point % every != seed % every || progress.failure.is_some() {
            return;
        }
        progress.crashes += 1;
        let examined = catch_unwind(AssertUnwindSafe(|| examine(&fork, seed, point, &progress)));
        if let Err(panic) = examined {
            let what = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            progress.failure = Some(format!("seed {seed}, change {point}, during {}: {what}", progress.statement));
        }
    })));
    let (mut rng, mut state) = (Rng::new(!seed), State::new());
    for _ in 0..STATEMENTS {
        let statement = Statement::draw(&mut rng);
        let after = statement.apply(&state);
        {
            let mut progress = progress.lock().unwrap();
            (progress.before, progress.after) = (state, after.clone());
            progress.statement = format!("{statement:?}");
        }
        if rng.chance(30) {
            let _has_worked = machine.work(rng.number());
        }
        let done = statement.run(&db);
        assert_eq!(read(&db).unwrap(), after, "seed {seed}: {statement:?}: {done:?}");
        state = after;
        progress.lock().unwrap().before = state.clone();
    }
    machine.observe(None);
    drop(db);
    let mut progress = progress.lock().unwrap();
    if let Some(failure) = progress.failure.take() {
        panic!("{failure}");
    }
    progress.crashes
}

#[test]
fn every_crash_leaves_a_state_between_statements_with_valid_indexes() {
    // The number of seeds; by default enough for 5,000 crashes.
    let seeds = std::env::var("SPINNEY_DOCUMENT_CRASH_SEEDS").map_or(110, |text| text.parse().unwrap());
    let every = std::env::var("SPINNEY_DOCUMENT_CRASH_EVERY").map_or(2, |text| text.parse().unwrap());
    let crashes: usize = (0..seeds).map(|seed| run(seed, every)).sum();
    eprintln!("{crashes} crashes");
    assert!(crashes > 1000, "{crashes}");
}
