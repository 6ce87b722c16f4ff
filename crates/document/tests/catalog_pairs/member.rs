//! A database of the suite: alone, or one of two that apply what a list holds.
//!
//! What the first commits is added to the list and applied, in the order of the list and one entry at a time, by the
//! thread that commits; the second applies the entries when the suite says so. An entry is in the list before it is
//! applied, as with consensus: what a crash takes from a database is applied again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use spinney::env::sim::SimEnv;
use spinney::{Layout, Options, Table, TableId, TableOptions};
use spinney_document::base::Environment;
use spinney_document::catalog::Catalog;
use spinney_document::{Agreed, Committer, Database, Error, ErrorCode, Pending, PreparedCommit, Result};
use spinney_testkit::Rng;

use crate::meeting::reach;

/// The table in which each member keeps how far it has applied.
pub(crate) const APPLIED: &str = "applied";

/// The time of the document database: 2027-01-15.
pub(crate) const NOW_MS: i64 = 1_800_000_000_000;

/// How long a change of a collection waits for transactions, in milliseconds: a user that waits for one that waits for
/// it is refused then.
const CHANGE_WAIT_MS: u64 = 400;

/// What the members have agreed on.
#[derive(Clone, Debug)]
enum Entry {
    Commit { record: Vec<u8>, tables: Vec<(TableId, String)> },
    Create(String, Layout),
    Drop(Vec<String>),
}

/// What the members have agreed on, in its order. The position of an entry is its index plus one.
#[derive(Debug, Default)]
pub(crate) struct Agreement(Mutex<Vec<Entry>>);

impl Agreement {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Commits on one member.
#[derive(Debug)]
struct Commits {
    agreement: Arc<Agreement>,
    catalog: OnceLock<Weak<Catalog>>,
    applied: Table,
    is_primary: AtomicBool,
    /// Why an entry could not be applied: nothing is applied after it.
    ended: Mutex<Option<String>>,
}

fn not_primary() -> Error {
    Error::new(ErrorCode::new(10107), "not primary")
}

impl Commits {
    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.get().unwrap().upgrade().unwrap()
    }

    fn apply(&self, at: usize, entry: &Entry, mut own: Option<PreparedCommit>) -> Result<()> {
        let (catalog, applied) = (self.catalog(), &self.applied);
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

    /// Adds an entry, which is made under the latch of the order, to the list and applies it.
    fn agree(&self, make: impl FnOnce() -> (Entry, Option<PreparedCommit>)) -> Result<()> {
        reach();
        if !self.is_primary.load(Ordering::Relaxed) {
            return Err(not_primary());
        }
        let done = {
            let mut entries = self.agreement.0.lock().unwrap();
            let mut ended = self.ended.lock().unwrap();
            if ended.is_some() {
                return Err(not_primary());
            }
            let (entry, own) = make();
            entries.push(entry.clone());
            let done = self.apply(entries.len() - 1, &entry, own);
            *ended = done.as_ref().err().map(|error| format!("entry {}, {entry:?}: {error}", entries.len()));
            done
        };
        reach();
        done
    }
}

impl Committer for Commits {
    fn commit(&self, commit: Pending) -> Result<()> {
        reach();
        let mut prepared = commit.prepare()?;
        self.agree(move || {
            prepared.stamp();
            let tables = prepared.tables().map(|(id, name)| (id, name.to_owned())).collect();
            (Entry::Commit { record: prepared.record().to_vec(), tables }, Some(prepared))
        })
    }

    fn create_table(&self, name: &str, layout: Layout) -> Result<Table> {
        self.agree(|| (Entry::Create(name.to_owned(), layout), None))?;
        Ok(self.catalog().engine().table(name)?.unwrap())
    }

    fn drop_tables(&self, names: &[String]) -> Result<()> {
        self.agree(|| (Entry::Drop(names.to_vec()), None))
    }
}

/// Random numbers from a seed, and a time that stands still.
#[derive(Debug)]
struct Seeded(Mutex<Rng>);

impl Environment for Seeded {
    fn now_ms(&self) -> i64 {
        NOW_MS
    }

