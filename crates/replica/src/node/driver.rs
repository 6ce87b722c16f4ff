//! The runtime of a node, and which thread drives it: runs its tasks, and waits for its sockets and timers.
//!
//! A thread of the node drives it. A client that commits alone would wait for that thread twice in each commit: to
//! propose it, and to hear that it is applied. So while commits come one at a time, the thread that commits drives the
//! runtime until its commit is applied. It then sends the entry to the other members, syncs the log, reads the
//! acknowledgements and applies the commit itself. When commits come together again, the node's thread drives.
//!
//! # Concurrency
//! One thread drives at a time: the latch of the state says whether one does. Between two commits that drive, nobody
//! does. The node's thread looks every so often, and drives when no commit has since it looked before: timers and
//! messages of other members wait no longer than two such periods.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use spinney::env::{Next, Threads, Worker};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use tokio::time::sleep;

/// So many commits must come one at a time before they drive.
const LONE_COMMITS: u32 = 16;

/// How long the end waits for threads that may block.
const END_WITHIN: Duration = Duration::from_secs(1);

/// How often a commit that waits is polled.
pub(crate) const POLLED_EVERY: Duration = Duration::from_millis(50);

/// How threads that are not of the runtime wait for what happens there.
pub(crate) trait Drive: Send + Sync + 'static {
    /// What spawns tasks.
    fn handle(&self) -> &Handle;

    /// Waits for a future that is no commit.
    fn wait<T>(&self, future: impl Future<Output = T>) -> T;

    /// Waits for a commit, which must not need the context of the runtime. It is polled every [`POLLED_EVERY`] at the
    /// least, so that it sees what nobody wakes it for.
    fn commit<T>(&self, commit: impl Future<Output = T>) -> T;
}

/// The runtime of a node.
pub(crate) struct Driver {
    /// Gone when it has ended. Whoever drives holds it for reading.
    runtime: RwLock<Option<Runtime>>,
    handle: Handle,
    /// How often the node's thread looks whether commits still drive.
    period: Duration,
    state: Mutex<State>,
    /// The state has changed so that a thread may have to stop driving.
    changed: Notify,
    worker: OnceLock<Box<dyn Worker>>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a thread drives.
    driven: bool,
    /// Whether the threads that commit drive.
    by_commits: bool,
    /// Commits that are under way.
    commits: usize,
    /// How many commits have come one at a time, one after the other.
    lone: u32,
    /// How often a commit has driven.
    drives: u64,
    ended: bool,
}

impl State {
    /// Has the node's thread drive. It must be woken when no other thread drives.
    fn end_drives_by_commits(&mut self) {
        self.by_commits = false;
        self.lone = 0;
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Driver {
    /// A runtime, and the thread that drives it until [`Self::end`]. That looks every `period` whether commits still
    /// drive.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub(crate) fn start(threads: &dyn Threads, period: Duration) -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().thread_name("replica").enable_all().build()?;
        let driver = Arc::new(Self {
            handle: runtime.handle().clone(),
            runtime: RwLock::new(Some(runtime)),
            period,
            state: Mutex::default(),
            changed: Notify::new(),
            worker: OnceLock::new(),
        });
        let (weak, mut seen) = (Arc::downgrade(&driver), 0);
        let work = move || Weak::upgrade(&weak).map_or(Next::Wait, |driver| driver.drive(&mut seen));
        let worker = threads.worker("replica", Box::new(work))?;
        driver.worker.get_or_init(|| worker);
        Ok(driver)
    }

    /// Ends the runtime and its tasks. What waits for one of them hears that it is gone.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_waiters();
        if let Some(worker) = self.worker.get() {
            worker.stop();
        }
        if let Some(runtime) = self.runtime.write().take() {
            runtime.shutdown_timeout(END_WITHIN);
        }
    }

    fn wake(&self) {
        if let Some(worker) = self.worker.get() {
            worker.wake();
        }
    }

    /// The work of the node's thread. `seen` is how often a commit had driven when it looked before.
    fn drive(&self, seen: &mut u64) -> Next {
        {
            let mut state = self.state.lock();
            if state.by_commits && (state.driven || state.drives != *seen) {
                *seen = state.drives;
                return Next::WaitAtMost(self.period);
            }
            state.end_drives_by_commits();
            if state.driven || state.ended {
                // The commit that drives wakes this thread.
                return Next::Wait;
            }
            state.driven = true;
        }
        if let Some(runtime) = &*self.runtime.read() {
            runtime.block_on(self.until(|state| state.ended || state.by_commits));
        }
        let mut state = self.state.lock();
        state.driven = false;
        if state.commits > 0 {
            // It waits for this thread.
            state.end_drives_by_commits();
            return Next::Again;
        }
        *seen = state.drives;
        Next::WaitAtMost(self.period)
    }

    /// Waits until the state is as `wanted`.
    async fn until(&self, wanted: impl Fn(&State) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on no change goes unnoticed.
            changed.as_mut().enable();
            if wanted(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }

    fn begin_commit(&self) -> UnderWay<'_> {
        let mut state = self.state.lock();
        state.commits += 1;
        let drives = state.by_commits && !state.driven && !state.ended;
        if drives {
            state.driven = true;
            state.drives += 1;
        }
        state.lone = if state.commits == 1 { state.lone.saturating_add(1) } else { 0 };
        UnderWay { driver: self, drives }
    }
}

