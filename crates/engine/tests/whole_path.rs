//! The whole path, on the real file system.
use spinney::*;
#[test]
fn every_layout_keeps_what_it_was_given_over_flush_compaction_and_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    for layout in [Layout::Lsm, Layout::BTree, Layout::LsmTiered] {
        let db = Database::open(&path, Options::default().memory_bytes(8 << 20)).unwrap();
        let t = db.create_table(layout.name(), TableOptions::default().layout(layout)).unwrap();
        for i in 0..100_000u32 {
            let mut b = Batch::new();
            let k = i.wrapping_mul(2654435761).to_be_bytes();
            b.put(&t, k, [7; 100]);
            db.write_with(&b, Durability::Buffered).unwrap();
        }
        let snap = db.snapshot();
        assert_eq!(snap.range(&t, ..).count(), 100_000);
        assert_eq!(snap.range_rev(&t, ..).count(), 100_000);
        t.compact().unwrap();
        assert_eq!(snap.range(&t, ..).count(), 100_000);
        let r = db.verify().unwrap();
        assert!(r.problems.is_empty(), "{r:?}");
        drop(snap);
        drop(t);
        db.close().unwrap();
        let db = Database::open(&path, Options::default().memory_bytes(8 << 20)).unwrap();
        let t = db.table(layout.name()).unwrap().unwrap();
        assert_eq!(db.snapshot().range(&t, ..).count(), 100_000);
    }
}

/// Runs written in key order overlap nothing and were moved down as they were: a load in small memory left a file per
/// memtable, more than a process may open in the end.
#[test]
fn a_table_written_in_key_order_is_not_left_in_crumbs() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().memory_bytes(8 << 20).memtable_bytes(16 << 10);
    let db = Database::open(dir.path().join("db"), options).unwrap();
    let run_bytes_max = 256 << 10;
    let t = db.create_table("t", TableOptions::default().run_bytes_max(run_bytes_max)).unwrap();
    for i in 0..20_000u32 {
        let mut b = Batch::new();
        let value: Vec<u8> =
            (0..100u32).map(|j| (i.wrapping_mul(j + 1).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        b.put(&t, i.to_be_bytes(), &value);
        db.write_with(&b, Durability::Interval).unwrap();
    }
    t.flush().unwrap();
    t.wait_idle().unwrap();
    let shape = t.shape().unwrap();
    let (runs, bytes) =
        shape.levels.iter().fold((0, 0), |(runs, bytes), level| (runs + level.runs, bytes + level.bytes));
    assert!(runs <= 6 * bytes / run_bytes_max, "{bytes} bytes in {runs} runs");
    assert!(db.verify().unwrap().problems.is_empty());
}
