//! Closing: background work ends, unlogged tables are flushed, the manifest becomes one record, the log's end is made
//! durable. Then all is given back that the database held: memory, files, threads and at last the lock, so that it can
//! be opened again at once, whatever handles are left.

use std::mem;

use crate::base::{ErrorKind, Result};
use crate::log::LogWriter;
use crate::table::files::FileKind;

use super::core::{Core, Workers};
use super::open::is_named;

impl Core {
    /// Closes the database; does nothing the second time, but wait until it is closed.
    pub(crate) fn shut(&self) -> Result<()> {
        self.health.check_here()?;
        let mut lock = self.lock.lock();
        if !self.health.begin_close() {
            return Ok(());
        }
        let ended = self.end();
        self.health.end_close();
        self.release_all();
        drop(lock.take());
        ended
    }

    /// Ends the work, and makes durable what is not.
    fn end(&self) -> Result<()> {
        self.workers.get().into_iter().for_each(Workers::stop);
        self.room.look();
        self.publisher.announce_news();
        // Commits that were being ordered when the closing began are through after this.
        drop(self.commit.lock());
        self.health.check_poison()?;
        // A write that finds room just now finishes the open first, or not at all.
        if self.unfinished.lock().is_some() {
            // Nothing was written since the open.
            return Ok(());
        }
        let flushed = self.flush_unlogged().and_then(|()| self.date_all());
        self.health.end_close();
        flushed?;
        self.seal_manifest()?;
        self.log().close()
    }

    /// Makes one record of the manifest. Of several the last could be damaged and pass for the torn tail of a crash,
    /// and what it told of be lost without a word. Where the disk has no room, the manifest stays as it is.
    fn seal_manifest(&self) -> Result<()> {
        match self.rewrite_manifest(&mut self.ledger.lock()) {
            Err(error) if error.kind() == ErrorKind::Full || error.is_unchanged() => Ok(()),
            sealed => sealed,
        }
    }

    /// Flushes the tables of which the log knows nothing.
    fn flush_unlogged(&self) -> Result<()> {
        for table in self.all_tables().iter().filter(|table| !table.options.logged) {
            self.rotate(&mut self.commit.lock(), table);
            self.flush(table)?;
        }
        Ok(())
    }

    /// Removes what bulk loads have written that are not finished. The manifest names nothing more from now on.
    fn discard_loads(&self) {
        let ledger = self.ledger.lock();
        let loading = mem::take(&mut *self.loading.lock());
        for id in loading {
            for kind in
                [FileKind::Run, FileKind::Values].into_iter().filter(|kind| !is_named(*kind, id, &ledger.catalog))
            {
                // Each has one of the two, or none yet.
                drop(self.env.fs.remove(&kind.path(&self.dir, id)));
            }
        }
    }

    /// Lets go of what handles of the closed database would else keep. What a call that is under way still reads or
    /// writes fails.
    fn release_all(&self) {
        // After a failure the manifest may name on disk what it does not name here.
        if self.health.check_poison().is_ok() {
            self.discard_loads();
        }
        for table in self.all_tables() {
            let held = table.empty(&mut self.commit.lock());
            drop(held);
        }
        self.ledger.lock().manifest = None;
        self.log.get().into_iter().for_each(LogWriter::give_back);
        self.cache.fit(|_| Some(0));
        self.files.revoke();
    }
}

impl Workers {
    /// Waits until none of them works, and lets none begin again.
    fn stop(&self) {
        let one = [&self.flush, &self.sync, &self.memory, &self.expire];
        one.into_iter().chain(&self.compact).for_each(|worker| worker.stop());
    }
}
