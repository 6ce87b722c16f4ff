//! A small database, from whose files seeds are made.

use crate::rng::Rng;
use spinney::base::codec::Decoder;
use spinney::env::sim::SimEnv;
use spinney::table::catalog::Catalog;
use spinney::table::manifest::Manifest;
use spinney::{Batch, Compression, Database, Durability, Layout, LogCompression, Options, TableOptions};
use std::path::Path;

pub(super) const DIR: &str = "/db";

/// A database that is closed and what its manifest says. It has runs with filters, a B-tree with branches, free extents
/// and range tombstones.
pub(super) fn database(compression: Compression) -> (SimEnv, Catalog) {
    let sim = SimEnv::new(5);
    let options = Options::default().memory_bytes(16 << 20).log_segment_bytes(64 << 10);
    let database = Database::builder(DIR).options(options).env(sim.env()).open().expect("an empty machine");
    for (name, layout) in [("tree", Layout::BTree), ("runs", Layout::Lsm)] {
        let table = TableOptions::default().layout(layout).block_bytes(512).compression(compression);
        let table = database.create_table(name, table).expect("there is none");
        for round in 0..3 {
            let mut batch = Batch::new();
            let mut rng = Rng::new(round);
            for number in 0..20 {
                let value = vec![b'v'; rng.in_range(0..60)];
                batch.put(&table, format!("key{:03}", number * 2 + round).as_bytes(), &value);
            }
            batch.delete(&table, b"key010");
            batch.delete_range(&table, &b"key020"[..]..&b"key024"[..]);
            database.write_with(&batch, Durability::Sync).expect("nothing fails");
            if round < 2 {
                table.flush().expect("nothing fails");
            }
        }
    }
    let (catalog, _) = Manifest::load(&sim.env(), Path::new(DIR)).expect("it is sound").expect("it is there");
    (sim.fork(), catalog)
}

/// The segments of a log, with payloads in pieces and deltas, one that another seals.
pub(super) fn log(compression: LogCompression) -> SimEnv {
    let sim = SimEnv::new(5);
    let options = Options::default().memory_bytes(16 << 20).log_segment_bytes(64 << 10).log_compression(compression);
    for round in 0..2 {
        let builder = Database::builder(DIR).options(options.clone()).env(sim.env());
        let database = builder.open().expect("nothing fails");
        let table = match database.table("t").expect("nothing fails") {
            Some(table) => table,
            None => database.create_table("t", TableOptions::default()).expect("there is none"),
        };
        // Of zeros, which take no room in a seed.
        for bytes in [10, 5000, if round == 0 { 140_000 } else { 1 }] {
            let mut batch = Batch::new();
            batch.put(&table, format!("{bytes}").as_bytes(), vec![0; bytes]);
            batch.delete_range(&table, &b"a"[..]..&b"b"[..]);
            database.write_with(&batch, Durability::Sync).expect("nothing fails");
        }
        let mut txn = database.begin();
        txn.put(&table, "repeated", vec![0; 3000]).expect("nothing fails");
        let prepared = txn.prepare().expect("nothing conflicts");
        let (mut note, mut batch) = (Batch::new(), Batch::new());
        note.note(prepared.record());
        let stored = database.write_note(&note, Durability::Sync).expect("nothing fails");
        batch.append_record(prepared.record(), |_| Ok(table.clone())).expect("it is a record");
        batch.repeat(&stored, 0..prepared.record().len());
        database.write_with(&batch, Durability::Sync).expect("nothing fails");
        if round == 0 {
            database.close().expect("nothing fails");
        }
    }
    sim.fork()
}

/// Bytes with their length in front, as far as there are so many.
pub(super) fn part<'a>(decoder: &mut Decoder<'a>) -> Option<&'a [u8]> {
    let len = usize::try_from(decoder.varint().ok()?).ok()?.min(decoder.rest().len());
    decoder.bytes(len).ok()
}
