//! What ends an operation early: a limit of time, or a request from another thread; and what it has looked at.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::codes::ErrorCode;
use super::error::{Error, Result};
use super::system::{Environment, System};

/// How an operation was done, as [`Interrupt::plan`] tells it: shown when somebody asks.
pub type Summary = Arc<dyn Summarize>;

/// What can be told in a line, such as `IXSCAN { a: 1 }`.
pub trait Summarize: Debug + Send + Sync {
    /// The line.
    fn summary(&self) -> String;
}

/// Who waits for the answer of an operation.
pub trait Caller: Debug + Send + Sync {
    /// Whether nobody waits any more. Asked by the thread that runs the operation.
    fn has_left(&self) -> bool;
}

/// How many milliseconds pass between two looks at whether the caller has left.
const CALLER_MS: u64 = 100;

/// Ends an operation early: when its time is over, when it was killed, or when its caller has left. It also gathers
/// what the searches of the operation have looked at.
#[derive(Debug)]
pub struct Interrupt {
    environment: Arc<dyn Environment>,
    /// When the time is over, in milliseconds since 1970; `i64::MAX` without a limit. Only a check reads it.
    deadline_ms: AtomicI64,
    /// Set by the thread that kills the operation, and read by the one that runs it.
    killed: AtomicBool,
    /// Set by the thread that ends the server, and read by the one that runs the operation.
    ending: AtomicBool,
    /// Who waits for the answer, and when the thread that runs the operation has seen so, in milliseconds since 1970.
    caller: Option<Arc<dyn Caller>>,
    seen_ms: AtomicI64,
    /// Whether the caller has left.
    left: AtomicBool,
    /// Entries of indexes and documents that the operation has looked at. The thread that runs the operation adds to
    /// them; they order nothing.
    keys: AtomicU64,
    documents: AtomicU64,
    /// Microseconds for which the operation waited for something to happen that it does not bring about.
    waited_us: AtomicU64,
    /// How the first search of the operation is done, or of the statement of it that runs.
    plan: Mutex<Option<Summary>>,
    /// Whether there is a plan. The thread that runs the operation alone reads and writes it.
    planned: AtomicBool,
    /// Wakes the thread that runs the operation while it waits.
    waker: Mutex<Option<Waker>>,
}

/// How many milliseconds a thread waits that a kill wakes, until it looks for what wakes nobody, such as a client that
/// has left.
const PATIENCE_MS: u64 = 5000;

/// Wakes the thread of an operation.
#[derive(Clone)]
struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// While it lives, the end of an operation wakes its thread.
#[derive(Debug)]
#[must_use]
pub struct Waking<'i>(&'i Interrupt);

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        *self.0.waker.lock() = None;
    }
}

thread_local! {
    /// What ends the work of this thread early.
    static CURRENT: RefCell<Option<Arc<Interrupt>>> = const { RefCell::new(None) };
    /// How much the thread may do until it looks at it.
    static LEFT: Cell<usize> = const { Cell::new(CHECKED) };
}

/// How much work a thread does between two looks at what ends it: some 10 to 100 microseconds.
const CHECKED: usize = 1024;

/// Counts work of the thread's operation, and sees now and then whether that is to end. A unit is about what it takes
/// to evaluate a small expression or to copy 64 bytes. Loops over what a client can make long call it, wherever they
/// are: an operation never leaves its thread.
///
/// # Errors
/// As [`Interrupt::check`].
#[inline]
pub fn work(units: usize) -> Result<()> {
    match LEFT.get().checked_sub(units) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => check(),
    }
}

/// Whether the thread's operation may go on; also when it has none.
///
/// # Errors
/// As [`Interrupt::check`].
#[cold]
pub fn check() -> Result<()> {
    LEFT.set(CHECKED);
    CURRENT.with_borrow(|current| current.as_ref().map_or(Ok(()), |interrupt| interrupt.check()))
}

/// Adds what a search has looked at to the thread's operation.
pub fn add_examined(keys: u64, documents: u64) {
    CURRENT.with_borrow(|current| current.iter().for_each(|interrupt| interrupt.add_examined(keys, documents)));
}

