//! Room in memory: writers wait in line until a flush makes it, and are refused where the disk has none for the flush.
//!
//! # Concurrency
//! The line is held for looks only. Whoever finds others in it lines up behind them, so that each waits for those before it and for no one who
//! comes later.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::base::sync::{AtomicUsize, Condvar, Mutex};

use crate::base::{Error, ErrorKind, Result};

use super::core::Core;

/// How often a full disk is tried again.
pub(super) const LOOK_FOR_SPACE: Duration = Duration::from_secs(1);
/// A writer that waits looks so often itself, for a flush that ended before it waited.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(5);

/// What writers wait for.
#[derive(Debug, Default)]
pub(crate) struct Room {
    state: Mutex<State>,
    /// Writers in line. Written under the latch; a hint to those who do not take it.
    waiting: AtomicUsize,
    /// A flush has made room, or somebody has left the line, or nothing is flushed any more.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Those who wait, by the order in which they came.
    line: VecDeque<u64>,
    full: Option<FullDisk>,
}

/// The disk had no room for a flush.
#[derive(Debug)]
struct FullDisk {
    /// When the background tries again.
    retry_at: Duration,
    /// What to say to writers, unless other flushes make room.
    refusal: Option<String>,
}

/// A writer's place in the line.
struct Place<'a> {
    room: &'a Room,
    number: u64,
}

impl Room {
    /// A flush has made room, on disk too.
    pub(super) fn made(&self) {
        self.state.lock().full = None;
        self.changed.notify_all();
    }

    /// Lets all who wait look whether the database goes on.
    pub(super) fn look(&self) {
        self.changed.notify_all();
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
        self.changed.notify_all();
    }

    fn check(&self) -> Result<()> {
        match self.state.lock().full.as_ref().and_then(|full| full.refusal.as_ref()) {
            Some(refusal) => Err(Error::new(ErrorKind::Full, refusal)),
            None => Ok(()),
        }
    }

    fn line_up(&self) -> Place<'_> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.line.push_back(number);
        self.waiting.store(state.line.len(), Ordering::Relaxed);
        Place { room: self, number }
    }
}

impl Place<'_> {
    fn is_first(&self) -> bool {
        self.room.state.lock().line.front() == Some(&self.number)
    }

    fn wait(&self) {
        // The time limit covers a flush that ended between the look and the wait.
        self.room.changed.wait_for(&mut self.room.state.lock(), LOOK_FOR_ROOM);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.room.state.lock();
        state.line.retain(|number| *number != self.number);
        self.room.waiting.store(state.line.len(), Ordering::Relaxed);
        drop(state);
        self.room.changed.notify_all();
    }
}

impl Core {
    /// Whether a writer has to wait for room: there is none, or others came first.
    pub(super) fn must_wait(&self) -> bool {
        self.memory.is_full() || self.room.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits for room in memory behind those who came before.
    ///
    /// # Errors
    /// `Full` when the disk has no room for what would have to be flushed.
    pub(super) fn wait_for_room(&self) -> Result<()> {
        let start = self.env.clock.now();
        self.wake_flush();
        let place = self.room.line_up();
        while self.memory.is_full() || !place.is_first() {
            self.health.check_writable()?;
            self.room.check()?;
            if !self.env.threads.concurrent() {
                break;
            }
            place.wait();
        }
        drop(place);
        self.counters.stalled(self.env.clock.now().saturating_sub(start));
        Ok(())
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

    #[test]
    fn writers_go_in_the_order_in_which_they_came_and_those_that_leave_hold_up_nobody() {
        let room = Room::default();
        let (first, second, third) = (room.line_up(), room.line_up(), room.line_up());
        assert!(first.is_first() && !second.is_first() && !third.is_first());
        drop(second);
        assert!(!third.is_first());
        drop(first);
        assert!(third.is_first() && room.waiting.load(Ordering::Relaxed) == 1);
        let last = room.line_up();
        drop(third);
        assert!(last.is_first());
        drop(last);
        assert_eq!(room.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn writers_are_refused_from_a_round_of_flushes_without_room_to_the_next_flush() {
        let (room, now) = (Room::default(), Duration::from_secs(5));
        assert!(room.check().is_ok() && room.rest(now).is_none());
        room.is_missing(now, None);
        assert!(room.check().is_ok(), "another flush made room");
        room.is_missing(now, Some("no room".to_owned()));
        assert_eq!(room.check().unwrap_err().kind(), ErrorKind::Full);
        assert_eq!(room.rest(now), Some(LOOK_FOR_SPACE));
        assert!(room.rest(now + LOOK_FOR_SPACE).is_none() && room.check().is_err());
        room.made();
        assert!(room.check().is_ok() && room.rest(now).is_none());
    }
}