impl Drive for Driver {
    fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for a future that is no commit, driven by the node's thread.
    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let idle = {
            let mut state = self.state.lock();
            let idle = state.by_commits && !state.driven;
            state.end_drives_by_commits();
            idle
        };
        if idle {
            self.wake();
        }
        self.handle.block_on(future)
    }

    /// Waits for a commit. It may drive the runtime meanwhile.
    fn commit<T>(&self, commit: impl Future<Output = T>) -> T {
        let mut commit = pin!(commit);
        let under_way = self.begin_commit();
        if under_way.drives
            && let Some(runtime) = &*self.runtime.read()
        {
            let done = runtime.block_on(async {
                let mut ended = pin!(self.until(|state| state.ended));
                loop {
                    tokio::select! {
                        biased;
                        done = &mut commit => return Some(done),
                        () = &mut ended => return None,
                        () = sleep(POLLED_EVERY) => {}
                    }
                }
            });
            if let Some(done) = done {
                return done;
            }
        }
        park_until(commit)
    }
}

/// A commit that is under way.
struct UnderWay<'d> {
    driver: &'d Driver,
    /// Whether its thread drives.
    drives: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.driver.state.lock();
        state.commits -= 1;
        if self.drives {
            state.driven = false;
            if state.commits > 0 {
                state.end_drives_by_commits();
            }
            let left = !state.by_commits;
            drop(state);
            if left {
                self.driver.wake();
            }
        } else if state.commits == 0 && state.lone >= LONE_COMMITS && !state.by_commits {
            state.by_commits = true;
            drop(state);
            self.driver.changed.notify_waiters();
        }
    }
}

/// Wakes a thread that waits for a future.
#[derive(Debug)]
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// What wakes this thread.
    static UNPARK: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

/// Waits in this thread for a future that others complete. To enter the runtime for that, as its handle does, costs
/// more than the wait of a commit among many.
fn park_until<T>(mut future: Pin<&mut impl Future<Output = T>>) -> T {
    UNPARK.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return done;
            }
            thread::park_timeout(POLLED_EVERY);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;

    use spinney::env::Env;
    use tokio::sync::oneshot;

    use super::*;

    fn start() -> Arc<Driver> {
        Driver::start(&*Env::os().threads, Duration::from_millis(5)).unwrap()
    }

    /// The thread that runs tasks of the runtime.
    async fn runner(driver: &Driver) -> ThreadId {
        driver.handle().spawn(async { thread::current().id() }).await.unwrap()
    }

    /// Commits until commits drive.
    fn drive_by_commits(driver: &Driver) {
        while driver.commit(runner(driver)) != thread::current().id() {}
    }

    #[test]
    fn commits_that_come_one_at_a_time_drive_after_some_and_nothing_else_does() {
        let (driver, me) = (start(), thread::current().id());
        assert!((0..LONE_COMMITS).all(|_| driver.commit(runner(&driver)) != me));
        drive_by_commits(&driver);
        assert_ne!(driver.wait(runner(&driver)), me);
        assert_ne!(driver.commit(runner(&driver)), me, "the node's thread drives");
        drive_by_commits(&driver);
        // No commit comes any more: the node's thread goes on by itself.
        let (sender, ran) = std::sync::mpsc::channel();
        driver.handle().spawn(async move { sender.send(thread::current().id()).unwrap() });
        assert_ne!(ran.recv().unwrap(), me);
        driver.end();
    }

    #[test]
    fn a_commit_that_another_one_leaves_is_driven_by_the_nodes_thread() {
        let driver = start();
        drive_by_commits(&driver);
        thread::scope(|scope| {
            let (sender, begun) = oneshot::channel();
            let left = driver.commit(async {
                let second = scope.spawn(|| {
                    let mut began = Some(sender);
                    driver.commit(async {
                        began.take().unwrap().send(()).unwrap();
                        let slept = driver.handle().spawn(async { sleep(Duration::from_millis(20)).await });
                        slept.await.unwrap();
                        runner(&driver).await
                    })
                });
                begun.await.unwrap();
                second
            });
            let node = left.join().unwrap();
            assert_ne!(node, thread::current().id());
            assert_eq!(driver.wait(runner(&driver)), node);
        });
        driver.end();
    }

    #[test]
    fn the_end_lets_a_commit_that_drives_go() {
        let driver = start();
        drive_by_commits(&driver);
        thread::scope(|scope| {
            let lost = driver.handle().spawn(std::future::pending::<()>());
            let (sender, begun) = std::sync::mpsc::channel();
            let commit = scope.spawn(|| {
                driver.commit(async move {
                    sender.send(()).unwrap();
                    lost.await
                })
            });
            begun.recv().unwrap();
            driver.end();
            assert!(commit.join().unwrap().unwrap_err().is_cancelled());
        });
    }
}
