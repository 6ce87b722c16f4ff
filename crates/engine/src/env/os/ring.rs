//! Reads that a thread waits for awake, by a ring of its own that it shares with the kernel (io_uring(7)).
//!
//! A thread that sleeps until its read is done may let its processor fall asleep as well, and a virtual processor takes
//! longer to wake than some devices take to read. Awake, the thread looks at the ring's memory and lets others run in
//! between; so no thread sleeps while reads of some ten microseconds are under way, and all processors are busy.
//!
//! # Invariants
//! 1. A ring is its thread's alone and has one read at most, which the thread does not leave before the kernel is done
//!    with the buffer.
//! 2. A ring that did not take what it was handed is given up with it: it is not handed to the kernel later.

use io_uring::{IoUring, opcode, types};
use rustix::io::{Errno, pread};
use rustix::process::{Pid, getpid};
use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

/// The most bytes of a read that is waited for awake. Larger reads take longer than a wake-up.
pub(super) const BYTES_MAX: usize = 64 << 10;

/// How long a thread stays awake for a read: a device that is slower gains nothing.
const AWAKE_MAX: Duration = Duration::from_micros(200);

/// How often a read is submitted again that the kernel does not accept, for example for lack of memory.
const SUBMITS_MAX: usize = 100;

/// Reads that a thread sleeps for after it could get no ring, before it asks for one again.
const READS_ASLEEP: u32 = 10_000;

/// What a thread has to read by.
struct Mine {
    ring: Option<IoUring>,
    /// The process that the ring belongs to: a process forked from it has the ring as well, and must not use it.
    process: Option<Pid>,
    /// Reads to sleep for before a ring is asked for.
    asleep: u32,
}

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine { ring: None, process: None, asleep: 0 }) };
}

impl Mine {
    /// The thread's ring, if it can have one.
    fn ring(&mut self) -> Option<&mut IoUring> {
        let process = Some(getpid());
        if self.ring.is_none() || self.process != process {
            self.asleep = self.asleep.saturating_sub(1);
            (self.ring, self.process) = (if self.asleep == 0 { IoUring::new(1).ok() } else { None }, process);
            if self.ring.is_none() && self.asleep == 0 {
                self.asleep = READS_ASLEEP;
            }
        }
        self.ring.as_mut()
    }
}

/// Whether a thread can have a ring, and read by it.
///
/// # Errors
/// Says that it cannot, and why: the kernel is older than Linux 5.6, or forbids rings, as many containers do.
pub(super) fn check() -> io::Result<()> {
    let read = || {
        let (pipe, mut writer) = io::pipe()?;
        writer.write_all(&[1])?;
        let mut ring = IoUring::new(1)?;
        // A pipe has no offsets; this one says to read on from where it is.
        let read = read_by(&mut ring, pipe.as_fd(), &mut [0], u64::MAX).unwrap_or(Err(Errno::NOSYS))?;
        if read == 1 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    };
    read().map_err(|error: io::Error| {
        let text = format!("reads cannot be polled for, since the kernel gives no io_uring ({error}): read without");
        io::Error::new(error.kind(), text)
    })
}

/// Reads as pread(2) does. A thread that can get no ring, for example with too many files open, sleeps for its reads.
pub(super) fn read(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
    let by_ring = MINE.try_with(|mine| {
        // A ring would take the last of them for the current position of the file.
        i64::try_from(offset).ok()?;
        let mut mine = mine.borrow_mut();
        let result = read_by(mine.ring()?, file, buffer, offset);
        if result.is_none() {
            mine.ring = None;
        }
        result
    });
    by_ring.ok().flatten().unwrap_or_else(|| pread(file, buffer, offset))
}

