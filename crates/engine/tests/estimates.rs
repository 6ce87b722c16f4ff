//! Estimates of ranges, against what the ranges hold: in memory, in runs and in B-trees, with deletions, and without a
//! read of a leaf.

use spinney::env::sim::SimEnv;
use spinney::{Batch, Database, Durability, Estimate, Layout, Options, Table, TableOptions};
use spinney_testkit::Rng;
use std::collections::BTreeSet;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

/// A table and the keys that it has.
struct Filled {
    db: Database,
    table: Table,
    keys: BTreeSet<u32>,
}

impl Filled {
    fn new(layout: Layout) -> Self {
        let options = Options::default().memory_bytes(16 << 20).log_segment_bytes(1 << 20);
        let db =
            Database::builder("/db").env(SimEnv::new(1).env()).options(options).open().expect("a machine in order");
        let table = db.create_table("t", TableOptions::default().layout(layout)).expect("a machine in order");
        Self { db, table, keys: BTreeSet::new() }
    }

    /// Writes or deletes keys, in commits of some.
    fn write(&mut self, keys: impl Iterator<Item = u32>, puts: bool) {
        let keys: Vec<_> = keys.collect();
        for keys in keys.chunks(500) {
            let mut batch = Batch::new();
            for key in keys {
                let bytes = key.to_be_bytes();
                if puts {
                    batch.put(&self.table, bytes, vec![7; 20 + *key as usize % 100]);
                    self.keys.insert(*key);
                } else {
                    batch.delete(&self.table, bytes);
                    self.keys.remove(key);
                }
            }
            self.db.write_with(&batch, Durability::Buffered).expect("a write");
        }
    }

    fn estimate(&self, from: u32, to: u32) -> Estimate {
        self.db.snapshot().estimate(&self.table, from.to_be_bytes()..to.to_be_bytes()).expect("an estimate")
    }

    /// Compares ranges of all sizes with what they hold.
    fn check(&self, rng: &mut Rng, when: &str) {
        let all: Vec<_> = self.keys.iter().copied().collect();
        for _ in 0..200 {
            let wanted = 1000 << rng.in_range(0..7);
            if wanted >= all.len() {
                continue;
            }
            let from = rng.in_range(0..all.len() - wanted);
            let (low, high) = (all[from], all[from + wanted]);
            let found = self.estimate(low, high).entries as f64 / wanted as f64;
            assert!((0.5..=2.0).contains(&found), "{when}: {found:.2} of {wanted} from {low} to {high}");
        }
        let found = self.db.snapshot().estimate(&self.table, ..).expect("an estimate").entries as f64;
        let found = found / all.len() as f64;
        assert!((0.5..=2.0).contains(&found), "{when}: {found:.2} of all");
    }
}

fn random(rng: &mut Rng, count: usize) -> impl Iterator<Item = u32> {
    (0..count).map(|_| (rng.number() % 4_000_000) as u32)
}

#[test]
fn ranges_of_more_than_a_thousand_entries_are_told_within_a_factor_of_two() {
    for layout in LAYOUTS {
        let (mut rng, mut filled) = (Rng::new(7), Filled::new(layout));
        filled.write(random(&mut rng, 3000), true);
        filled.check(&mut rng, &format!("{layout:?}, in memory"));
        filled.table.flush().expect("a machine in order");
        filled.check(&mut rng, &format!("{layout:?}, flushed"));
        for round in 0..5 {
            filled.write(random(&mut rng, 20_000), true);
            filled.check(&mut rng, &format!("{layout:?}, round {round}"));
        }
        filled.table.flush().expect("a machine in order");
        filled.check(&mut rng, &format!("{layout:?}, filled"));
        let again: Vec<_> = filled.keys.iter().copied().filter(|_| rng.chance(30)).collect();
        filled.write(again.into_iter(), true);
        filled.check(&mut rng, &format!("{layout:?}, written again"));
        let gone: Vec<_> = filled.keys.iter().copied().filter(|_| rng.chance(20)).collect();
        filled.write(gone.into_iter(), false);
        filled.table.flush().expect("a machine in order");
        filled.check(&mut rng, &format!("{layout:?}, some deleted"));
        filled.table.compact().expect("a machine in order");
        filled.check(&mut rng, &format!("{layout:?}, compacted"));
    }
}