    fn random(&self) -> u64 {
        self.0.lock().unwrap().number()
    }
}

/// A database that is open.
pub(crate) struct Member {
    pub(crate) db: Database,
    commits: Option<Arc<Commits>>,
}

impl Member {
    /// Opens the database of a machine: that of a member where there is an agreement.
    pub(crate) fn open(machine: &SimEnv, agreement: Option<&Arc<Agreement>>, seed: u64) -> Result<Self> {
        let mut options = Options::default().memory_bytes(16 << 20);
        if agreement.is_some() || seed % 4 == 1 {
            options = options.log_keep_bytes(8 << 20);
        }
        if seed.is_multiple_of(2) {
            options = options.memtable_bytes(4096).log_segment_bytes(64 << 10);
        }
        let engine = spinney::Database::builder("/db").options(options).env(machine.env()).open()?;
        let environment = Arc::new(Seeded(Mutex::new(Rng::new(seed))));
        let Some(agreement) = agreement else {
            let db = Database::with_parts(engine, environment)?;
            db.catalog().set_change_wait(CHANGE_WAIT_MS);
            return Ok(Self { db, commits: None });
        };
        // Ids of tables differ between members.
        if agreement.len() > 0 && engine.table(APPLIED)?.is_none() {
            engine.create_table("passing", TableOptions::default())?;
            engine.drop_table("passing")?;
        }
        let applied = engine.open_or_create_table(APPLIED, TableOptions::default())?;
        let commits = Arc::new(Commits {
            agreement: Arc::clone(agreement),
            catalog: OnceLock::new(),
            applied,
            is_primary: AtomicBool::new(false),
            ended: Mutex::default(),
        });
        let committer: Arc<dyn Committer> = Arc::<Commits>::clone(&commits);
        let db = Database::with_committer(engine, environment, committer)?;
        commits.catalog.set(Arc::downgrade(db.catalog())).unwrap();
        db.catalog().set_change_wait(CHANGE_WAIT_MS);
        Ok(Self { db, commits: Some(commits) })
    }

    /// Why the member applies nothing more, if it does not.
    pub(crate) fn ended(&self) -> Option<String> {
        self.commits.as_ref().and_then(|commits| commits.ended.lock().unwrap().clone())
    }

    /// How many entries it has applied.
    fn applied(commits: &Commits) -> Result<usize> {
        let stored = commits.applied.get("at")?;
        Ok(stored.map_or(0, |stored| usize::try_from(u64::from_le_bytes(*stored.first_chunk().unwrap())).unwrap()))
    }

    /// Applies what was agreed on up to an entry.
    pub(crate) fn follow_to(&self, end: usize) -> std::result::Result<(), String> {
        let Some(commits) = &self.commits else { return Ok(()) };
        let applied = Self::applied(commits).map_err(|error| error.to_string())?;
        for at in applied..end {
            let entry = commits.agreement.0.lock().unwrap()[at].clone();
            let done = commits.apply(at, &entry, None);
            done.map_err(|error| format!("entry {} of the agreement, {entry:?}: {error}", at + 1))?;
        }
        Ok(())
    }

    /// Applies all that was agreed on.
    pub(crate) fn follow(&self) -> std::result::Result<(), String> {
        let end = self.commits.as_ref().map_or(0, |commits| commits.agreement.len());
        self.follow_to(end)
    }

    /// It is primary from now on, behind all that was agreed on.
    pub(crate) fn lead(&self) -> std::result::Result<(), String> {
        self.follow()?;
        if let Some(commits) = &self.commits {
            commits.is_primary.store(true, Ordering::Relaxed);
            self.db.catalog().clean_up().map_err(|error| format!("the clean-up of a new primary: {error}"))?;
        }
        Ok(())
    }
}
