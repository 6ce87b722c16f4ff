//! Room in memory: writers wait in line while memtables have all of their memory, until a flush makes room, and are
//! refused where the disk has none for the flush.
//!
//! # Concurrency
//! A writer that finds memory full lines up. A flush that has given memory back admits writers from the front, as many
//! as memory has room for by the bytes that they write, and wakes these and no others. So the line is empty as soon as
//! there is room for all in it, and writers that come later do not line up; while there is not, they wait behind it.
//!
//! # Invariants
//! 1. While a writer stands in line, memory is full and a flush is to come, or a writer that was admitted is not done:
//!    both admit from the front at their end. A writer looks at memory under the latch before it parks, and the latch
//!    is taken after memory was given back, so no wake-up is lost.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;

use crate::base::sync::thread::{self, Thread};
use crate::base::sync::{AtomicUsize, Mutex};

use crate::base::{Error, ErrorKind, Result};

use super::core::Core;
use super::memory::Memory;

/// How often a full disk is tried again.
pub(super) const LOOK_FOR_SPACE: Duration = Duration::from_secs(1);

/// What writers wait for.
#[derive(Debug, Default)]
pub(crate) struct Room {
    state: Mutex<State>,
    /// Writers in line. Written under the latch; a hint to threads that do not take it.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the next writer in line.
    next: u64,
    /// The writers that wait, by the order in which they came.
    line: VecDeque<Waiter>,
    /// Bytes of the writers that were admitted and are not done.
    admitted_bytes: u64,
    full: Option<FullDisk>,
}

/// A writer in line.
#[derive(Debug)]
struct Waiter {
    number: u64,
    bytes: u64,
    thread: Thread,
}

/// Threads to wake when the latch is released.
type Admitted = SmallVec<[Thread; 16]>;

/// The disk had no room for a flush.
#[derive(Debug)]
struct FullDisk {
    /// When the background tries again.
    retry_at: Duration,
    /// What to say to writers, unless other flushes make room.
    refusal: Option<String>,
}

/// A writer that waited was admitted; dropped when its bytes are counted in memory, or never will be.
#[derive(Debug)]
pub(super) struct Admission<'a> {
    room: &'a Room,
    memory: &'a Memory,
    bytes: u64,
}

impl Room {
    /// A flush has made room, on disk too.
    pub(super) fn made(&self, memory: &Memory) {
        self.state.lock().full = None;
        self.admit(memory);
    }

    /// Admits the writers that memory has room for.
    pub(super) fn admit(&self, memory: &Memory) {
        let mut state = self.state.lock();
        let admitted = state.admit(memory);
        self.waiting.store(state.line.len(), Ordering::Relaxed);
        drop(state);
        admitted.iter().for_each(Thread::unpark);
    }

    /// Lets all writers in line look whether the database goes on.
    pub(super) fn look(&self) {
        self.state.lock().line.iter().for_each(|waiter| waiter.thread.unpark());
    }

    /// How long from `now` on the background leaves a full disk alone.
    pub(super) fn rest(&self, now: Duration) -> Option<Duration> {
        let state = self.state.lock();
        let rest = state.full.as_ref()?.retry_at.saturating_sub(now);
        (!rest.is_zero()).then_some(rest)
    }

    /// The disk was full at `now`. Writers that need room are refused from then on, if there is something to tell them.
    fn is_missing(&self, now: Duration, refusal: Option<String>) {
        self.state.lock().full = Some(FullDisk { retry_at: now + LOOK_FOR_SPACE, refusal });
        self.look();
    }

    fn check(&self) -> Result<()> {
        self.state.lock().check()
    }

    /// Whether a writer must line up: memory is full, or others wait.
    pub(super) fn is_closed(&self, memory: &Memory) -> bool {
        memory.is_full() || self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits until a writer of so many bytes is admitted, for as long as `goes_on` has no objection.
    pub(super) fn wait<'a>(
        &'a self,
        bytes: u64,
        memory: &'a Memory,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<Admission<'a>> {
        let mut state = self.state.lock();
        let number = state.line_up(bytes);
        self.waiting.store(state.line.len(), Ordering::Relaxed);
        drop(state);
        // There may be room by now.
        self.admit(memory);
        loop {
            let mut state = self.state.lock();
            let Some(at) = state.place_of(number) else { return Ok(Admission { room: self, memory, bytes }) };
            if let Err(error) = goes_on().and_then(|()| state.check()) {
                state.line.remove(at);
                self.waiting.store(state.line.len(), Ordering::Relaxed);
                return Err(error);
            }
            drop(state);
            thread::park();
        }
    }
}

impl State {
    fn line_up(&mut self, bytes: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.line.push_back(Waiter { number, bytes, thread: thread::current() });
        number
    }

    /// Where in the line a writer is; `None` when it was admitted.
    fn place_of(&self, number: u64) -> Option<usize> {
        self.line.binary_search_by_key(&number, |waiter| waiter.number).ok()
    }

    /// Takes those from the front of the line that memory has room for.
    fn admit(&mut self, memory: &Memory) -> Admitted {
        let mut admitted = Admitted::new();
        while !memory.is_full_with(self.admitted_bytes)
            && let Some(waiter) = self.line.pop_front()
        {
            self.admitted_bytes += waiter.bytes;
            admitted.push(waiter.thread);
        }
        admitted
    }