/// Notes how a search of the thread's operation is done; the first one counts. Called for each row that is read.
pub fn note_plan(plan: impl FnOnce() -> Summary) {
    CURRENT.with_borrow(|current| {
        if let Some(interrupt) = current
            && !interrupt.planned.load(Ordering::Relaxed)
        {
            interrupt.planned.store(true, Ordering::Relaxed);
            *interrupt.plan.lock() = Some(plan());
        }
    });
}

/// How long a wait goes on without a look at what ends it.
const NAP: Duration = Duration::from_millis(20);

/// Waits until `attempt` has something, which it waits for as long as it is told; ends with the thread's operation.
///
/// # Errors
/// As [`Interrupt::check`].
pub fn wait<T>(mut attempt: impl FnMut(Duration) -> Option<T>) -> Result<T> {
    loop {
        if let Some(made) = wait_within(Duration::MAX, &mut attempt)? {
            return Ok(made);
        }
    }
}

/// As [`wait`]; nothing when `attempt` has nothing for so long.
///
/// # Errors
/// As [`Interrupt::check`].
pub fn wait_within<T>(limit: Duration, mut attempt: impl FnMut(Duration) -> Option<T>) -> Result<Option<T>> {
    let (concurrent, mut left) = (concurrent(), limit);
    loop {
        let nap = NAP.min(left);
        let made = attempt(if concurrent { nap } else { Duration::ZERO });
        if made.is_some() || left.is_zero() {
            return Ok(made);
        }
        check()?;
        if !concurrent {
            rest(nap);
        }
        left -= nap;
    }
}

/// Whether threads run beside the one that asks.
fn concurrent() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_none_or(|interrupt| interrupt.environment.concurrent()))
}

/// Does what clears up behind an operation, whether that was ended or not.
pub fn shielded<T>(body: impl FnOnce() -> T) -> T {
    let environment =
        CURRENT.with_borrow(|current| current.as_ref().map(|interrupt| Arc::clone(&interrupt.environment)));
    let unlimited = environment.map(|environment| Arc::new(Interrupt::after(environment, 0)));
    let _working = Working(CURRENT.replace(unlimited));
    body()
}

/// Lets the thread rest for so long.
pub fn rest(time: Duration) {
    let environment =
        CURRENT.with_borrow(|current| current.as_ref().map(|interrupt| Arc::clone(&interrupt.environment)));
    environment.map_or_else(|| System.rest(time), |environment| environment.rest(time));
}

/// A thread's work for an operation, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Working(Option<Arc<Interrupt>>);

impl Drop for Working {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::after(Arc::new(System), 0)
    }
}

impl Interrupt {
    /// An interrupt some milliseconds from now; 0 for no limit.
    #[must_use]
    pub fn after(environment: Arc<dyn Environment>, max_time_ms: u64) -> Self {
        let this = Self {
            environment,
            deadline_ms: AtomicI64::new(i64::MAX),
            killed: AtomicBool::new(false),
            caller: None,
            seen_ms: AtomicI64::new(0),
            left: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            keys: AtomicU64::new(0),
            documents: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
            plan: Mutex::new(None),
            planned: AtomicBool::new(false),
            waker: Mutex::default(),
        };
        this.limit(max_time_ms);
        this
    }

    /// The same, which also ends the operation when its caller has left.
    #[must_use]
    pub fn of_caller(mut self, caller: Option<Arc<dyn Caller>>) -> Self {
        self.seen_ms = AtomicI64::new(self.environment.now_ms());
        self.caller = caller;
        self
    }

    /// Sets the limit of time to some milliseconds from now; 0 for no limit.
    pub fn limit(&self, max_time_ms: u64) {
        let deadline = match i64::try_from(max_time_ms) {
            Ok(0) | Err(_) => i64::MAX,
            Ok(limit) => self.environment.now_ms().saturating_add(limit),
        };
        self.deadline_ms.store(deadline, Ordering::Relaxed);
    }

    /// Lets this end what the thread does, until the answer is dropped.
    pub fn begin(self: &Arc<Self>) -> Working {
        Working(CURRENT.replace(Some(Arc::clone(self))))
    }

