//! The thread that forces the redo log at an interval.

use super::native::{Db, Error};
use anyhow::{Result, anyhow};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Forces the redo log until it is stopped, and once more then.
pub(super) struct Flusher {
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Flusher {
    pub(super) fn start(db: &Arc<Db>, interval: Duration) -> Result<Self> {
        let (stop, stopped) = channel::<()>();
        let db = Arc::clone(db);
        let run = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                db.sync_log()?;
            }
            db.sync_log()
        };
        let thread = Builder::new().name("wal-flusher".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Waits for the last flush, and says how all of them went.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.stop = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => Ok(result?),
            Some(Err(_)) => Err(anyhow!("the thread that flushes the WAL panicked")),
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // Whoever wants to know has called `stop`; but the thread must not outlive the database's owner.
        let _ = self.stop();
    }
}
