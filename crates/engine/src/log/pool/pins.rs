//! Pins: positions from which readers of the log keep segments that recovery no longer needs.

use crate::base::Lsn;
use std::collections::BTreeMap;

/// Names a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) struct PinId(u64);

/// A reader's pin.
#[derive(Debug)]
struct Pin {
    /// Everything that ends after it is kept.
    position: Lsn,
    /// The pin is dropped when it alone keeps more than this number of bytes.
    bytes_max: u64,
}

/// The pins on a log. A pin that was dropped for its size is no longer among them.
#[derive(Debug, Default)]
pub(super) struct SegmentPins {
    pins: BTreeMap<PinId, Pin>,
    next: u64,
}

impl SegmentPins {
    /// Keeps everything that ends after `position`.
    pub(super) fn add(&mut self, position: Lsn, bytes_max: u64) -> PinId {
        let id = PinId(self.next);
        self.next += 1;
        self.pins.insert(id, Pin { position, bytes_max });
        id
    }

    /// Moves a pin forward; false when it was dropped.
    pub(super) fn advance(&mut self, id: PinId, position: Lsn) -> bool {
        self.pins.get_mut(&id).map(|pin| pin.position = pin.position.max(position)).is_some()
    }

    /// Ends a pin.
    pub(super) fn remove(&mut self, id: PinId) {
        self.pins.remove(&id);
    }

    /// Drops the pins that keep more bytes than they may. `kept_bytes` is what a pin on a position keeps.
    pub(super) fn drop_large(&mut self, kept_bytes: impl Fn(Lsn) -> u64) {
        self.pins.retain(|_, pin| kept_bytes(pin.position) <= pin.bytes_max);
    }

    /// The oldest position that is pinned.
    pub(super) fn oldest(&self) -> Option<Lsn> {
        self.pins.values().map(|pin| pin.position).min()
    }
}
