//! A cursor that shows of one tree what erasures leave.

use std::fmt;
use std::sync::Arc;

use super::{Erasures, floor};
use crate::base::key::KEY_BYTES_MAX;
use crate::base::{Entry, Result, SeqNum, Value};
use crate::tree::{Ages, Costs, Cursor, Limits};

/// After so many steps over entries in an erased range a seek to its end is cheaper than further steps.
const STEPS_MAX: u32 = 8;

/// Lies above every key.
static ABOVE_ALL: [u8; KEY_BYTES_MAX + 1] = [0xff; KEY_BYTES_MAX + 1];

/// The entries of a tree that erasures do not hide from a snapshot. Outside of its limits it may stand on others.
///
/// # Invariants
/// 1. `floor` is that of the keys of `segment`, once there is one.
pub struct Unerased {
    cursor: Box<dyn Cursor>,
    erasures: Arc<Erasures>,
    snapshot: SeqNum,
    segment: Option<usize>,
    floor: SeqNum,
    limits: Option<Arc<Limits>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

impl Unerased {
    /// What `snapshot` sees of a tree under `erasures`.
    #[must_use]
    pub fn new(cursor: Box<dyn Cursor>, erasures: Arc<Erasures>, snapshot: SeqNum) -> Self {
        Self { cursor, erasures, snapshot, segment: None, floor: SeqNum::ZERO, limits: None }
    }

    /// Goes on from an entry that is hidden to the next that is not.
    #[inline]
    fn settle(&mut self, way: Way) -> Result<()> {
        let mut steps = 0;
        while let Some(entry) = self.cursor.entry() {
            let erasures = &self.erasures;
            let segment = match self.segment {
                Some(segment) if is_in(erasures, segment, entry.key) => segment,
                _ => {
                    let segment = erasures.segment_of(entry.key);
                    let seqnums = erasures.segments.get(segment);
                    self.floor = seqnums.map_or(SeqNum::ZERO, |seqnums| floor(seqnums, self.snapshot));
                    self.segment = Some(segment);
                    steps = 0;
                    segment
                }
            };
            if entry.seqnum >= self.floor {
                return Ok(());
            }
            let ages = self.cursor.ages();
            if ages.least >= self.floor {
                return Ok(());
            }
            let is_outside = |limits: &Arc<Limits>| match way {
                Way::Forward => limits.end_before(entry.key),
                Way::Backward => *entry.key < *limits.low,
            };
            if self.limits.as_ref().is_some_and(is_outside) {
                return Ok(());
            }
            steps += 1;
            if steps < STEPS_MAX || ages.most >= self.floor {
                if way == Way::Forward {
                    self.cursor.next()?
                } else {
                    self.cursor.prev()?
                }
                continue;
            }
            let beyond = if way == Way::Forward { erasures.end(segment) } else { erasures.start(segment) };
            match (beyond, way) {
                (Some(end), Way::Forward) => self.cursor.leap_ge(end)?,
                (Some(start), Way::Backward) => self.cursor.leap_lt(start)?,
                // There is no key beyond, but there may be another tree.
                (None, Way::Forward) => self.cursor.leap_ge(&ABOVE_ALL)?,
                (None, Way::Backward) => self.cursor.leap_lt(&[])?,
            }
        }
        Ok(())
    }
}

/// Whether `key` lies in a segment.
#[inline]
fn is_in(erasures: &Erasures, segment: usize, key: &[u8]) -> bool {
    erasures.end(segment).is_none_or(|end| key < end) && erasures.start(segment).is_none_or(|start| start <= key)
}

impl Cursor for Unerased {
    fn first(&mut self) -> Result<()> {
        self.cursor.first()?;
        self.settle(Way::Forward)
    }

    fn last(&mut self) -> Result<()> {
        self.cursor.last()?;
        self.settle(Way::Backward)
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_ge(key)?;
        self.settle(Way::Forward)
    }

    fn approach_ge(&mut self, key: &[u8]) -> bool {
        self.cursor.approach_ge(key)
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_lt(key)?;
        self.settle(Way::Backward)
    }

    fn next(&mut self) -> Result<()> {
        self.cursor.next()?;
        self.settle(Way::Forward)
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.prev()?;
        self.settle(Way::Backward)
    }

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.limits = Some(Arc::clone(limits));
        self.cursor.limit(limits);
    }

    fn costs(&self) -> Costs {
        self.cursor.costs()
    }

    fn ages(&self) -> Ages {
        self.cursor.ages()
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.entry()
    }

    fn value(&self) -> Option<Value> {
        self.cursor.value()
    }
}

impl fmt::Debug for Unerased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unerased")
            .field("erasures", &self.erasures.len())
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}
