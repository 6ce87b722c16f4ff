//! Statements, what they make of a state, and how they run.

use std::sync::Arc;

use spinney_document::bson::{DocumentBuf, Value};
use spinney_document::catalog::{CollectionOptions, IndexSpec, Namespace};
use spinney_document::collection::WriteOptions;
use spinney_document::{Collection, Database, DocumentTransaction, Result, doc};
use spinney_testkit::Rng;

use super::model::{INDEXES, NAMES, NOW_MS, Shape, State, VALIDATOR, document, index_name};
use crate::collections::json;

/// A change of a document.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Insert(DocumentBuf),
    Replace(DocumentBuf),
    Delete(i64),
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Create(&'static str),
    Drop(&'static str),
    /// All collections of the database `t`.
    DropDatabase,
    /// Whether a collection with the new name goes.
    Rename(&'static str, &'static str, bool),
    Index(&'static str, usize),
    /// One, or all.
    DropIndex(&'static str, Option<usize>),
    /// Hides an index or shows it.
    Hide(&'static str, usize, bool),
    /// Gives a collection a validator or takes it away.
    Validate(&'static str, bool),
    InsertMany(&'static str, Vec<DocumentBuf>),
    One(&'static str, Write),
    Expire(&'static str),
    /// An insert into one collection and a removal from another, in one transaction.
    Move(&'static str, &'static str, i64),
    /// Several changes in one transaction, which is given up in the end or not.
    Together(Vec<(&'static str, Write)>, bool),
    /// A collection with indexes and documents, created in one transaction, which is given up in the end or not.
    Make(&'static str, Vec<usize>, Vec<DocumentBuf>, bool),
}

impl Write {
    fn draw(rng: &mut Rng) -> Self {
        let id = i64::try_from(rng.in_range(0..25)).unwrap();
        match rng.weighted(&[4, 4, 2]) {
            0 => Self::Insert(document(rng, id)),
            1 => Self::Replace(document(rng, id)),
            _ => Self::Delete(id),
        }
    }

    /// Changes a collection; false when that is refused. What is not there is not changed, which is no refusal.
    fn apply(&self, shape: &mut Shape) -> bool {
        match self {
            Self::Insert(document) => shape.put(document, false),
            Self::Replace(document) => {
                !shape.documents.contains_key(&super::model::id_of(document)) || shape.put(document, true)
            }
            Self::Delete(id) => {
                shape.documents.remove(id);
                true
            }
        }
    }

    fn run(&self, collection: &Collection) -> Result<()> {
        match self {
            Self::Insert(document) => collection.insert_one(document.view()).map(drop),
            Self::Replace(document) => {
                collection.replace_by_id(document.view().get("_id").unwrap(), document.view()).map(drop)
            }
            Self::Delete(id) => collection.delete_by_id(*id).map(drop),
        }
    }

    fn run_in(&self, txn: &mut DocumentTransaction, collection: &Collection) -> Result<()> {
        let state = collection.state();
        match self {
            Self::Insert(document) => txn.insert(state, document.view()),
            Self::Replace(document) => match txn.find_by_id(state, &document.view().get("_id").unwrap())? {
                Some(old) => txn.replace(state, old.view(), document.view()).map(drop),
                None => Ok(()),
            },
            Self::Delete(id) => match txn.find_by_id(state, &Value::from(*id))? {
                Some(old) => txn.delete(state, old.view()),
                None => Ok(()),
            },
        }
    }
}

impl Statement {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let (name, other) = (*rng.pick(&NAMES), *rng.pick(&NAMES));
        let index = rng.in_range(0..INDEXES.len());
        match rng.weighted(&[5, 1, 1, 2, 8, 2, 2, 2, 24, 24, 2, 6, 10, 4]) {
            0 => Self::Create(name),
            1 => Self::Drop(name),
            2 if rng.chance(30) => Self::DropDatabase,
            2 | 3 => Self::Rename(name, other, rng.chance(50)),
            4 => Self::Index(name, index),
            5 => Self::DropIndex(name, rng.chance(80).then_some(index)),
            6 => Self::Hide(name, index, rng.chance(60)),
            7 => Self::Validate(name, rng.chance(60)),
            8 => {
                let ids: Vec<i64> =
                    (0..rng.in_range(1..6)).map(|_| i64::try_from(rng.in_range(0..25)).unwrap()).collect();
                Self::InsertMany(name, ids.into_iter().map(|id| document(rng, id)).collect())
            }
            9 => Self::One(name, Write::draw(rng)),
            10 => Self::Expire(name),
            11 => Self::Move(name, other, i64::try_from(rng.in_range(0..25)).unwrap()),
            12 => {
                let writes = (0..rng.in_range(1..6)).map(|_| (*rng.pick(&NAMES), Write::draw(rng))).collect();
                Self::Together(writes, rng.chance(85))
            }
            _ => {
                let indexes = (0..INDEXES.len()).filter(|_| rng.chance(25)).collect();
                let documents = (0..rng.in_range(0..5)).map(|id| document(rng, i64::try_from(id).unwrap()));
                let documents = documents.collect();
                Self::Make(name, indexes, documents, rng.chance(70))
            }
        }
    }

    /// The state behind the statement; those that cannot be applied change nothing.
    pub(crate) fn apply(&self, state: &State) -> State {
        let mut after = state.clone();
        match self {
            Self::Create(name) => drop(after.entry((*name).to_owned()).or_default()),
            Self::Drop(name) => drop(after.remove(*name)),
            Self::DropDatabase => after.retain(|name, _| !name.starts_with("t.")),
            Self::Rename(from, to, over) => {
                if from != to && state.contains_key(*from) && (*over || !state.contains_key(*to)) {
                    let shape = after.remove(*from).unwrap();
                    after.insert((*to).to_owned(), shape);
                }
            }
            Self::Together(writes, commits) => {
                let all =
                    writes.iter().all(|(name, write)| after.get_mut(*name).is_none_or(|shape| write.apply(shape)));
                return if all && *commits { after } else { state.clone() };
            }
            Self::Make(name, indexes, documents, commits) => {
                let mut shape = Shape::default();
                shape.indexes.extend(indexes.iter().map(|index| (index_name(*index), true)));
                let is_new = !state.contains_key(*name) && documents.iter().all(|document| shape.put(document, false));
                if is_new && *commits {
                    after.insert((*name).to_owned(), shape);
                }
            }
            Self::Move(from, to, id) => {
                let Some(text) = state.get(*from).and_then(|shape| shape.documents.get(id)) else { return after };
                let moved =
                    after.get_mut(*to).filter(|_| from != to).is_some_and(|shape| shape.put(&json(text), false));
                if moved {
                    after.get_mut(*from).into_iter().for_each(|shape| drop(shape.documents.remove(id)));
                }
            }
            Self::Index(name, _)
            | Self::DropIndex(name, _)
            | Self::Hide(name, ..)
            | Self::Validate(name, _)
            | Self::InsertMany(name, _)
            | Self::One(name, _)
            | Self::Expire(name) => after.get_mut(*name).into_iter().for_each(|shape| self.apply_to(shape)),
        }
        after
    }

    /// What the statement makes of the only collection that it is about.
    fn apply_to(&self, shape: &mut Shape) {
        match self {
            Self::Index(_, index) => {
                let name = index_name(*index);
                if shape.can_have(&name) {
                    shape.indexes.entry(name).or_insert(true);
                }
            }
            Self::DropIndex(_, Some(index)) => drop(shape.indexes.remove(&index_name(*index))),
            Self::DropIndex(_, None) => shape.indexes.clear(),
            Self::Hide(_, index, hide) => {
                shape.indexes.get_mut(&index_name(*index)).into_iter().for_each(|seen| *seen = !hide);
            }
            Self::Validate(_, on) => shape.validated = *on,
            Self::InsertMany(_, documents) => {
                for document in documents {
                    let _refused = shape.put(document, false);
                }
            }
            Self::One(_, write) => drop(write.apply(shape)),
            Self::Expire(_) => shape.expire(),
            _ => {}
        }
    }

    /// The states that a crash may leave, the first before and the last behind the statement.
    pub(crate) fn states(&self, before: &State) -> Vec<State> {
        let mut states = vec![before.clone()];
        if matches!(self, Self::DropDatabase) {
            // A collection after the other.
            for name in NAMES.iter().filter(|name| name.starts_with("t.")) {
                let mut state = before.clone();
                state.remove(*name);
                states.push(state);
            }
        }
        states.push(self.apply(before));
        states
    }

    /// Runs the statement. Refusals are part of the game: the state behind it tells whether they were right.
    pub(crate) fn run(&self, db: &Database) -> Result<()> {
        match self {
            Self::Create(name) => return db.create_collection(name, doc! {}.view()),
            Self::Drop(name) => return db.drop_collection(name).map(drop),
            Self::DropDatabase => return db.drop_database("t"),
            Self::Rename(from, to, over) => return db.rename_collection(from, to, *over),
            Self::Move(from, to, id) => return run_move(db, from, to, *id),
            Self::Together(writes, commits) => return run_together(db, writes, *commits),
            Self::Make(name, indexes, documents, commits) => return run_make(db, name, indexes, documents, *commits),
            _ => {}
        }
        let (Self::Index(name, _)
        | Self::DropIndex(name, _)
        | Self::Hide(name, ..)
        | Self::Validate(name, _)
        | Self::InsertMany(name, _)
        | Self::One(name, _)
        | Self::Expire(name)) = self
        else {
            return Ok(());
        };
        let Some(collection) = db.collection(name)? else { return Ok(()) };
        match self {
            Self::Index(_, index) => db.create_indexes(name, &[json(INDEXES[*index])]).map(drop),
            Self::DropIndex(_, index) => db.drop_indexes(name, &index.map_or_else(|| "*".to_owned(), index_name)),
            Self::Hide(_, index, hide) => db.modify_index(
                name,
                &index_name(*index),
                &spinney_document::catalog::IndexChanges { hidden: Some(*hide), ..Default::default() },
            ),
            Self::Validate(_, true) => db.modify_collection(name, json(VALIDATOR).view()),
            Self::Validate(_, false) => db.modify_collection(name, json(r#"{"validator":{}}"#).view()),
            Self::InsertMany(_, documents) => {
                let documents = documents.iter().map(DocumentBuf::view);
                collection.insert_many(documents, false, WriteOptions::default()).map(drop)
            }
            Self::One(_, write) => write.run(&collection),
            _ => collection.expire(NOW_MS).map(drop),
        }
    }
}

fn run_move(db: &Database, from: &str, to: &str, id: i64) -> Result<()> {
    let (Some(from), Some(to)) = (db.collection(from)?, db.collection(to)?) else { return Ok(()) };
    let mut txn = db.begin();
    let Some(document) = txn.find_by_id(from.state(), &Value::from(id))? else { return Ok(()) };
    txn.insert(to.state(), document.view())?;
    txn.delete(from.state(), document.view())?;
    txn.commit()
}

fn run_together(db: &Database, writes: &[(&'static str, Write)], commits: bool) -> Result<()> {
    let mut txn = db.begin();
    for (name, write) in writes {
        if let Some(collection) = db.collection(name)? {
            write.run_in(&mut txn, &collection)?;
        }
    }
    if commits { txn.commit() } else { Ok(()) }
}

fn run_make(db: &Database, name: &str, indexes: &[usize], documents: &[DocumentBuf], commits: bool) -> Result<()> {
    let namespace = Namespace::parse(name)?;
    let mut txn = db.begin();
    let state = txn.create_collection(&namespace, CollectionOptions::parse(doc! {}.view())?)?;
    for index in indexes {
        let specs = IndexSpec::parse_all(&[json(INDEXES[*index])], None)?;
        let state = txn.find_created(&namespace).unwrap_or_else(|| Arc::clone(&state));
        assert_eq!(txn.create_indexes(&state, &specs)?, 1);
    }
    let state = txn.find_created(&namespace).unwrap_or(state);
    documents.iter().try_for_each(|document| txn.insert(&state, document.view()))?;
    if commits { txn.commit() } else { Ok(()) }
}
