//! What the clients of a step found, for its figures.

use crate::report::{Figure, Step};
use std::sync::atomic::{AtomicU64, Ordering};

/// A place for what each client found. The numbers are read when the clients have ended, and publish nothing but themselves.
#[derive(Debug)]
pub(super) struct Tallies(Vec<[AtomicU64; 2]>);

/// What one client found so far. It goes to its place when the client is done, in place of what was there: the lab also lets
/// clients call nothing, to see what they cost, before they call an engine.
#[derive(Debug)]
pub(super) struct Tally<'a> {
    place: &'a [AtomicU64; 2],
    found: u64,
    bytes: u64,
}

impl Tallies {
    pub(super) fn new(clients: usize) -> Self {
        Self((0..clients).map(|_| Default::default()).collect())
    }

    pub(super) fn of(&self, client: usize) -> Tally<'_> {
        Tally { place: &self.0[client], found: 0, bytes: 0 }
    }

    /// Keys that all clients found.
    pub(super) fn found(&self) -> u64 {
        self.sum(0)
    }

    /// Bytes of all clients.
    pub(super) fn bytes(&self) -> u64 {
        self.sum(1)
    }

    fn sum(&self, at: usize) -> u64 {
        self.0.iter().map(|place| place[at].load(Ordering::Relaxed)).sum()
    }
}

impl Tally<'_> {
    /// So many keys were there, with so many bytes of keys and values.
    pub(super) fn add(&mut self, found: u64, bytes: u64) {
        self.found += found;
        self.bytes += bytes;
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        self.place[0].store(self.found, Ordering::Relaxed);
        self.place[1].store(self.bytes, Ordering::Relaxed);
    }
}

/// The columns of the experiment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// Bytes of keys and values that were read or written.
    pub(super) bytes: Option<u64>,
    /// The share of the keys asked for that were there.
    pub(super) found: Option<f64>,
    /// The mean time of a put over that of a write to the raw device.
    pub(super) floors: Option<f64>,
}

impl Figures {
    pub(super) fn add_to(self, step: &mut Step) {
        let seconds = step.cost.map(|cost| cost.seconds).filter(|&seconds| seconds > 0.0);
        let rate = self.bytes.zip(seconds).map(|(bytes, seconds)| bytes as f64 / 1e6 / seconds);
        step.figures = vec![
            Figure::more("MB/s", "MB/s", rate),
            Figure::plain("found", "", self.found),
            Figure::less("times floor", "", self.floors),
        ];
    }
}
