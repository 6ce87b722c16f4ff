//! What is done from time to time in the background: many files that tables had which were dropped together are
//! removed, memory that no memtable asks for is given back, the cache's blocks are moved together, and it is looked at
//! entries that expire, what readers in other processes no longer keep, and the file `STATS`, which tells other
//! processes the counters of this one.
//!
//! `STATS` is no part of the database: it is never synced, an error of it is nobody's, and it goes when the database is
//! closed. The process that writes it shares its lock, so that what a crash left is known for what it is.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::base::Result;
use crate::base::debug::debug_by;
use crate::base::num::u64_of;
use crate::base::sync::Mutex;
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::state::State;
use crate::env::{Access, File, FileLock, Next, OpenOptions};
use crate::table::files;

use super::expiry::Expirer;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);

/// How often it is looked whether readers in other processes have gone on, while something is kept for them; that takes
/// this part (1/8) of the time at most.
const READERS_EVERY: Duration = Duration::from_millis(200);
const READERS_PART: u32 = 8;

/// With less free space than this on the disk there is no `STATS`: what is left is kept for the log and for flushes.
const FREE_BYTES_MIN: u64 = 4 << 20;

/// Makes the text of `STATS`; `None` when the database is gone.
pub(crate) type Report = dyn Fn() -> Option<String> + Send + Sync;

/// Looks from time to time.
pub(crate) struct Housekeeper {
    state: Arc<State>,
    commits: Arc<CommitPipeline>,
    expirer: Arc<Expirer>,
    /// When it is looked what has expired, at what readers keep, and at the rest.
    due: Mutex<Due>,
    report: OnceLock<Box<Report>>,
    stats: Mutex<Option<StatsFile>>,
}

#[derive(Default)]
struct Due {
    expiry: Option<Duration>,
    readers: Duration,
    rest: Option<Duration>,
}

/// The file `STATS`.
struct StatsFile {
    file: Arc<dyn File>,
    /// Held, not used.
    _lock: Box<dyn FileLock>,
    text: String,
}

impl Housekeeper {
    pub(crate) fn new(state: Arc<State>, commits: Arc<CommitPipeline>, expirer: Arc<Expirer>) -> Self {
        let (due, report, stats) = (Mutex::default(), OnceLock::new(), Mutex::default());
        Self { state, commits, expirer, due, report, stats }
    }

    /// Has `STATS` written from now on.
    pub(crate) fn report(&self, report: Box<Report>) {
        // An open database has one.
        drop(self.report.set(report));
    }

    /// A step of the worker. It is woken when there may be something that expires, and when the cache has shrunk.
    pub(crate) fn step(&self) -> Result<Next> {
        let mut due = self.due.lock();
        let now = self.state.env.clock.now();
        if self.state.wakers.take_expiry() || due.expiry.is_some_and(|due| due <= now) {
            // Again, if it fails.
            due.expiry = Some(now);
            due.expiry = match self.expirer.step()? {
                Next::WaitAtMost(time) => Some(now + time),
                Next::Again | Next::Wait => None,
            };
        }
        self.state.cache.defragment();
        let rest = *due.rest.get_or_insert(now + EVERY);
        if rest <= now {
            due.rest = Some(now + EVERY);
            self.state.tables.memtable_chunks().release_idle();
            self.tell();
        }
        let leases = self.state.files.leases();
        if leases.is_waiting() && due.readers <= now {
            self.release()?;
            let ended = self.state.env.clock.now();
            due.readers = ended + READERS_EVERY.max(READERS_PART * ended.saturating_sub(now));
        }
        if self.state.files.remove_some() {
            return Ok(Next::Again);
        }
        let readers = leases.is_waiting().then_some(due.readers);
        let next = due.expiry.into_iter().chain(due.rest).chain(readers).min().unwrap_or(now + EVERY);
        Ok(Next::WaitAtMost(next.saturating_sub(now)))
    }

    /// Gives back what a reader in another process kept that has ended or gone on. A reader that comes or goes on
    /// stands on the manifest in force, and keeps what was unnamed under it: where something was, another is put in
    /// force.
    fn release(&self) -> Result<()> {
        let state = &*self.state;
        if !state.files.leases().take_waiting() {
            return Ok(());
        }
        if state.files.remove_obsolete() {
            let rewritten = state.manifest.lock().rewrite();
            match rewritten {
                Err(error) if error.is_unchanged() => {}
                rewritten => state.or_poison(rewritten)?,
            }
        }
        state.or_poison(self.commits.release_unneeded_log())
    }

    /// Writes `STATS` when it says something new.
    fn tell(&self) {
        let Some(text) = self.report.get().and_then(|report| report()) else { return };
        let mut stats = self.stats.lock();
        if stats.as_ref().is_some_and(|stats| stats.text == text) {
            return;
        }
        if !self.state.env.fs.free_bytes(&self.state.dir).is_ok_and(|bytes| bytes >= FREE_BYTES_MIN) {
            self.forget(&mut stats);
            return;
        }
        let told = match stats.take() {
            Some(stats) => stats.write(text),
            None => self.create().and_then(|stats| stats.write(text)),
        };
        // Without it the counters are not told; it is tried again.
        *stats = told.ok();
    }

    fn path(&self) -> PathBuf {
        self.state.dir.join(files::STATS)
    }

    /// Makes the file, in place of what a crash may have left.
    fn create(&self) -> io::Result<StatsFile> {
        let (fs, path) = (&self.state.env.fs, self.path());
        match fs.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = fs.open(&path, OpenOptions { access: Access::CreateNew, direct: false })?;
        Ok(StatsFile { file, _lock: fs.lock_shared(&path)?, text: String::new() })
    }

    /// Removes `STATS`. The worker has ended.
    pub(crate) fn end(&self) {
        self.forget(&mut self.stats.lock());
    }

    fn forget(&self, stats: &mut Option<StatsFile>) {
        if stats.take().is_some() {
            drop(self.state.env.fs.remove(&self.path()));
        }
    }
}

impl StatsFile {
    fn write(self, text: String) -> io::Result<Self> {
        self.file.write_at(text.as_bytes(), 0)?;
        if text.len() < self.text.len() {
            self.file.set_len(u64_of(text.len()))?;
        }
        Ok(Self { text, ..self })
    }
}

debug_by!(Housekeeper, self =>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::sim::SimEnv;
    use crate::{Database, TableOptions};

    #[test]
    fn counters_are_told_while_there_is_space_and_not_below() {
        for (free, is_told) in [(FREE_BYTES_MIN - 1, false), (FREE_BYTES_MIN, true), (FREE_BYTES_MIN + 1, true)] {
            let sim = SimEnv::new(1);
            let db = Database::builder("/db").env(sim.env()).open().unwrap();
            db.create_table("t", TableOptions::default()).unwrap().put("key", "value").unwrap();
            let is_there = || sim.env().fs.list("/db".as_ref()).unwrap().iter().any(|entry| entry.name == files::STATS);
            assert!(!is_there());
            sim.set_free(free);
            sim.advance(2 * EVERY);
            assert_eq!(is_there(), is_told, "{free}");
            sim.set_free(FREE_BYTES_MIN - 1);
            db.table("t").unwrap().unwrap().put("key", "other").unwrap();
            sim.advance(2 * EVERY);
            assert!(!is_there(), "it is removed for want of space");
        }
    }
}
