//! A thread that forces an engine's commits to the device at an interval, for engines that have no such thread.

use anyhow::Result;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread. It ends when this is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Ticker {
    /// Calls `sync` every `ms` milliseconds, the time that a call takes not counted. A failed call is the last.
    #[expect(clippy::disallowed_methods, reason = "a driver of another engine has no environment of ours")]
    pub(crate) fn start(ms: u32, mut sync: impl FnMut() -> Result<()> + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let period = Duration::from_millis(ms.max(1).into());
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                sync()?;
            }
            Ok(())
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }

    /// Ends the thread; says whether a call failed.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.stop = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // Who wants to know calls `stop`.
        drop(self.end());
    }
}
