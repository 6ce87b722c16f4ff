//! Members that agree by a list: what the primary commits is added to it and applied, the others follow.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use spinney::env::sim::SimEnv;
use spinney::{Layout, Options, Table, TableId, TableOptions};
use spinney_document::base::System;
use spinney_document::catalog::Catalog;
use spinney_document::{Agreed, Committer, Database, Error, ErrorCode, Pending, PreparedCommit, Result};

/// The table in which each member keeps how far it has applied.
const APPLIED: &str = "applied";

/// What the members have agreed on.
#[derive(Clone, Debug)]
enum Entry {
    Commit { record: Vec<u8>, tables: Vec<(TableId, String)> },
    Create(String, Layout),
    Drop(Vec<String>),
}

/// What the members have agreed on, in its order. The position of an entry is its index plus one.
#[derive(Debug, Default)]
pub(super) struct Agreement(Mutex<Vec<Entry>>);

impl Agreement {
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// The last entries are lost: no other member has them.
    pub(super) fn lose_behind(&self, len: usize) {
        self.0.lock().unwrap().truncate(len);
    }
}

/// Commits on one member.
#[derive(Debug)]
pub(super) struct Commits {
    agreement: Arc<Agreement>,
    catalog: OnceLock<Weak<Catalog>>,
    applied: OnceLock<Table>,
    is_primary: AtomicBool,
    /// How many entries it adds before it is cut off.
    left: AtomicUsize,
    /// How many commits are waited for, until a thread does not wait for what others may still agree on.
    waited_for: AtomicUsize,
    /// What was given up, with its position.
    given_up: Mutex<Vec<(usize, PreparedCommit)>>,
}

fn not_primary() -> Error {
    Error::new(ErrorCode::new(10107), "not primary")
}

fn interrupted() -> Error {
    Error::new(ErrorCode::new(11602), "operation was interrupted")
}

impl Commits {
    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.get().unwrap().upgrade().unwrap()
    }

    /// Whether another entry may be added.
    fn take_turn(&self) -> Result<()> {
        if !self.is_primary.load(Ordering::Relaxed) {
            return Err(not_primary());
        }
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| interrupted())
    }

    fn apply(&self, at: usize, entry: &Entry, mut own: Option<PreparedCommit>) -> Result<()> {
        let (catalog, applied) = (self.catalog(), self.applied.get().unwrap());
        let position = u64::try_from(at + 1).unwrap();
        match entry {
            Entry::Commit { record, tables } => {
                let agreed = Agreed { record, tables, position, stored: None };
                return catalog.apply(&agreed, &mut own, |batch| batch.put(applied, "at", position.to_le_bytes()));
            }
            Entry::Create(name, layout) => catalog.apply_create_table(name, *layout)?,
            Entry::Drop(names) => catalog.apply_drop_tables(names)?,
        }
        Ok(applied.put("at", position.to_le_bytes())?)
    }

    fn agree(&self, entry: Entry) -> Result<()> {
        self.take_turn()?;
        let mut entries = self.agreement.0.lock().unwrap();
        self.apply(entries.len(), &entry, None)?;
        entries.push(entry);
        Ok(())
    }
}

impl Committer for Commits {
    fn commit(&self, commit: Pending) -> Result<()> {
        self.take_turn()?;
        let mut prepared = commit.prepare()?;
        let mut entries = self.agreement.0.lock().unwrap();
        prepared.stamp();
        let tables = prepared.tables().map(|(id, name)| (id, name.to_owned())).collect();
        let entry = Entry::Commit { record: prepared.record().to_vec(), tables };
        entries.push(entry.clone());
        let left = self.waited_for.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_err() {
            // Nothing is written behind it before its fate is known.
            self.left.store(0, Ordering::Relaxed);
            self.given_up.lock().unwrap().push((entries.len() - 1, prepared));
            return Err(interrupted());
        }
        self.apply(entries.len() - 1, &entry, Some(prepared))
    }

    fn create_table(&self, name: &str, layout: Layout) -> Result<Table> {
        self.agree(Entry::Create(name.to_owned(), layout))?;
        Ok(self.catalog().engine().table(name)?.unwrap())
    }

