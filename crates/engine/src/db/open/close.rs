//! Closing: background work ends, unlogged tables are flushed, the manifest becomes one record, the log's end is made
//! durable. Then all is given back that the database held: memory, files, threads and at last the lock, so that it can
//! be opened again at once, whatever handles are left.

use crate::base::{ErrorKind, Result};

use super::core::Core;

impl Core {
    /// Closes the database; does nothing the second time, but wait until it is closed.
    pub(crate) fn shut(&self) -> Result<()> {
        let health = &self.state.health;
        health.check_here()?;
        let mut lock = self.lock.lock();
        if !health.begin_close() {
            return Ok(());
        }
        let ended = self.end();
        health.end_close();
        self.release_all();
        drop(lock.take());
        ended
    }

    /// Ends the work, and makes durable what is not.
    fn end(&self) -> Result<()> {
        if self.state.health.is_read_only() {
            self.state.health.wake_waiting();
            self.state.publisher.announce_news();
            return Ok(());
        }
        self.state.wakers.stop();
        self.housekeeper.end();
        self.state.health.wake_waiting();
        self.state.publisher.announce_news();
        // Commits that were being ordered when the closing began are through after this.
        drop(self.commits.order.lock());
        self.state.health.check_poison()?;
        // What cannot be flushed must not keep the rest, and the log, from becoming durable.
        let flushed = self.flush_unlogged().and(self.expirer.date_all());
        // From here on nothing but the manifest and the log is written.
        self.state.health.end_close();
        self.state.health.check_poison()?;
        flushed.and(self.seal_manifest()).and(self.commits.log.close())
    }

    /// Makes one record of the manifest. Of several the last could be damaged and pass for the torn tail of a crash,
    /// and what it told of be lost without a word. Where the disk has no room, the manifest stays as it is.
    fn seal_manifest(&self) -> Result<()> {
        match self.state.manifest.lock().rewrite() {
            Err(error) if error.kind() == ErrorKind::Full || error.is_unchanged() => Ok(()),
            sealed => sealed,
        }
    }

    /// Flushes the tables of which the log knows nothing.
    fn flush_unlogged(&self) -> Result<()> {
        let tables = self.state.tables.all();
        let unlogged = tables.iter().filter(|table| !table.options.logged);
        unlogged.map(|table| self.flusher.flush_now(table)).fold(Ok(()), Result::and)
    }

    /// Lets go of what handles of the closed database would else keep. What a call that is under way still reads or
    /// writes fails.
    fn release_all(&self) {
        // After a failure the manifest may name on disk what it does not name here.
        if self.state.health.check_poison().is_ok() {
            let manifest = self.state.manifest.lock();
            self.state.files.remove_pending(manifest.catalog());
        }
        self.state.tables.all().iter().for_each(|table| drop(self.commits.empty(table)));
        self.state.manifest.lock().close();
        self.commits.log.give_back();
        let chunks = self.state.tables.memtable_chunks();
        chunks.allow(0);
        chunks.trim();
        self.state.cache.fit(|_| Some(0));
        self.state.files.close();
    }
}
