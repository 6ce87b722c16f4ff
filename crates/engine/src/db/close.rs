//! Closing: background work ends, the log's end is made durable.

use crate::base::Result;

use super::core::Core;

impl Core {
    /// Closes the database; does nothing the second time.
    pub(crate) fn shut(&self) -> Result<()> {
        if !self.health.close() {
            return Ok(());
        }
        if let Some(workers) = self.workers.get() {
            workers.flush.stop();
            workers.sync.stop();
            for worker in &workers.compact {
                worker.stop();
            }
        }
        self.room.1.notify_all();
        // Commits that were being ordered when the database closed are through after this.
        drop(self.commit.lock());
        self.health.check_poison()?;
        self.log().close()
    }
}
