//! A cursor that shows of one tree what erasures leave.

use std::fmt;
use std::sync::Arc;

use super::hiding::{Hiding, Stretch};
use crate::base::key::KEY_BYTES_MAX;
use crate::base::steps::step;
use crate::base::{Entry, Result, Value};
use crate::tree::cost::Costs;
use crate::tree::cursor::{Ages, Cursor, KeyCursor, LazySeek, Limits, MergeSource};

/// After so many steps over entries in an erased range a seek to its end is cheaper than further steps.
const STEPS_MAX: u32 = 8;

/// Lies above every key.
static ABOVE_ALL: [u8; KEY_BYTES_MAX + 1] = [0xff; KEY_BYTES_MAX + 1];

/// The entries of a tree that erasures do not hide from a reader. Outside of its limits it may stand on others.
pub struct Unerased {
    cursor: Box<dyn MergeSource>,
    hiding: Arc<Hiding>,
    /// Where the entry was that was looked at last.
    stretch: Stretch,
    limits: Option<Arc<Limits>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

impl Unerased {
    /// What is seen of a tree.
    #[must_use]
    pub fn new(cursor: Box<dyn MergeSource>, hiding: Arc<Hiding>) -> Self {
        Self { cursor, hiding, stretch: Stretch::default(), limits: None }
    }

    /// Goes on from an entry that is hidden to the next that is not.
    #[inline]
    fn settle(&mut self, way: Way) -> Result<()> {
        let mut steps = 0;
        while let Some(entry) = self.cursor.entry() {
            step();
            if self.stretch.go(&self.hiding, entry.key) {
                steps = 0;
            }
            let floor = self.stretch.floor();
            if entry.seqnum >= floor {
                return Ok(());
            }
            let ages = self.cursor.ages();
            if ages.least >= floor {
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
            if steps < STEPS_MAX || ages.most >= floor {
                if way == Way::Forward {
                    self.cursor.next()?
                } else {
                    self.cursor.prev()?
                }
                continue;
            }
            // Where there is no key beyond there may be another tree.
            match way {
                Way::Forward => {
                    self.cursor.leap_ge(self.stretch.beyond(&self.hiding, ages.most).unwrap_or(&ABOVE_ALL))?
                }
                Way::Backward => {
                    self.cursor.leap_lt(self.stretch.before(&self.hiding, ages.most).unwrap_or_default())?
                }
            }
        }
        Ok(())
    }
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

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.entry()
    }

    fn value(&self) -> Option<Value> {
        self.cursor.value()
    }
}

impl KeyCursor for Unerased {}

impl LazySeek for Unerased {
    fn approach_ge(&mut self, key: &[u8]) -> bool {
        self.cursor.approach_ge(key)
    }
}

impl MergeSource for Unerased {
    fn ages(&self) -> Ages {
        self.cursor.ages()
    }
}

impl fmt::Debug for Unerased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unerased").field("hiding", &self.hiding.len()).finish_non_exhaustive()
    }
}
