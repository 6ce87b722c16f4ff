//! The open database that all handles share: its parts, wired.

use std::sync::Arc;

use crate::base::Result;
use crate::base::sync::Mutex;
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::jobs::compaction::Compactor;
use crate::db::jobs::expiry::Expirer;
use crate::db::jobs::flusher::Flusher;
use crate::db::jobs::housekeeping::Housekeeper;
use crate::db::jobs::load::Loader;
use crate::db::jobs::tables::TableLifecycle;
use crate::db::jobs::workers;
use crate::db::state::State;
use crate::db::state::log_dir::LogDir;
use crate::db::throttle::Throttle;
use crate::env::FileLock;

use super::reader::Reader;

/// An open database.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) state: Arc<State>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) commits: Arc<CommitPipeline>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) compactor: Arc<Compactor>,
    pub(crate) expirer: Arc<Expirer>,
    pub(crate) housekeeper: Arc<Housekeeper>,
    pub(crate) loader: Loader,
    pub(crate) tables: TableLifecycle,
    pub(crate) log_dir: LogDir,
    /// Keeps other processes out, until the database is closed; of one that is read only, keeps what it needs. The
    /// latch is held during the closing.
    pub(super) lock: Mutex<Option<Box<dyn FileLock>>>,
    /// Where a database that is read only comes from.
    pub(crate) reader: Option<Reader>,
}

impl Core {
    pub(super) fn new(
        state: Arc<State>,
        throttle: Arc<Throttle>,
        commits: CommitPipeline,
        log_dir: LogDir,
        lock: Option<Box<dyn FileLock>>,
        reader: Option<Reader>,
    ) -> Self {
        let (commits, s, t) = (Arc::new(commits), || Arc::clone(&state), || Arc::clone(&throttle));
        let c = || Arc::clone(&commits);
        let flusher = Arc::new(Flusher::new(s(), t(), c()));
        let compactor = Arc::new(Compactor::new(s(), t(), Arc::clone(&flusher)));
        let expirer = Arc::new(Expirer::new(s(), c()));
        let housekeeper = Arc::new(Housekeeper::new(s(), c(), Arc::clone(&expirer)));
        let loader = Loader::new(s(), t(), c(), Arc::clone(&flusher), Arc::clone(&compactor));
        let tables = TableLifecycle::new(s(), t(), c(), Arc::clone(&flusher));
        let lock = Mutex::new(lock);
        Self {
            state,
            throttle,
            commits,
            flusher,
            compactor,
            expirer,
            housekeeper,
            loader,
            tables,
            log_dir,
            lock,
            reader,
        }
    }

    /// Starts the background workers.
    pub(super) fn start(&self) -> Result<()> {
        workers::start(&self.state, &self.commits, &self.flusher, &self.compactor, &self.housekeeper)
    }
}
