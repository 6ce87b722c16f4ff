//! Closing: background work ends, unlogged tables are flushed, the manifest becomes one record, the log's end is made durable.

use crate::base::{ErrorKind, Result};

use super::core::Core;

impl Core {
    /// Closes the database; does nothing the second time.
    pub(crate) fn shut(&self) -> Result<()> {
        if !self.health.begin_close() {
            return Ok(());
        }
        if let Some(workers) = self.workers.get() {
            workers.flush.stop();
            workers.sync.stop();
            workers.memory.stop();
            workers.expire.stop();
            for worker in &workers.compact {
                worker.stop();
            }
        }
        self.room.look();
        self.publisher.announce_news();
        // Commits that were being ordered when the closing began are through after this.
        drop(self.commit.lock());
        self.health.check_poison()?;
        // A write that finds room just now finishes the open first, or not at all.
        let unfinished = self.unfinished.lock();
        if unfinished.is_some() {
            // Nothing was written since the open.
            self.health.end_close();
            return Ok(());
        }
        drop(unfinished);
        let flushed = self.flush_unlogged().and_then(|()| self.date_all());
        self.health.end_close();
        flushed?;
        self.seal_manifest()?;
        self.log().close()
    }

    /// Makes one record of the manifest. Of several the last could be damaged and pass for the torn tail of a crash, and what it told of
    /// be lost without a word. Where the disk has no room, the manifest stays as it is.
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
}
