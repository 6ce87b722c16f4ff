//! The dead entries that a scan steps over: tombstones, and versions that newer ones hide.

use std::fmt;

/// So many dead entries between two that are shown are a row of them.
const ROW_MIN: u64 = 256;

/// Is told, when a scan ends, what it stepped over.
pub trait Told: Send {
    /// How many dead entries there were outside of long rows; how many in long rows; and the key range of these.
    fn told(&self, scattered: u64, in_rows: u64, rows: Option<(Vec<u8>, Vec<u8>)>);
}

/// Counts the dead entries of a scan.
#[derive(Default)]
pub struct Skips {
    /// Since an entry was shown.
    here: u64,
    scattered: u64,
    in_rows: u64,
    rows: Option<(Vec<u8>, Vec<u8>)>,
    told: Option<Box<dyn Told>>,
}

impl Skips {
    /// Counts for somebody who wants to know.
    pub(super) fn tell(&mut self, told: Box<dyn Told>) {
        self.told = Some(told);
    }

    /// Steps over dead entries, the last of them at `key`.
    #[inline]
    pub(super) fn step(&mut self, entries: u64, key: &[u8]) {
        let before = self.here;
        self.here += entries;
        if before < ROW_MIN && self.here >= ROW_MIN {
            self.reach(key);
        }
    }

    /// Shows an entry, or ends, at `key`.
    #[inline]
    pub(super) fn show(&mut self, key: &[u8]) {
        if self.here > 0 {
            self.end_row(key);
        }
    }

    #[cold]
    fn end_row(&mut self, key: &[u8]) {
        let here = std::mem::take(&mut self.here);
        if here < ROW_MIN {
            self.scattered += here;
        } else {
            self.in_rows += here;
            self.reach(key);
        }
    }

    /// Takes a key into the range of the rows.
    #[cold]
    fn reach(&mut self, key: &[u8]) {
        match &mut self.rows {
            None => self.rows = Some((key.to_vec(), key.to_vec())),
            Some((low, _)) if *key < **low => *low = key.to_vec(),
            Some((_, high)) if **high < *key => *high = key.to_vec(),
            Some(_) => {}
        }
    }
}

impl Drop for Skips {
    fn drop(&mut self) {
        if let Some(told) = self.told.take()
            && self.scattered + self.in_rows > 0
        {
            told.told(self.scattered, self.in_rows, self.rows.take());
        }
    }
}

impl fmt::Debug for Skips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skips")
            .field("scattered", &self.scattered)
            .field("in_rows", &self.in_rows)
            .finish_non_exhaustive()
    }
}
