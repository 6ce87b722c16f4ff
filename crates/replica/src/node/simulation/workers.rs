//! Background work of a simulated machine, by tasks.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use spinney::env::sim;
use tokio::time::Instant;

use super::turns;
use super::world::World;

/// Threads for background work of a machine: while one waits, another goes on.
const WORKERS: usize = 3;

/// How long a thread for background work rests that does not look.
const UNTIL_WOKEN: Duration = Duration::from_secs(3600);

/// How often a machine looks whether the time of some background work has come.
const LOOKS: Duration = Duration::from_millis(20);

/// The threads for the background work of a machine.
#[derive(Default)]
struct Workers {
    /// What wakes them, of those that have nothing to do.
    idle: Mutex<[Option<Waker>; WORKERS]>,
    /// Up to when the machine's clock was moved.
    moved: Mutex<Option<Instant>>,
}

impl sim::Turns for Workers {
    fn rest(&self, time: Duration) {
        turns::rest(time);
    }

    fn woken(&self) {
        let first = self.idle.lock().iter_mut().find_map(Option::take);
        first.into_iter().for_each(Waker::wake);
    }
}

/// Does the background work of a machine until the world has ended.
pub(super) fn work(world: &Arc<World>, at: usize) {
    let workers = Arc::new(Workers::default());
    let machine = world.machines[at].clone();
    machine.set_turns(Some(Arc::clone(&workers) as _));
    for number in 0..WORKERS {
        let (world, workers, machine) = (Arc::downgrade(world), Arc::clone(&workers), machine.clone());
        tokio::spawn(turns::in_turns(move || {
            while let Some(world) = Weak::upgrade(&world) {
                let now = Instant::now();
                let since = workers.moved.lock().replace(now).unwrap_or(now);
                machine.advance(now - since);
                while machine.work(world.below(1 << 16)) {}
                drop(world);
                workers.idle.lock()[number] = Some(turns::waker());
                turns::rest(if number == 0 { LOOKS } else { UNTIL_WOKEN });
                workers.idle.lock()[number] = None;
            }
        }));
    }
}