    fn drop_tables(&self, names: &[String]) -> Result<()> {
        self.agree(Entry::Drop(names.to_vec()))
    }
}

/// A member.
pub(super) struct Member {
    pub(super) machine: SimEnv,
    pub(super) db: Database,
    commits: Arc<Commits>,
}

impl Member {
    pub(super) fn open(machine: SimEnv, agreement: &Arc<Agreement>) -> Self {
        Self::open_at("/db", machine, agreement)
    }

    pub(super) fn open_at(path: &str, machine: SimEnv, agreement: &Arc<Agreement>) -> Self {
        let options = Options::default().memory_bytes(16 << 20).log_keep_bytes(8 << 20);
        let engine = spinney::Database::builder(path).options(options).env(machine.env()).open().unwrap();
        // Ids of tables differ between members, those of the first tables too.
        if agreement.len() > 0 && engine.table(APPLIED).unwrap().is_none() {
            engine.create_table("passing", TableOptions::default()).unwrap();
            engine.drop_table("passing").unwrap();
        }
        let applied = engine.open_or_create_table(APPLIED, TableOptions::default()).unwrap();
        let commits = Arc::new(Commits {
            agreement: Arc::clone(agreement),
            catalog: OnceLock::new(),
            applied: OnceLock::from(applied),
            is_primary: AtomicBool::new(false),
            left: AtomicUsize::new(usize::MAX),
            waited_for: AtomicUsize::new(usize::MAX),
            given_up: Mutex::default(),
        });
        let committer: Arc<dyn Committer> = Arc::<Commits>::clone(&commits);
        let db = Database::with_committer(engine, Arc::new(System), committer).unwrap();
        commits.catalog.set(Arc::downgrade(db.catalog())).unwrap();
        Self { machine, db, commits }
    }

    /// How many entries it has applied.
    pub(super) fn applied(&self) -> usize {
        let stored = self.commits.applied.get().unwrap().get("at").unwrap();
        stored.map_or(0, |stored| usize::try_from(u64::from_le_bytes(*stored.first_chunk().unwrap())).unwrap())
    }

    /// Applies what was agreed on up to an entry.
    pub(super) fn follow_to(&self, end: usize) {
        let entries = self.commits.agreement.0.lock().unwrap();
        for (at, entry) in entries.iter().enumerate().take(end).skip(self.applied()) {
            self.commits.apply(at, entry, None).unwrap();
        }
    }

    pub(super) fn follow(&self) {
        self.follow_to(self.commits.agreement.len());
    }

    /// It is primary from now on, behind all that was agreed on.
    pub(super) fn lead(&self) {
        self.follow();
        self.commits.is_primary.store(true, Ordering::Relaxed);
        self.commits.left.store(usize::MAX, Ordering::Relaxed);
        self.db.catalog().clean_up().unwrap();
    }

    pub(super) fn step_down(&self) {
        self.commits.is_primary.store(false, Ordering::Relaxed);
    }

    /// It adds so many entries more, and is cut off then.
    pub(super) fn cut_off_behind(&self, entries: usize) {
        self.commits.left.store(entries, Ordering::Relaxed);
    }

    /// Commits are given up before it is known what becomes of them.
    pub(super) fn give_up(&self, gives_up: bool) {
        self.give_up_behind(if gives_up { 0 } else { usize::MAX });
    }

    /// So are those behind some more.
    pub(super) fn give_up_behind(&self, commits: usize) {
        self.commits.waited_for.store(commits, Ordering::Relaxed);
        self.commits.left.store(usize::MAX, Ordering::Relaxed);
    }

    /// What was given up is applied after all, or is lost.
    pub(super) fn end_given_up(&self, applies: bool) {
        for (at, prepared) in self.commits.given_up.lock().unwrap().drain(..) {
            if applies {
                let entry = self.commits.agreement.0.lock().unwrap()[at].clone();
                self.commits.apply(at, &entry, Some(prepared)).unwrap();
            }
        }
    }
}
