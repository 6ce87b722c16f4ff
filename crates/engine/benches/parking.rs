//! What a change of a B-tree that is much larger than memory reads and writes, by when changes are merged into it. It
//! counts, without a clock.
//!
//! *whole*: a full memtable is merged into all leaves that it reaches. *densest*: of a full memtable the densest leaves
//! are merged, until half of it is free; the rest stays in memory (and keeps its log). *parked*: a full memtable
//! becomes a run; four runs of a size become one; all are merged into the tree when they have a quarter of it.
//!
//! Run with `cargo bench -p spinney --bench parking`.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use spinney_testkit::Rng;

const LEAVES: usize = 20_000;
const LEAF_BYTES: u64 = 8 << 10;
/// Of a key, a value and what an entry takes beside them.
const ENTRY_BYTES: u64 = 150;
/// Entries of a leaf that is two thirds full.
const LEAF_ENTRIES: u64 = LEAF_BYTES * 2 / 3 / ENTRY_BYTES;
/// Runs of a size that become one.
const FANOUT: usize = 4;
/// So many memtables fill up before counting begins.
const WARM_UP: u64 = 40;
/// So many fill up while it goes on.
const ROUNDS: u64 = 80;

/// Where changes fall.
#[derive(Clone, Copy)]
enum Keys {
    /// Anywhere.
    Uniform,
    /// On the n-th leaf with a frequency of n to the power of -0.99.
    Zipf,
    /// Nine of ten in a tenth of the leaves.
    HotTenth,
}

/// Draws the leaf of a change.
struct Draw {
    keys: Keys,
    random: Rng,
    /// Of a zipfian distribution, where each leaf ends, and the sum.
    ends: Vec<f64>,
}

impl Draw {
    fn new(keys: Keys) -> Self {
        let mut sum = 0.0;
        let end = |rank: usize| {
            sum += (rank as f64).powf(-0.99);
            sum
        };
        Self { keys, random: Rng::new(1), ends: (1..=LEAVES).map(end).collect() }
    }

    fn leaf(&mut self) -> usize {
        match self.keys {
            Keys::Uniform => self.random.in_range(0..LEAVES),
            Keys::HotTenth if self.random.chance(90) => self.random.in_range(0..LEAVES / 10),
            Keys::HotTenth => self.random.in_range(0..LEAVES),
            Keys::Zipf => {
                let point = self.random.in_range(0..1 << 30) as f64 / f64::from(1 << 30) * self.ends[LEAVES - 1];
                self.ends.partition_point(|end| *end < point)
            }
        }
    }

    /// Fills memory up to so many changes, counted by leaf.
    fn fill(&mut self, memory: &mut [u64], room: u64) -> u64 {
        let before: u64 = memory.iter().sum();
        (before..room).for_each(|_| memory[self.leaf()] += 1);
        room - before
    }
}

/// Bytes read and written for each change, in KB, when so many leaves' worth of memory holds changes.
type Cost = (f64, f64);

fn whole(draw: &mut Draw, room: u64) -> Cost {
    let (mut leaves, mut changes) = (0, 0);
    for _ in 0..ROUNDS {
        let mut memory = vec![0; LEAVES];
        changes += draw.fill(&mut memory, room);
        leaves += memory.iter().filter(|count| **count > 0).count() as u64;
    }
    cost(leaves * LEAF_BYTES, leaves * LEAF_BYTES, changes)
}

fn densest(draw: &mut Draw, room: u64) -> Cost {
    let (mut memory, mut leaves, mut changes) = (vec![0; LEAVES], 0, 0);
    for round in 0..WARM_UP + ROUNDS {
        let filled = draw.fill(&mut memory, room);
        let mut order: Vec<_> = (0..LEAVES).collect();
        order.sort_unstable_by_key(|leaf| std::cmp::Reverse(memory[*leaf]));
        let (mut freed, mut merged) = (0, 0);
        for leaf in order {
            if freed * 2 >= room {
                break;
            }
            freed += std::mem::take(&mut memory[leaf]);
            merged += 1;
        }
        if round >= WARM_UP {
            changes += filled;
            leaves += merged;
        }
    }
    cost(leaves * LEAF_BYTES, leaves * LEAF_BYTES, changes)
}

fn parked(draw: &mut Draw, room: u64) -> Cost {
    let (mut read, mut written, mut changes) = (0, 0, 0);
    let mut parked = vec![0; LEAVES];
    let mut runs: Vec<u64> = Vec::new();
    let quarter = LEAVES as u64 * LEAF_BYTES / 4;
    // Whole turns only: each ends with a merge into the tree.
    let mut turns = 0;
    while turns < 4 {
        let mut memory = vec![0; LEAVES];
        changes += draw.fill(&mut memory, room);
        memory.iter().zip(&mut parked).for_each(|(count, parked)| *parked += count);
        let mut run = room * ENTRY_BYTES;
        written += run;
        while runs.iter().rev().take_while(|other| **other == run).count() >= FANOUT - 1 {
            runs.truncate(runs.len() + 1 - FANOUT);
            run *= FANOUT as u64;
            (read, written) = (read + run, written + run);
        }
        runs.push(run);
        if runs.iter().sum::<u64>() >= quarter {
            let leaves = parked.iter().filter(|count| **count > 0).count() as u64;
            read += runs.iter().sum::<u64>() + leaves * LEAF_BYTES;
            written += leaves * LEAF_BYTES;
            parked.fill(0);
            runs.clear();
            turns += 1;
        }
    }
    cost(read, written, changes)
}

fn cost(read: u64, written: u64, changes: u64) -> Cost {
    (read as f64 / changes as f64 / 1024.0, written as f64 / changes as f64 / 1024.0)
}

fn main() {
    println!(
        "KB read and written for each change of {ENTRY_BYTES} bytes in a tree of {LEAVES} leaves of {LEAF_BYTES} bytes\n"
    );
    println!("{:<18}{:>22}{:>16}{:>16}{:>16}", "changes fall", "memory / data", "whole", "densest", "parked");
    let kinds = [("anywhere", Keys::Uniform), ("zipf 0.99", Keys::Zipf), ("90 % in a tenth", Keys::HotTenth)];
    for (name, keys) in kinds {
        for part in [200, 40, 10] {
            let room = LEAVES as u64 * LEAF_ENTRIES / part;
            let costs =
                [whole, densest, parked].map(|rule: fn(&mut Draw, u64) -> Cost| rule(&mut Draw::new(keys), room));
            let costs = costs.map(|(read, written)| format!("{read:>9.2}{written:>7.2}")).concat();
            println!("{name:<18}{:>22}{costs}", format!("1/{part}"));
        }
    }
}
