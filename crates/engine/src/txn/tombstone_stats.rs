//! The dead entries that a scan steps over: tombstones, and versions that newer ones hide.

/// Dead entries between two that are shown from which on they are a row.
const ROW_MIN: u64 = 256;

/// Counts the dead entries of a scan.
#[derive(Debug, Default)]
pub struct TombstoneStats {
    /// Since an entry was shown.
    here: u64,
    /// Outside of long rows.
    pub scattered: u64,
    /// In long rows.
    pub in_rows: u64,
    /// The key range of the long rows.
    pub rows: Option<(Vec<u8>, Vec<u8>)>,
}

impl TombstoneStats {
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