    /// Asks the operation to end.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Asks the operation to end because the server ends.
    pub fn shut_down(&self) {
        self.ending.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Has the end of the operation, by a kill or with the server, call `wake`, so that the thread that runs the
    /// operation can wait for something else without a look at the interrupt now and then. The thread calls
    /// [`Self::check`] once more before it waits.
    pub fn waking(&self, wake: impl Fn() + Send + Sync + 'static) -> Waking<'_> {
        // Locked by `wake` as well, so that one of the two threads sees what the other has written.
        *self.waker.lock() = Some(Waker(Arc::new(wake)));
        Waking(self)
    }

    fn wake(&self) {
        let waker = self.waker.lock().clone();
        waker.into_iter().for_each(|waker| waker.0());
    }

    /// For how long a thread that wants to wait for some milliseconds may wait until it calls [`Self::check`] again: no
    /// longer than the limit of time, and than five seconds.
    #[must_use]
    pub fn patience(&self, wanted_ms: u64) -> Duration {
        Duration::from_millis(self.left_ms().unwrap_or(u64::MAX).min(wanted_ms).min(PATIENCE_MS))
    }

    /// How many milliseconds are left, if there is a limit.
    #[must_use]
    pub fn left_ms(&self) -> Option<u64> {
        let deadline = self.deadline_ms.load(Ordering::Relaxed);
        (deadline != i64::MAX).then(|| u64::try_from(deadline.saturating_sub(self.environment.now_ms())).unwrap_or(0))
    }

    fn add_examined(&self, keys: u64, documents: u64) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
        self.documents.fetch_add(documents, Ordering::Relaxed);
    }

    /// How many entries of indexes and documents the operation has looked at.
    #[must_use]
    pub fn examined(&self) -> (u64, u64) {
        (self.keys.load(Ordering::Relaxed), self.documents.load(Ordering::Relaxed))
    }

    /// Adds microseconds that the operation waited for others: they are no work, and its duration is shown without
    /// them.
    pub fn add_wait(&self, micros: u64) {
        self.waited_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// How many microseconds the operation waited for others.
    #[must_use]
    pub fn waited_us(&self) -> u64 {
        self.waited_us.load(Ordering::Relaxed)
    }

    /// How the first search of the operation is done, if there was one.
    #[must_use]
    pub fn plan(&self) -> Option<Summary> {
        self.plan.lock().clone()
    }

    /// Takes the plan, so that the next statement of the operation notes its own.
    #[must_use]
    pub fn take_plan(&self) -> Option<Summary> {
        self.planned.store(false, Ordering::Relaxed);
        self.plan.lock().take()
    }

    /// Whether somebody has asked the operation to end.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed) || self.ending.load(Ordering::Relaxed)
    }

    /// Whether the operation may go on: for the thread that runs it.
    ///
    /// # Errors
    /// `MaxTimeMSExpired` (50), `Interrupted` (11601), `InterruptedAtShutdown` (11600), `ClientDisconnect` (279).
    pub fn check(&self) -> Result<()> {
        if self.ending.load(Ordering::Relaxed) {
            let what = "the server ends: interrupted at shutdown";
            return Err(Error::new(ErrorCode::INTERRUPTED_AT_SHUTDOWN, what));
        }
        if self.killed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorCode::INTERRUPTED, "operation was interrupted"));
        }
        let deadline = self.deadline_ms.load(Ordering::Relaxed);
        if deadline != i64::MAX && self.environment.now_ms() >= deadline {
            return Err(Error::new(ErrorCode::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
        }
        if let Some(caller) = &self.caller {
            if self.left.load(Ordering::Relaxed) {
                return Err(left());
            }
            let now = self.environment.now_ms();
            if now.abs_diff(self.seen_ms.load(Ordering::Relaxed)) >= CALLER_MS {
                self.seen_ms.store(now, Ordering::Relaxed);
                if caller.has_left() {
                    self.left.store(true, Ordering::Relaxed);
                    return Err(left());
                }
            }
        }
        Ok(())
    }
}

fn left() -> Error {
    Error::new(ErrorCode::CLIENT_DISCONNECT, "the client has left: operation was interrupted")
}