    fn check(&self) -> Result<()> {
        match self.full.as_ref().and_then(|full| full.refusal.as_ref()) {
            Some(refusal) => Err(Error::new(ErrorKind::Full, refusal)),
            None => Ok(()),
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.room.state.lock().admitted_bytes -= self.bytes;
        self.room.admit(self.memory);
    }
}

impl Core {
    /// Waits for room in memory for a commit of so many bytes, when there is none or other commits came first.
    ///
    /// # Errors
    /// `Full` when the disk has no room for what would have to be flushed.
    pub(super) fn wait_for_room(&self, bytes: u64) -> Result<Option<Admission<'_>>> {
        if !self.room.is_closed(&self.memory) {
            return Ok(None);
        }
        let start = self.env.clock.now();
        self.wake_flush();
        let admission = if self.env.threads.concurrent() {
            Some(self.room.wait(bytes, &self.memory, || self.health.check_writable())?)
        } else {
            // The flush was done when it was woken, or cannot be.
            if self.memory.is_full() {
                self.health.check_writable()?;
                self.room.check()?;
            }
            None
        };
        self.counters.stalled(self.env.clock.now().saturating_sub(start));
        Ok(admission)
    }

    /// Says what to do about a flush of so many bytes that met a full disk.
    pub(super) fn advise_room(&self, error: Error, bytes: u64) -> Error {
        let dir = self.dir.display();
        // A quota or a limit on files leaves space that nobody gets.
        match self.env.fs.free_bytes(&self.dir).map_or(0, |free| bytes.saturating_sub(free)) {
            0 => error.advice(format_args!("the flush needs up to {bytes} bytes in {dir}")),
            missing => error.advice(format_args!("free {missing} bytes on the disk of {dir}")),
        }
    }

    /// Notes that flushes met a full disk, and when no other flush made room either has writers told what is wrong.
    pub(super) fn no_room(&self, error: &Error, made_some: bool) {
        let refusal = (!made_some)
            .then(|| format!("memtables have all memory that they may take, and none can be flushed: {error}"));
        self.room.is_missing(self.env.clock.now(), refusal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A memory of 16 MiB with so many bytes in frozen memtables, of the ten that may be there before writers wait.
    fn memory(mib: u64) -> Memory {
        let memory = Memory::new(16 << 20);
        memory.set_immutable(mib << 20);
        memory
    }

    fn numbers(room: &Room) -> Vec<u64> {
        room.state.lock().line.iter().map(|waiter| waiter.number).collect()
    }

    #[test]
    fn writers_are_admitted_in_the_order_in_which_they_came_and_by_their_bytes() {
        let (room, memory) = (Room::default(), memory(11));
        (0..5).for_each(|_| _ = room.state.lock().line_up(2 << 20));
        room.admit(&memory);
        assert_eq!(numbers(&room), [0, 1, 2, 3, 4], "memory is full");
        memory.set_immutable(5 << 20);
        room.made(&memory);
        // The third begins below the limit.
        assert_eq!(numbers(&room), [3, 4]);
        assert!(room.is_closed(&memory), "later writers wait behind those in line");
        let admission = Admission { room: &room, memory: &memory, bytes: 2 << 20 };
        drop(admission);
        assert_eq!(numbers(&room), [4], "one of them is done, and wrote nothing");
        memory.set_immutable(0);
        room.made(&memory);
        assert!(numbers(&room).is_empty() && !room.is_closed(&memory));
    }

    /// Every commit lined up while another was in line, although there was room: with more writers than processors the
    /// line was never empty again.
    #[test]
    fn the_line_is_empty_when_there_is_room_for_all_in_it() {
        let (room, memory) = (Room::default(), memory(11));
        (0..64).for_each(|_| _ = room.state.lock().line_up(400));
        memory.set_immutable(8 << 20);
        room.made(&memory);
        assert!(numbers(&room).is_empty() && !room.is_closed(&memory));
    }

    #[test]
    fn a_writer_that_leaves_holds_up_nobody() {
        let (room, memory) = (Room::default(), memory(11));
        let error = room.wait(1, &memory, || Err(Error::new(ErrorKind::Closed, "closed"))).unwrap_err();
        assert_eq!((error.kind(), numbers(&room)), (ErrorKind::Closed, vec![]));
        let memory = self::memory(1);
        drop(room.wait(1, &memory, || unreachable!("there is room")).unwrap());
        assert_eq!(room.state.lock().admitted_bytes, 0);
    }

    #[test]
    fn writers_are_refused_from_a_round_of_flushes_without_room_to_the_next_flush() {
        let (room, memory, now) = (Room::default(), memory(0), Duration::from_secs(5));
        assert!(room.check().is_ok() && room.rest(now).is_none());
        room.is_missing(now, None);
        assert!(room.check().is_ok(), "another flush made room");
        room.is_missing(now, Some("no room".to_owned()));
        assert_eq!(room.check().unwrap_err().kind(), ErrorKind::Full);
        assert_eq!(room.rest(now), Some(LOOK_FOR_SPACE));
        assert!(room.rest(now + LOOK_FOR_SPACE).is_none() && room.check().is_err());
        room.made(&memory);
        assert!(room.check().is_ok() && room.rest(now).is_none());
    }
}
