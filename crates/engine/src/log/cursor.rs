//! A cursor over the payloads of a log that is being written: only what is durable, in order, each once.
//!
//! # Concurrency
//! The cursor never reads at or behind the first sector that a write may still change: segments are read as if they
//! ended there. A pin keeps the segments from its position on; when the pin was dropped during a read, the cursor
//! throws away what it read.

use super::format::{SECTOR, sector_up};
use super::pool::directory::SegmentInfo;
use super::pool::pins::PinId;
use super::recovery::chain::SegmentFile;
use super::recovery::read_window::ReadWindow;
use super::recovery::reader::LogReader;
use super::writer::LogWriter;
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::Access;
use std::collections::VecDeque;

/// How many bytes of payloads are read ahead at most, but always one payload.
const AHEAD_BYTES: usize = 1 << 20;

/// A payload, and its position in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Where its first record begins.
    pub start: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// A cursor; to be ended with [`LogWriter::end_cursor`].
#[derive(Debug)]
pub struct LogCursor {
    pin: PinId,
    /// Everything that ends at or before it was taken.
    position: Lsn,
    /// What was read and not taken.
    ahead: VecDeque<Logged>,
    /// The number of the segment in which the last reading began; zero before the first.
    segment: u64,
    /// What was read of that segment or a later one, while more is durable: it is not read again.
    window: ReadWindow,
}

impl LogCursor {
    /// Where a cursor that goes on after this one begins.
    #[must_use]
    pub const fn position(&self) -> Lsn {
        self.position
    }

    /// The next payload, if it has been read.
    #[must_use]
    pub fn front(&self) -> Option<&Logged> {
        self.ahead.front()
    }

    /// Takes the next payload, if it has been read.
    pub fn take(&mut self) -> Option<Logged> {
        let taken = self.ahead.pop_front()?;
        self.position = taken.end;
        Some(taken)
    }

    /// Up to where it has read.
    fn read_to(&self) -> Lsn {
        self.ahead.back().map_or(self.position, |last| last.end)
    }
}

impl LogWriter {
    /// The oldest position from which a cursor can begin.
    pub fn oldest(&self) -> Lsn {
        self.pool.oldest()
    }

    /// A cursor over what ends after `from`. While it is open, segments are kept for it, of those that no recovery
    /// needs at most `pinned_bytes_max` bytes; then it fails.
    ///
    /// # Errors
    /// `Gone` when the log does not reach back that far, naming the oldest position; `Invalid` when `from` is behind
    /// its end.
    pub fn cursor(&self, from: Lsn, pinned_bytes_max: u64) -> Result<LogCursor> {
        let tail = self.tail();
        if from > tail {
            return Err(Error::invalid(format!("position {from} is behind the end of the redo log, {tail}")));
        }
        let pin = self.pool.pin(from, pinned_bytes_max).map_err(|oldest| gone(from, oldest))?;
        Ok(LogCursor { pin, position: from, ahead: VecDeque::new(), segment: 0, window: ReadWindow::default() })
    }

    /// Ends a cursor's pin, and gives up the segments that only it kept. What cannot be removed is removed by the next
    /// open.
    pub fn end_cursor(&self, cursor: &LogCursor) {
        self.pool.unpin(cursor.pin);
        drop(self.release(Lsn(0)));
    }

    /// Reads on if nothing is read ahead; false when nothing more is durable.
    ///
    /// # Errors
    /// `Gone` when the cursor held back more than it may, and its segments were given up; `Corruption`, `Io`.
    pub fn read_ahead(&self, cursor: &mut LogCursor) -> Result<bool> {
        if !cursor.ahead.is_empty() {
            return Ok(true);
        }
        let durable = self.durable();
        if cursor.read_to() >= durable {
            return Ok(false);
        }
        let read = self.read_durable(cursor, durable);
        // Segments that were given up while they were read may be anything.
        if !self.pool.advance_pin(cursor.pin, cursor.position) {
            cursor.ahead.clear();
            return Err(gone(cursor.position, self.oldest()));
        }
        let segment = read?;
        if cursor.segment != segment {
            cursor.segment = segment;
            // What only this cursor kept.
            self.release(Lsn(0))?;
        }
        Ok(!cursor.ahead.is_empty())
    }

    /// Reads what ends after the cursor's position and before `durable`; tells the segment in which it begins.
    fn read_durable(&self, cursor: &mut LogCursor, durable: Lsn) -> Result<u64> {
        let position = cursor.position;
        let log = self.segments(position, durable)?;
        let mut bytes = 0;
        // Where the caller began need not be where a payload ends.
        let mut reader = match cursor.segment {
            0 => LogReader::after(&log, position)?,
            _ => LogReader::resumed(&log, position),
        };
        reader.go_on_in(std::mem::take(&mut cursor.window));
        let mut enough = false;
        let read = reader.read(&mut |start, end, payload| {
            enough = bytes >= AHEAD_BYTES;
            if enough {
                return Err(Error::new(ErrorKind::Closed, "enough"));
            }
            bytes += payload.len();
            cursor.ahead.push_back(Logged { start, end, payload: payload.to_owned() });
            Ok(())
        });
        let segment = log.first().map_or(0, |found| found.header.number);
        match read {
            Err(_) if enough => {
                cursor.window = reader.into_window();
                return Ok(segment);
            }
            other => other?,
        }
        if reader.fragment_end < durable {
            let Some(last) = log.last() else { return Ok(segment) };
            let offset = last.header.offset_of(reader.fragment_end.clamp(last.header.first, last.header.end()));
            return Err(Error::corruption(&last.path, offset, "damaged: it was durable up to here and beyond"));
        }
        Ok(segment)
    }

    /// The segments from `position` to `durable`, as if the last ended there.
    fn segments(&self, position: Lsn, durable: Lsn) -> Result<Vec<SegmentFile>> {
        let open = |live: &SegmentInfo| {
            let mut header = live.header;
            let bytes = SECTOR + sector_up(durable).0.saturating_sub(header.first.0);
            header.bytes = header.bytes.min(bytes);
            let file = self.pool.directory.open(&live.path, Access::Read, false)?;
            let (identity, path) = (live.header.identity(), live.path.clone());
            Ok(SegmentFile { header, identity, path, file, bytes: live.bytes.min(header.bytes) })
        };
        self.pool.between(position, durable).iter().map(open).collect()
    }
}

fn gone(position: Lsn, oldest: Lsn) -> Error {
    let message = format!("the redo log before position {oldest} was given up, and with it position {position}");
    Error::new(ErrorKind::Gone, message)
}
