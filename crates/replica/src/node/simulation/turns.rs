//! Threads that take turns with the runtime, by virtual time: what the documents' layer does blocks its thread, and a
//! run is to be replayed all the same.
//!
//! Of a runtime's thread and all tasks that were begun there one runs at a time. A task runs until it rests or ends;
//! the runtime then goes on with what else is due, and lets the task run again when its time is over, or it was woken.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::super::driver::{Drive, POLLED_EVERY};

/// A task that has not rested for so long, by the real clock, waits for a thread that has no turn.
const STUCK: Duration = Duration::from_secs(60);

const STACK_BYTES: usize = 4 << 20;

/// Whose turn it is.
#[derive(Debug)]
enum Turn {
    Task,
    /// The runtime's, while the task rests for some time.
    Runtime(Duration),
    /// The runtime's: the task has ended, or panicked.
    Ended(Option<Box<dyn Any + Send>>),
    /// Nobody waits for the task any more.
    Left,
}

#[derive(Debug)]
struct Task {
    turn: Mutex<Turn>,
    changed: Condvar,
    woken: Notify,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.woken.notify_one();
    }
}

thread_local! {
    /// The task of this thread.
    static CURRENT: RefCell<Option<Arc<Task>>> = const { RefCell::new(None) };
}

/// A panic of a task that nobody waits for any more, which nobody hears of.
struct Gone;

impl Task {
    /// Waits until it is the task's turn.
    fn await_turn(&self) {
        let mut turn = self.turn.lock();
        self.changed.wait_while(&mut turn, |turn| matches!(turn, Turn::Runtime(_)));
        if matches!(*turn, Turn::Left) && !std::thread::panicking() {
            drop(turn);
            resume_unwind(Box::new(Gone));
        }
    }

    fn give_up_turn(&self, turn: Turn) {
        let mut own = self.turn.lock();
        if !matches!(*own, Turn::Left) {
            *own = turn;
        }
        drop(own);
        self.changed.notify_all();
    }

    /// Lets the task run until it rests, for how long it says, or has ended.
    fn run(&self) -> Option<Duration> {
        let mut turn = self.turn.lock();
        if matches!(*turn, Turn::Runtime(_)) {
            *turn = Turn::Task;
            self.changed.notify_all();
            let late = self.changed.wait_while_for(&mut turn, |turn| matches!(turn, Turn::Task), STUCK).timed_out();
            assert!(!late, "a task waits for a thread that has no turn, or computes for {STUCK:?}");
        }
        match &mut *turn {
            Turn::Runtime(rest) => Some(*rest),
            Turn::Ended(panic) => {
                let panic = panic.take();
                drop(turn);
                panic.and_then(|panic| resume_unwind(panic))
            }
            Turn::Task | Turn::Left => None,
        }
    }
}

/// A task as the runtime waits for it. When this is dropped, the task unwinds at its next rest.
struct Running {
    task: Arc<Task>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        {
            let mut turn = self.task.turn.lock();
            if !matches!(*turn, Turn::Ended(_)) {
                *turn = Turn::Left;
            }
        }
        self.task.changed.notify_all();
        // A task that does not end is told by `run`; here another panic would hide it.
        if !std::thread::panicking() {
            self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
        }
    }
}

/// Does `body` in a thread of its own, in turns with the runtime's.
pub(super) async fn in_turns(body: impl FnOnce() + Send + 'static) {
    let runtime = Handle::current();
    let task = Arc::new(Task {
        turn: Mutex::new(Turn::Runtime(Duration::ZERO)),
        changed: Condvar::new(),
        woken: Notify::new(),
    });
    let own = Arc::clone(&task);
    let work = move || {
        CURRENT.set(Some(Arc::clone(&own)));
        let _context = runtime.enter();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            own.await_turn();
            body();
        }));
        own.give_up_turn(Turn::Ended(ended.err().filter(|panic| !panic.is::<Gone>())));
    };
    let thread = Builder::new().name("task".to_owned()).stack_size(STACK_BYTES).spawn(work).unwrap();
    let running = Running { task, thread: Some(thread) };
    while let Some(rest) = running.task.run() {
        tokio::select! {
            biased;
            () = running.task.woken.notified() => {}
            () = sleep(rest) => {}
        }
    }
}

/// The same, for what is in a box.
pub(super) fn boxed(body: Box<dyn FnOnce() + Send>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(in_turns(body))
}

/// Lets others go on, for some time at the most.
///
/// # Panics
/// In the runtime's own thread: what waits there waits for ever.
pub(super) fn rest(time: Duration) {
    if std::thread::panicking() {
        return;
    }
    let task = current().expect("the thread of the runtime waits for another one");
    task.give_up_turn(Turn::Runtime(time));
    task.await_turn();
}

/// What lets the task of this thread go on before its time is over.
pub(super) fn waker() -> Waker {
    Waker::from(current().expect("a task"))
}

fn current() -> Option<Arc<Task>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Waits in a task for a future.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    let (mut future, waker) = (pin!(future), waker());
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        rest(POLLED_EVERY);
    }
}

/// Lets tasks wait for what happens in the runtime.
#[derive(Debug)]
pub(super) struct Turns(pub(super) Handle);

impl Drive for Turns {
    fn handle(&self) -> &Handle {
        &self.0
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        wait(future)
    }

    fn commit<T>(&self, commit: impl Future<Output = T>) -> T {
        wait(commit)
    }
}
