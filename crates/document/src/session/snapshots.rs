//! Snapshots that reads of several commands share by their cluster time.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use spinney::Snapshot;

use crate::base::{Error, ErrorCode, Result};
use crate::bson::Timestamp;

/// For how long a snapshot can be read from after it was used last, in milliseconds.
const KEPT_MS: i64 = 300_000;

/// The most snapshots that are kept.
const SNAPSHOTS_MAX: usize = 1000;

/// The snapshots that clients have read from, by their times.
#[derive(Debug, Default)]
pub struct Snapshots {
    kept: Mutex<BTreeMap<Timestamp, Kept>>,
}

#[derive(Debug)]
struct Kept {
    snapshot: Snapshot,
    used_ms: i64,
}

impl Snapshots {
    /// Keeps a snapshot that was taken at a time.
    pub fn add(&self, at: Timestamp, snapshot: Snapshot, now_ms: i64) {
        let mut kept = self.kept.lock();
        kept.retain(|_, kept| now_ms.saturating_sub(kept.used_ms) < KEPT_MS);
        if kept.len() >= SNAPSHOTS_MAX {
            kept.pop_first();
        }
        kept.insert(at, Kept { snapshot, used_ms: now_ms });
    }

    /// The snapshot of a time.
    ///
    /// # Errors
    /// `SnapshotTooOld` (239) when it is not kept, or never was.
    pub fn at(&self, at: Timestamp, now_ms: i64) -> Result<Snapshot> {
        let mut kept = self.kept.lock();
        let Some(kept) = kept.get_mut(&at) else {
            let what = format!(
                "Read timestamp Timestamp({}, {}) is older than the oldest available timestamp.",
                at.time, at.increment
            );
            return Err(Error::new(ErrorCode::SNAPSHOT_TOO_OLD, what));
        };
        kept.used_ms = now_ms;
        Ok(kept.snapshot.clone())
    }

    /// Forgets the snapshots that were not used for five minutes.
    pub fn sweep(&self, now_ms: i64) {
        self.kept.lock().retain(|_, kept| now_ms.saturating_sub(kept.used_ms) < KEPT_MS);
    }
}