/// The same by a ring. `None` when the ring did not take the read or the kernel did not make it, and the ring is to be
/// given up.
#[expect(clippy::disallowed_methods, reason = "the time of a read, not of the database")]
fn read_by(
    ring: &mut IoUring,
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
) -> Option<rustix::io::Result<usize>> {
    let bytes = u32::try_from(buffer.len()).ok()?;
    let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer.as_mut_ptr(), bytes).offset(offset).build();
    // SAFETY: the buffer and the file are borrowed until this returns. That is after the kernel has said that it is
    // done with them, or before the kernel was told of them by a ring that is not used again (invariants 1 and 2).
    unsafe { ring.submission().push(&read) }.ok()?;
    let is_taken = (0..SUBMITS_MAX).any(|_| {
        let is_taken = ring.submit().is_ok_and(|reads| reads > 0);
        if !is_taken {
            thread::yield_now();
        }
        is_taken
    });
    if !is_taken {
        return None;
    }
    let begun = Instant::now();
    loop {
        if let Some(done) = ring.completion().next() {
            let result = usize::try_from(done.result());
            let result = result.map_err(|_| Errno::from_raw_os_error(done.result().wrapping_neg()));
            // Some kernels leave it to the caller to try again.
            return Some(result).filter(|result| !matches!(result, Err(Errno::AGAIN | Errno::CANCELED)));
        }
        // An error of the wait, as when a signal ends it, changes nothing: the read is under way until the ring has its
        // result.
        if begun.elapsed() < AWAKE_MAX || ring.submit_and_wait(1).is_err() {
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};
    use std::fs::File;

    fn byte(offset: usize) -> u8 {
        u8::try_from(offset / 7 % 251).unwrap()
    }

    fn a_file(bytes: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..bytes).map(byte).collect::<Vec<_>>()).unwrap();
        file
    }

    /// A ring; where the kernel gives none, there is nothing to test.
    fn ring() -> Option<IoUring> {
        IoUring::new(1).ok()
    }

    #[test]
    fn a_ring_reads_as_the_call_does() {
        let Some(mut ring) = ring() else { return };
        let file = a_file(10_000);
        let directory = File::from(open("/", OFlags::RDONLY, Mode::empty()).unwrap());
        let write_only = File::from(open("/dev/null", OFlags::WRONLY, Mode::empty()).unwrap());
        let cases = [(&file, 0, 100), (&file, 9_990, 100), (&file, 10_000, 8), (&file, 1 << 40, 8), (&file, 0, 0)]
            .into_iter()
            .chain([(&file, u64::MAX / 2, 8), (&directory, 0, 8), (&write_only, 0, 8)]);
        for (file, offset, bytes) in cases {
            let (mut by_ring, mut by_call) = (vec![7; bytes], vec![7; bytes]);
            let result = read_by(&mut ring, file.as_fd(), &mut by_ring, offset).expect("the ring takes it");
            assert_eq!(result, pread(file, &mut by_call, offset), "{bytes} bytes at {offset} of {file:?}");
            assert_eq!(by_ring, by_call, "{bytes} bytes at {offset} of {file:?}");
        }
        assert_eq!(read(file.as_fd(), &mut [0; 8], u64::MAX), pread(&file, &mut [0; 8], u64::MAX));
    }

    #[test]
    fn a_read_that_takes_long_is_waited_for() {
        let Some(mut ring) = ring() else { return };
        let (end, mut writer) = io::pipe().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                super::super::env().threads.sleep(20 * AWAKE_MAX);
                writer.write_all(b"late").unwrap();
            });
            let mut buffer = [0; 16];
            // A pipe has no offsets; this one says to read on from where it is.
            assert_eq!(read_by(&mut ring, end.as_fd(), &mut buffer, u64::MAX), Some(Ok(4)));
            assert_eq!(&buffer[..4], b"late");
        });
    }

    #[test]
    fn each_thread_reads_its_own_bytes() {
        let file = a_file(1 << 20);
        thread::scope(|scope| {
            for first in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    for i in 0..500 {
                        let offset = (first * 131_101 + i * 8_209) % ((1 << 20) - 600);
                        let mut buffer = [0; 600];
                        assert_eq!(read(file.as_fd(), &mut buffer, u64::try_from(offset).unwrap()), Ok(600));
                        assert!((offset..).zip(buffer).all(|(at, found)| found == byte(at)), "at {offset}");
                    }
                });
            }
        });
    }

    #[test]
    fn a_ring_that_refuses_is_given_up_and_the_read_sleeps() {
        // A ring that was never enabled takes nothing.
        let Ok(disabled) = IoUring::builder().setup_r_disabled().build(1) else { return };
        let file = a_file(100);
        let mut buffer = [0; 100];
        MINE.set(Mine { ring: Some(disabled), process: Some(getpid()), asleep: 0 });
        assert_eq!(read(file.as_fd(), &mut buffer, 0), Ok(100));
        assert!((0..).zip(buffer).all(|(at, found)| found == byte(at)));
        let has_ring = || MINE.with_borrow(|mine| mine.ring.is_some());
        assert!(!has_ring());
        assert_eq!(read(file.as_fd(), &mut buffer, 50), Ok(50));
        assert!(has_ring(), "the next read has a new ring");
    }

    #[test]
    fn a_ring_of_the_process_that_this_was_forked_from_is_not_used() {
        let Some(theirs) = ring() else { return };
        let file = a_file(100);
        let number = |mine: &Mine| mine.ring.as_ref().map(AsRawFd::as_raw_fd);
        MINE.set(Mine { ring: Some(theirs), process: Pid::from_raw(1), asleep: 0 });
        let before = MINE.with_borrow(number);
        assert_eq!(read(file.as_fd(), &mut [0; 100], 0), Ok(100));
        assert_ne!(MINE.with_borrow(number), before);
        let ours = MINE.with_borrow(number);
        assert_eq!(read(file.as_fd(), &mut [0; 100], 0), Ok(100));
        assert_eq!(MINE.with_borrow(number), ours);
    }

    #[test]
    fn who_could_not_have_a_ring_asks_again_after_many_reads() {
        let mut mine = Mine { ring: None, process: None, asleep: 3 };
        assert!((0..2).all(|_| mine.ring().is_none()));
        assert_eq!(mine.ring().is_some(), ring().is_some());
    }
}
