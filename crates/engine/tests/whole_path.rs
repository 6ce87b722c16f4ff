//! The whole path once, on the real file system.
use spinney::*;
#[test]
fn every_layout_keeps_what_it_was_given_over_flush_compaction_and_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    for layout in [Layout::Lsm, Layout::BTree, Layout::LsmTiered] {
        let db = Database::open(&path, Options { memory_bytes: 8 << 20, ..Options::default() }).unwrap();
        let t = db.create_table(layout.name(), TableOptions { layout, ..Default::default() }).unwrap();
        for i in 0..100_000u32 {
            let mut b = Batch::new();
            let k = i.wrapping_mul(2654435761).to_be_bytes();
            b.put(&t, &k, &[7; 100]);
            db.write(b, Durability::Buffered).unwrap();
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
        let db = Database::open(&path, Options { memory_bytes: 8 << 20, ..Options::default() }).unwrap();
        let t = db.table(layout.name()).unwrap().unwrap();
        assert_eq!(db.snapshot().range(&t, ..).count(), 100_000);
    }
}
