//! A hash of a stream of operations.

use crate::driver::batch::{Batch, Change};
use crate::driver::client::{Direction, Scan};
use crate::driver::config::TableId;
use crate::random::mix;

/// The operations of one client so far, in their order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Operations {
    hash: u64,
    count: u64,
}

/// What was asked for: enters the hash.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Get = 1,
    GetForUpdate = 2,
    MultiGet = 3,
    Scan = 4,
    Write = 5,
    Begin = 6,
    Commit = 7,
    Rollback = 8,
}

impl Operations {
    pub(super) fn verb(&mut self, verb: Verb) {
        self.count += 1;
        self.word(verb as u64);
    }

    pub(super) fn get(&mut self, verb: Verb, table: TableId, key: &[u8]) {
        self.verb(verb);
        self.word(table.0 as u64);
        self.bytes(key);
    }

    pub(super) fn scan(&mut self, scan: &Scan<'_>) {
        let Scan { table, from, until, direction, limit } = *scan;
        self.verb(Verb::Scan);
        self.word(table.0 as u64);
        self.word(limit);
        self.word(u64::from(direction == Direction::Backward));
        for end in [from, until] {
            self.word(u64::from(end.is_some()));
            self.bytes(end.unwrap_or_default());
        }
    }

    pub(super) fn write(&mut self, batch: &Batch) {
        self.verb(Verb::Write);
        for change in batch.iter() {
            let (Change::Put(table, key, _) | Change::Delete(table, key)) = change;
            self.word(table.0 as u64);
            self.bytes(key);
            if let Change::Put(_, _, value) = change {
                self.bytes(value);
            }
        }
    }

    /// The hash of all of them; 0 when there were none, so that a client that asked for nothing does not matter.
    pub(super) fn finish(self) -> u64 {
        if self.count == 0 { 0 } else { mix(self.hash ^ self.count) }
    }

    fn word(&mut self, word: u64) {
        self.hash = mix(self.hash.rotate_left(5) ^ word);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }
}
