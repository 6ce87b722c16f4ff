//! Background workers, a thread each.

use super::super::origin::Origin;
use super::super::thread::{Next, Threads, Work, Worker};
use super::origin::{Counted, has_lost_workers, origin};
use parking_lot::{Condvar, Mutex};
use std::io::{self, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

/// Threads of the operating system.
///
/// A panic inside a worker's work is not caught: others wait for what the work promised, and would wait for ever. It
/// ends the process, which recovery is built for. Work that can tell its waiters of its failure catches the panic
/// itself.
#[derive(Debug)]
pub(super) struct OsThreads;

impl Threads for OsThreads {
    fn worker(&self, name: &str, work: Work) -> io::Result<Box<dyn Worker>> {
        let signal = Arc::new(Signal::default());
        let theirs = Arc::clone(&signal);
        let name = name.to_owned();
        let counted = Counted::new();
        let thread = thread::Builder::new().name(name.clone()).spawn(move || {
            let _counted = counted;
            let _guard = AbortOnPanic { name };
            run(work, &theirs);
        })?;
        let (id, thread) = (thread.thread().id(), Mutex::new(Some(thread)));
        Ok(Box::new(OsWorker { signal, origin: origin(), id, thread }))
    }

    #[expect(clippy::disallowed_methods, reason = "this is how the environment waits")]
    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn others(&self) -> usize {
        thread::available_parallelism().map_or(1, |processors| processors.get() - 1)
    }

    fn concurrent(&self) -> bool {
        true
    }

    fn origin(&self) -> Origin {
        origin()
    }

    fn has_lost_workers(&self) -> bool {
        has_lost_workers()
    }
}

/// What a worker's owner tells its thread.
#[derive(Debug, Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    woken: bool,
    stopped: bool,
}

/// The life of a worker's thread.
fn run(mut work: Work, signal: &Signal) {
    loop {
        {
            let mut state = signal.state.lock();
            if state.stopped {
                return;
            }
            // Taken before the work runs: a wake from now on makes it run once more.
            state.woken = false;
        }
        let next = work();
        let mut state = signal.state.lock();
        let asleep = |state: &mut State| !state.woken && !state.stopped;
        match next {
            Next::Again => {}
            Next::Wait => signal.changed.wait_while(&mut state, asleep),
            Next::WaitAtMost(time) => {
                signal.changed.wait_while_for(&mut state, asleep, time);
            }
        }
    }
}

#[derive(Debug)]
struct OsWorker {
    signal: Arc<Signal>,
    /// Where the thread is.
    origin: Origin,
    id: ThreadId,
    /// Held while joining, so that a second `stop` waits too.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker for OsWorker {
    fn wake(&self) {
        self.signal.state.lock().woken = true;
        self.signal.changed.notify_one();
    }

    fn stop(&self) {
        if !self.origin.is_here() {
            return;
        }
        self.signal.state.lock().stopped = true;
        self.signal.changed.notify_one();
        if thread::current().id() == self.id {
            return;
        }
        if let Some(thread) = self.thread.lock().take() {
            thread.join().expect("a worker's panic ends the process");
        }
    }
}

impl Drop for OsWorker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends the process when a panic drops it.
struct AbortOnPanic {
    name: String,
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        // Straight to the descriptor: a test's harness would swallow what `eprintln` says. Nothing is left to do if it
        // fails.
        let _told = writeln!(io::stderr(), "spinney: the worker {:?} panicked; ending the process", self.name);
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Set in the process that is to die.
    const CHILD: &str = "SPINNEY_TEST_PANICKING_WORKER";

    #[test]
    fn a_panicking_worker_ends_the_process_and_says_which_it_was() {
        if std::env::var_os(CHILD).is_some() {
            let _worker = OsThreads.worker("flusher", Box::new(|| panic!("a bug"))).unwrap();
            loop {
                thread::park();
            }
        }
        let this_test = "env::os::thread::tests::a_panicking_worker_ends_the_process_and_says_which_it_was";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", this_test]).env(CHILD, "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(6), "SIGABRT");
        assert!(String::from_utf8_lossy(&output.stderr).contains("\"flusher\" panicked"));
    }
}
