//! Two users at once: one of them meets the other in its middle, or both go on beside each other.
//!
//! The moments at which a user can be met are its calls to the file system, and, on a member of a set, those around
//! each proposal, since the calls of a commit there are the applier's.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use spinney::env::sim::SimEnv;
use spinney_testkit::Rng;

/// A user that waits for something that the other one holds has met it after this time.
const PATIENCE: Duration = Duration::from_millis(4);

/// Called at each moment of a thread.
type Point = Box<dyn FnMut() + Send>;

thread_local! {
    static POINT: RefCell<Option<Point>> = const { RefCell::new(None) };
}

/// A moment at which this thread can be met.
pub(crate) fn reach() {
    // A moment within a moment is none.
    POINT.with(|point| {
        if let Ok(mut point) = point.try_borrow_mut() {
            point.iter_mut().for_each(|point| point());
        }
    });
}

/// Does `work` with `point` called at each of its moments. The calls to the file system of one thread at a time are
/// moments.
fn with_points<T>(sim: Option<&SimEnv>, point: Point, work: impl FnOnce() -> T) -> T {
    POINT.with(|slot| *slot.borrow_mut() = Some(point));
    if let Some(sim) = sim {
        sim.interrupt(Some(Box::new(|_, _| reach())));
    }
    let worked = work();
    if let Some(sim) = sim {
        sim.interrupt(None);
    }
    POINT.with(|slot| *slot.borrow_mut() = None);
    worked
}

/// How the users meet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meeting {
    /// The second begins at a moment of the first, which goes on when the second has ended or waits.
    At(u64),
    /// Both begin at once; at its moments each gives way now and then.
    Beside(u64),
}

/// Lets both users act. How many moments the first had, and whether the second ended within one of them.
pub(crate) fn meet(sim: &SimEnv, meeting: Meeting, first: impl FnOnce(), second: impl FnOnce() + Send) -> (u64, bool) {
    match meeting {
        Meeting::At(place) => meet_at(sim, place, first, second),
        Meeting::Beside(seed) => {
            let barrier = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    barrier.wait();
                    with_points(None, giving_way(!seed), second);
                });
                barrier.wait();
                with_points(Some(sim), giving_way(seed), first);
            });
            (0, false)
        }
    }
}

/// A point at which a thread lets others run for a while, drawn from a seed.
fn giving_way(seed: u64) -> Point {
    let mut rng = Rng::new(seed);
    Box::new(move || {
        if rng.chance(30) {
            (0..rng.in_range(1..40)).for_each(|_| thread::yield_now());
        }
    })
}

fn meet_at(sim: &SimEnv, place: u64, first: impl FnOnce(), second: impl FnOnce() + Send) -> (u64, bool) {
    let (moments, inside) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    thread::scope(|scope| {
        let ((begin, begun), (end, ended)) = (channel::<()>(), channel::<()>());
        scope.spawn(move || {
            // Behind the first user, when that had fewer moments.
            let _has_moments = begun.recv();
            second();
            let _nobody_waits = end.send(());
        });
        let (counted, in_time) = (Arc::clone(&moments), Arc::clone(&inside));
        let point = Box::new(move || {
            if counted.fetch_add(1, Ordering::SeqCst) == place && begin.send(()).is_ok() {
                in_time.store(ended.recv_timeout(PATIENCE).is_ok(), Ordering::SeqCst);
            }
        });
        with_points(Some(sim), point, first);
    });
    (moments.load(Ordering::SeqCst), inside.load(Ordering::SeqCst))
}
