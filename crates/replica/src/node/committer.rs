//! Commits of the document database by agreement of a majority.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use spinney::{Layout, Table};
use spinney_document::base::interrupt;
use spinney_document::{Committer, ErrorCode, Pending, PreparedCommit};
use tokio::time::sleep;

use super::core::Core;
use super::driver::{Drive, Driver, POLLED_EVERY};
use super::pending::PendingCommits;
use super::proposals::{Proposals, Proposed};
use crate::base::error::{Error, Result};
use crate::entry::change::Change;

/// The longest record of a commit; an entry goes to other members in one message.
const RECORD_BYTES_MAX: usize = 40 << 20;

/// Commits by agreement of a majority, on the primary.
pub(crate) struct Agreement<D = Driver> {
    core: Weak<Core>,
    driver: Arc<D>,
    pub(crate) pending: Arc<PendingCommits<PreparedCommit>>,
    pub(crate) proposals: Arc<Proposals<PreparedCommit>>,
    /// The number of the next proposal. It begins anywhere, so that no proposal before a restart has the same.
    next: AtomicU64,
    engine: spinney::Database,
    /// The thread that cleans up before others may write.
    preparing: Mutex<Option<ThreadId>>,
    ended: AtomicBool,
}

impl<D> fmt::Debug for Agreement<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agreement").finish_non_exhaustive()
    }
}

impl<D: Drive> Agreement<D> {
    pub(crate) fn new(core: &Arc<Core>, driver: Arc<D>, engine: spinney::Database, random: u64) -> Self {
        let pending = Arc::default();
        Self {
            core: Arc::downgrade(core),
            driver,
            proposals: Arc::new(Proposals::new(Arc::clone(&pending))),
            pending,
            next: AtomicU64::new(random),
            engine,
            preparing: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Runs `prepare`, whose commits are the first of a primary.
    pub(crate) fn prepare_to_lead(&self, prepare: impl FnOnce() -> spinney_document::Result<()>) -> Result<()> {
        *self.preparing.lock() = Some(thread::current().id());
        let prepared = prepare();
        *self.preparing.lock() = None;
        prepared.map_err(|error| Error::Ended(error.to_string()))
    }

    /// Lets the commits go that wait: the node has ended.
    pub(crate) fn end(&self) {
        // Relaxed: a commit that does not see it yet fails at the consensus, which has ended.
        self.ended.store(true, Ordering::Relaxed);
        self.pending.clear();
    }

    fn core(&self) -> Result<Arc<Core>> {
        let ended = || Error::Ended("the member has ended".to_owned());
        if self.ended.load(Ordering::Relaxed) { Err(ended()) } else { self.core.upgrade().ok_or_else(ended) }
    }

    /// The term in which this thread may write.
    fn term(&self, core: &Core) -> Result<u64> {
        let standing = core.watch().borrow().clone();
        let prepares = *self.preparing.lock() == Some(thread::current().id());
        match standing.leading {
            Some(term) if standing.writable || prepares => Ok(term),
            _ => Err(core.not_primary()),
        }
    }

    fn propose_commit(&self, commit: Pending) -> std::result::Result<(), spinney_document::Error> {
        let core = self.core()?;
        let term = self.term(&core)?;
        interrupt::check()?;
        let prepared = commit.prepare()?;
        if prepared.record().len() > RECORD_BYTES_MAX {
            let what = format!("a commit of a replica set has up to {RECORD_BYTES_MAX} bytes");
            return Err(spinney_document::Error::new(ErrorCode::TRANSACTION_TOO_LARGE, what));
        }
        // Relaxed: the numbers only have to differ.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let proposed = Proposed { term, number, commit: prepared };
        let ended = || Error::Ended("the member has ended".to_owned());
        let heard = self.driver.commit(async {
            let (mut told, applied) = self.proposals.add(&core, self.driver.handle(), proposed);
            tokio::select! {
                biased;
                // By the thread that applies it, before the consensus hears of that. It is lost when it is refused, or
                // a later primary's first entry is applied before it.
                applied = applied => Ok(applied.or_else(|_| told.try_recv().unwrap_or(Err(Error::Interrupted)))),
                told = &mut told => Ok(told.unwrap_or_else(|_| Err(ended()))),
                interrupted = ended_by_operation() => Err(interrupted),
            }
        })?;
        Ok(heard?)
    }

    fn propose_tables(&self, change: &Change<'_>) -> std::result::Result<(), spinney_document::Error> {
        let core = self.core()?;
        let term = self.term(&core)?;
        let proposed = core.propose(term, change.encode());
        self.driver.wait(async {
            tokio::select! {
                biased;
                done = proposed => Ok(done?),
                interrupted = ended_by_operation_in_time() => Err(interrupted),
            }
        })
    }
}

/// Ends with the operation of the thread that polls it, and says why. The driver polls it often enough.
async fn ended_by_operation() -> spinney_document::Error {
    let error = poll_fn(|_| interrupt::check().err().map_or(Poll::Pending, Poll::Ready)).await;
    of_proposed(&error)
}

/// The same for who is polled by nobody: it looks itself.
async fn ended_by_operation_in_time() -> spinney_document::Error {
    loop {
        sleep(POLLED_EVERY).await;
        if let Err(error) = interrupt::check() {
            return of_proposed(&error);
        }
    }
}

fn of_proposed(error: &spinney_document::Error) -> spinney_document::Error {
    let what =
        format!("{}; the write was proposed to the replica set, and is done if a majority accepts it", error.message());
    spinney_document::Error::new(error.code(), what)
}

impl<D: Drive> Committer for Agreement<D> {
    fn commit(&self, commit: Pending) -> spinney_document::Result<()> {
        self.propose_commit(commit)
    }

    fn create_table(&self, name: &str, layout: Layout) -> spinney_document::Result<Table> {
        self.propose_tables(&Change::CreateTable(name, layout))?;
        let missing = || spinney_document::Error::new(ErrorCode::INTERNAL_ERROR, format!("table '{name}' was dropped"));
        self.engine.table(name)?.ok_or_else(missing)
    }

    fn drop_tables(&self, names: &[String]) -> spinney_document::Result<()> {
        self.propose_tables(&Change::DropTables(names.iter().map(String::as_str).collect()))
    }
}
