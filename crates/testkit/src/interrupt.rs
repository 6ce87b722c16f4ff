//! An action of another thread in the middle of an operation: before a call that this makes to the file system.

use spinney::env::sim::SimEnv;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc::channel};
use std::thread;
use std::time::Duration;

/// An action that may meet a latch of the operation has met it when it has not ended after this time.
pub const PATIENCE: Duration = Duration::from_millis(20);

/// What came of an operation and an action in its middle.
#[derive(Debug)]
pub struct Interrupted<W, A> {
    /// What the operation gave.
    pub worked: W,
    /// How many calls it made.
    pub calls: u64,
    /// What the action gave; none when the operation made fewer calls.
    pub acted: Option<A>,
    /// Whether the action ended before the operation went on.
    pub inside: bool,
}

/// Does `work`. Before its call with the number `place`, from zero, another thread does `act`: it ends, or has not
/// ended after `patience`, because it waits for something that the operation holds, and then both go on.
///
/// # Panics
/// When `act` does.
pub fn at_call<W, A: Send>(
    sim: &SimEnv,
    (place, patience): (u64, Duration),
    work: impl FnOnce() -> W,
    act: impl FnOnce() -> A + Send,
) -> Interrupted<W, A> {
    let (calls, inside) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    thread::scope(|scope| {
        let ((begin, begun), (end, ended)) = (channel(), channel());
        let actor = scope.spawn(move || {
            let acted = begun.recv().is_ok().then(act);
            // Nobody waits for it when the operation has gone on.
            let _nobody_waits = end.send(());
            acted
        });
        let (counted, in_time, meeting) = (Arc::clone(&calls), Arc::clone(&inside), Mutex::new((begin, ended)));
        sim.interrupt(Some(Box::new(move |_, _| {
            if counted.fetch_add(1, Ordering::SeqCst) == place
                && let Ok(meeting) = meeting.lock()
                && meeting.0.send(()).is_ok()
            {
                in_time.store(meeting.1.recv_timeout(patience).is_ok(), Ordering::SeqCst);
            }
        })));
        let worked = work();
        // An actor that was not called learns that it will not be.
        sim.interrupt(None);
        let acted = actor.join().expect("the action does not panic");
        Interrupted { worked, calls: calls.load(Ordering::SeqCst), acted, inside: inside.load(Ordering::SeqCst) }
    })
}
