//! The memory that messages of clients take: one bound for all connections together.
//!
//! # Invariants
//!
//! 1. A message takes memory for all of its bytes before they are read, and a connection that waits for memory holds
//!    none. So each message that has begun can be read to its end.
//! 2. Memory is given in the order in which it was asked for: no connection is passed over for ever.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The bytes per second that a message must come with while others wait for memory.
const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

/// Memory for messages.
#[derive(Debug)]
pub struct MessageMemory {
    bytes_max: usize,
    /// How long a message may take beside the time of its bytes, while others wait.
    grace: Duration,
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    free: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

/// A connection that waits for memory.
#[derive(Debug)]
struct Waiter {
    bytes: usize,
    /// Whether the memory was given, changed under the lock of the queue.
    given: Mutex<bool>,
    changed: Condvar,
}

/// Memory of a message, given back when this is dropped.
#[derive(Debug)]
pub struct Hold<'m> {
    memory: &'m MessageMemory,
    bytes: usize,
    wanted: usize,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut queue = self.memory.queue.lock();
        queue.free += self.bytes;
        queue.give();
    }
}

impl Hold<'_> {
    /// The longest message that it is enough for.
    #[must_use]
    pub const fn wanted(&self) -> usize {
        self.wanted
    }
}

impl Queue {
    /// Gives memory to those that wait, in their order.
    fn give(&mut self) {
        while let Some(first) = self.waiting.front()
            && first.bytes <= self.free
            && let Some(first) = self.waiting.pop_front()
        {
            self.free -= first.bytes;
            *first.given.lock() = true;
            first.changed.notify_one();
        }
    }
}

impl MessageMemory {
    /// Memory of `bytes_max` bytes. While others wait, a message may take the time of its bytes and `grace`.
    #[must_use]
    pub fn new(bytes_max: usize, grace: Duration) -> Self {
        Self { bytes_max, grace, queue: Mutex::new(Queue { free: bytes_max, waiting: VecDeque::new() }) }
    }

    /// Takes memory for a message, and waits until there is some. A message that is larger than all of the memory gets
    /// all of it.
    #[must_use]
    pub fn take(&self, wanted: usize) -> Hold<'_> {
        let bytes = wanted.min(self.bytes_max);
        let hold = Hold { memory: self, bytes, wanted };
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() && bytes <= queue.free {
            queue.free -= bytes;
            return hold;
        }
        let waiter = Arc::new(Waiter { bytes, given: Mutex::new(false), changed: Condvar::new() });
        queue.waiting.push_back(Arc::clone(&waiter));
        drop(queue);
        let mut given = waiter.given.lock();
        while !*given {
            waiter.changed.wait(&mut given);
        }
        hold
    }

    /// Whether a connection waits for memory.
    #[must_use]
    pub fn is_short(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// How long a message of some bytes may take while others wait for memory.
    #[must_use]
    pub fn time_of(&self, bytes: usize) -> Duration {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.grace + Duration::from_millis(bytes.saturating_mul(1000) / BYTES_PER_SECOND_MIN)
    }

    /// The bytes that messages hold now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes_max - self.queue.lock().free
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn memory_is_given_in_the_order_of_asking_and_never_more_than_there_is() {
        let memory = MessageMemory::new(100, Duration::ZERO);
        let (first, order) = (memory.take(60), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let large = scope.spawn(|| {
                let hold = memory.take(90);
                assert_eq!((order.fetch_add(1, Ordering::SeqCst), memory.held()), (0, 90));
                drop(hold);
            });
            while !memory.is_short() {
                std::thread::yield_now();
            }
            // There would be memory for it, but another one was first.
            let small = scope.spawn(|| {
                let _hold = memory.take(20);
                assert_eq!(order.fetch_add(1, Ordering::SeqCst), 1);
            });
            while memory.queue.lock().waiting.len() < 2 {
                std::thread::yield_now();
            }
            drop(first);
            large.join().unwrap();
            small.join().unwrap();
        });
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn a_message_that_is_larger_than_the_memory_gets_all_of_it() {
        let memory = MessageMemory::new(100, Duration::from_secs(1));
        let hold = memory.take(1000);
        assert_eq!((hold.wanted(), memory.held()), (1000, 100));
        assert_eq!(memory.time_of(2 << 20), Duration::from_secs(3));
        drop(hold);
        assert_eq!(memory.held(), 0);
    }
}
