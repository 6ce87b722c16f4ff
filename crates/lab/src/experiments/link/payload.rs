//! The data of nodes and links: random bytes of a small alphabet, some of them in sequences that come again and again.

use super::distributions::{LogNormal, unit};
use crate::random::Random;

/// Bytes of the text that sequences are taken from.
///
/// The configuration of the original says 128 for links, and its code looks in the wrong place and takes this default;
/// so do we.
const MOTIF_BYTES: usize = 512;

/// Bytes that are either new or taken from the text.
const CHUNK_BYTES: usize = 128;

/// A source of data of one kind.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    sizes: LogNormal,
    letters: Letters,
    uniqueness: f64,
    motifs: Vec<u8>,
}

/// The bytes that occur.
#[derive(Clone, Copy, Debug)]
struct Letters {
    first: u8,
    count: u16,
}

impl Payload {
    /// Data of links, with a median of 8 bytes.
    pub(super) fn of_links(seed: u64) -> Self {
        Self::new(seed, LogNormal::new(8.0, 0, 255), Letters { first: 32, count: 69 }, 0.225)
    }

    /// Data of nodes, with a median of 128 bytes, of which there are at least `bytes_min`.
    pub(super) fn of_nodes(seed: u64, bytes_min: usize) -> Self {
        Self::new(seed, LogNormal::new(128.0, bytes_min, 1 << 20), Letters { first: 50, count: 171 }, 0.63)
    }

    fn new(seed: u64, sizes: LogNormal, letters: Letters, uniqueness: f64) -> Self {
        let mut motifs = Vec::new();
        letters.extend(&mut Random::new(seed), &mut motifs, MOTIF_BYTES);
        Self { sizes, letters, uniqueness, motifs }
    }

    /// Adds new data to `bytes`.
    pub(super) fn extend(&self, random: &mut Random, bytes: &mut Vec<u8>) {
        let mut left = self.sizes.choose(random);
        while left > 0 {
            let chunk = left.min(CHUNK_BYTES);
            if unit(random) < self.uniqueness {
                self.letters.extend(random, bytes, chunk);
            } else {
                let choices = (MOTIF_BYTES - chunk + 1) as u64;
                let from = spinney::base::num::usize_of(random.below(choices));
                bytes.extend_from_slice(&self.motifs[from..from + chunk]);
            }
            left -= chunk;
        }
    }
}

impl Letters {
    /// Adds random letters to `bytes`: four from each random number, which is much faster than one.
    fn extend(self, random: &mut Random, bytes: &mut Vec<u8>, mut count: usize) {
        while count > 0 {
            let number = random.next();
            for part in 0..count.min(4) {
                let bits = (number >> (16 * part)) & 0xffff;
                let letter = (bits * u64::from(self.count)) >> 16;
                bytes.push(self.first + u8::try_from(letter).expect("there are at most 256 letters"));
            }
            count -= count.min(4);
        }
    }
}
