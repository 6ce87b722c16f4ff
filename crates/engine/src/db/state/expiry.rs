//! What a table with a time to live knows of the age of its entries.

use std::time::Duration;

use crate::base::sync::{Mutex, MutexGuard};
use crate::base::{Lsn, SeqNum};
use crate::table::seqnum_to_time::SeqnumToTime;

/// The number of marks within a time to live.
const MARKS: u32 = 32;
/// The smallest distance of two marks.
const SPACING_MIN: Duration = Duration::from_secs(1);

/// The ages of a table's entries.
#[derive(Debug)]
pub(crate) struct Expiry {
    pub(crate) time_to_live: Duration,
    /// Held by the thread that looks what has expired.
    dated: Mutex<Dated>,
}

/// What is known of the ages.
#[derive(Debug)]
pub(crate) struct Dated {
    pub(crate) seqnum_to_time: SeqnumToTime,
    /// What the table held when it was dated last.
    pub(crate) content: Content,
    /// The time by the clock that never leaps, and by the one that can be set, when they were looked at last.
    pub(crate) looked: Option<(Duration, Duration)>,
}

/// What a table holds: where in the log the newest memtable begins, the number of entries in memory, and the newest
/// entry on disk.
pub(crate) type Content = (Option<Lsn>, u64, SeqNum);

impl Expiry {
    pub(crate) fn new(time_to_live: Duration, seqnum_to_time: SeqnumToTime) -> Self {
        Self { time_to_live, dated: Mutex::new(Dated { seqnum_to_time, content: Content::default(), looked: None }) }
    }

    /// The distance of two marks, and how often it is looked what has expired.
    pub(crate) fn spacing(&self) -> Duration {
        (self.time_to_live / MARKS).max(SPACING_MIN)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Dated> {
        self.dated.lock()
    }
}