#[test]
fn what_a_range_delete_hides_does_not_count() {
    for layout in LAYOUTS {
        let (mut rng, mut filled) = (Rng::new(7), Filled::new(layout));
        filled.write(random(&mut rng, 50_000), true);
        filled.table.flush().expect("a machine in order");
        filled.table.delete_range(1_000_000_u32.to_be_bytes()..3_000_000_u32.to_be_bytes()).expect("a range delete");
        filled.keys.retain(|key| !(1_000_000..3_000_000).contains(key));
        let hidden = filled.estimate(1_200_000, 2_800_000).entries;
        assert!(hidden < 500, "{layout:?}: {hidden}");
        filled.check(&mut rng, &format!("{layout:?}"));
    }
}

#[test]
fn an_estimate_reads_no_leaf_and_tells_bytes() {
    for layout in LAYOUTS {
        let (mut rng, mut filled) = (Rng::new(7), Filled::new(layout));
        filled.write(random(&mut rng, 100_000), true);
        filled.table.compact().expect("a machine in order");
        let whole = filled.db.snapshot().estimate(&filled.table, ..).expect("an estimate");
        let blocks = || filled.db.stats().cache.misses;
        let before = blocks();
        for _ in 0..1000 {
            let [low, high] = [(); 2].map(|()| u32::try_from(rng.in_range(0..4_000_000)).expect("a small number"));
            let part = filled.estimate(low.min(high), low.max(high));
            let share = f64::from(low.abs_diff(high)) / 4_000_000.0;
            let bytes = part.bytes as f64 / whole.bytes as f64;
            assert!((bytes - share).abs() < 0.05 + share / 2.0, "{layout:?}: {bytes} of {share}");
        }
        let read = blocks() - before;
        assert!(read < 40, "{layout:?}: {read} blocks");
    }
}

#[test]
fn ranges_without_entries_are_told_as_small() {
    let (mut rng, mut filled) = (Rng::new(7), Filled::new(Layout::Lsm));
    assert_eq!(filled.estimate(0, 100).entries, 0);
    filled.write(random(&mut rng, 50_000), true);
    filled.table.compact().expect("a machine in order");
    assert_eq!(filled.estimate(5_000_000, 6_000_000).entries, 0);
    assert!(filled.estimate(100, 100).entries == 0 && filled.estimate(200, 100).entries == 0);
    assert!(filled.estimate(100, 110).entries < 200);
}

#[test]
fn neighbours_are_near_at_every_place_of_a_run() {
    // Parts of the index of a run have different numbers of leaves, by the lengths of their keys. A range over the
    // border of two was told by what each has on average, as thousands of entries that were not there, however small
    // it was: a search that halves ranges until they are small did not come to an end.
    let filled = Filled::new(Layout::LsmTiered);
    let keys: BTreeSet<Vec<u8>> = (0..12_000_u32)
        .map(|number| {
            let group = number / 20;
            let prefix = group.wrapping_mul(0x9E37_79B9).to_be_bytes();
            let mut key = vec![u8::from(group % 600 > 300)];
            key.extend(prefix.iter().cycle().take(if group % 600 > 300 { 800 } else { 100 }));
            key.extend(number.to_be_bytes());
            key
        })
        .collect();
    for keys in keys.iter().collect::<Vec<_>>().chunks(500) {
        let mut batch = Batch::new();
        keys.iter().for_each(|key| batch.put(&filled.table, key, [7; 1000]));
        filled.db.write_with(&batch, Durability::Buffered).expect("a write");
    }
    filled.table.flush().expect("a machine in order");
    filled.table.compact().expect("a machine in order");
    let snapshot = filled.db.snapshot();
    for (low, high) in keys.iter().zip(keys.iter().skip(1)) {
        let found = snapshot.estimate(&filled.table, low.as_slice()..high.as_slice()).expect("an estimate").entries;
        assert!(found < 200, "{found} entries from {low:x?} to {high:x?}");
    }
}
