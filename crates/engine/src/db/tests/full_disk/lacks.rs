//! Tests of calls that lack space or descriptors at any point: each refuses by itself, leaves nothing half-made, and
//! may be made again.

use std::path::Path;

use crate::env::sim::Call;

use super::*;

/// What may lack something. Says how it went.
type Verb = fn(&Database, &Table, Layout) -> Result<()>;

fn create_another(db: &Database, _: &Table, layout: Layout) -> Result<()> {
    db.create_table("another", TableOptions { layout, ..TableOptions::default() }).map(drop)
}

fn drop_table(db: &Database, _: &Table, _: Layout) -> Result<()> {
    db.drop_table("t")
}

fn flush(_: &Database, table: &Table, _: Layout) -> Result<()> {
    table.flush()
}

fn compact(_: &Database, table: &Table, _: Layout) -> Result<()> {
    table.compact()
}

fn load(_: &Database, table: &Table, _: Layout) -> Result<()> {
    let mut load = table.bulk_load()?;
    (0..50_u32).try_for_each(|number| load.push(&number.to_be_bytes(), &[7; 100]))?;
    load.finish()
}

fn erase(db: &Database, table: &Table, _: Layout) -> Result<()> {
    let mut batch = Batch::new();
    batch.delete_range(table, (std::ops::Bound::<&[u8]>::Unbounded, std::ops::Bound::Unbounded));
    db.write_with(&batch, Durability::Buffered)?;
    table.flush()
}

const VERBS: [(&str, Verb); 6] = [
    ("create", create_another),
    ("drop", drop_table),
    ("flush", flush),
    ("compact", compact),
    ("load", load),
    ("erase", erase),
];

/// A failed sync, or a name that may be there after a power failure or not, leaves unknown what is durable; so does a
/// write to the log.
fn may_poison(call: Call, path: &Path) -> bool {
    let of_log = path.starts_with("/db/log");
    of_log || matches!(call, Call::Sync | Call::SyncDir | Call::Rename | Call::WriteDurable)
}

fn assert_goes_on(db: &Database, (what, verb): (&str, Verb), layout: Layout, when: &str) {
    assert!(db.core().state.health.check_poison().is_ok(), "{when}");
    let Some(table) = db.table("t").unwrap() else { return };
    match verb(db, &table, layout) {
        // It was done when it failed.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && what == "create" => {}
        done => done.unwrap_or_else(|error| panic!("{when}, once more: {error}")),
    }
    assert_eq!(db.verify().unwrap().problems, [], "{when}, in the end");
}

#[test]
fn what_lacks_space_or_descriptors_at_any_call_poisons_nothing_and_is_done_the_next_time() {
    for fault in [Fault::NoSpace, Fault::TooManyFiles] {
        for (layout, verb) in LAYOUTS.into_iter().flat_map(|layout| VERBS.map(|verb| (layout, verb))) {
            let (sim, mut model) = (SimEnv::new(1), Model::new());
            let db = open(&sim).unwrap();
            let table = create(&db, layout, true);
            (0..150).for_each(|number| {
                put(&db, &table, &mut model, number).unwrap();
                if number % 40 == 39 {
                    table.flush().unwrap();
                }
            });
            db.sync().unwrap();
            drop((table, db));
            let mut refused = 0;
            for call in 0..400 {
                let sim = sim.fork();
                sim.process_crash();
                let db = open(&sim).unwrap();
                let table = db.table("t").unwrap().unwrap();
                sim.fail_at(sim.op_count() + call, fault);
                let done = verb.1(&db, &table, layout);
                let Some((struck, path)) = sim.struck() else { break };
                sim.clear_faults();
                let when = format!("{}, {layout:?}, {fault:?} at {struck:?} of {path:?}", verb.0);
                if !fault.can_strike(struck) || may_poison(struck, &path) {
                    continue;
                }
                if let Err(error) = done {
                    assert!(matches!(error.kind(), ErrorKind::Full | ErrorKind::Io), "{when}: {error}");
                    refused += 1;
                    if let Some(table) = db.table("t").unwrap() {
                        let count = db.snapshot().range(&table, ..).count();
                        assert!(count == model.len() || verb.0 == "erase" && count == 0, "{when}");
                    }
                    // That no file is left which the manifest does not name.
                    assert_eq!(db.verify().unwrap().problems, [], "{when}");
                }
                drop(table);
                assert_goes_on(&db, verb, layout, &when);
            }
            let creates = layout == Layout::BTree || verb.0 != "create";
            assert!(refused > 0 || !creates || fault == Fault::TooManyFiles, "{}, {layout:?}, {fault:?}", verb.0);
        }
    }
}

/// The manifest was written anew when an edit had made it long, and when there was no room for another the database was
/// poisoned although the edit was durable.
#[test]
fn a_long_manifest_without_room_for_another_grows_on() {
    let sim = SimEnv::new(1);
    let db = open(&sim).unwrap();
    let table = create(&db, Layout::Lsm, true);
    let manifest = || {
        let entries = sim.env().fs.list(Path::new("/db")).unwrap();
        entries.into_iter().find(|entry| entry.name.ends_with(".manifest")).unwrap()
    };
    let first = manifest().name;
    let name = |number: u32| format!("{number:0250}");
    let create =
        |number| db.create_table(&name(number), TableOptions { layout: Layout::Lsm, ..TableOptions::default() });
    let drop_both = |number| create(number).and_then(|_| db.drop_table(&name(number)));
    let mut number = 0;
    while manifest().bytes < (1 << 20) + (80 << 10) {
        number += 1;
        // Only files that are created fail.
        sim.fail_next(Fault::NoSpace, |path| path.ends_with("CURRENT.new"));
        drop_both(number).unwrap();
        sim.clear_faults();
    }
    assert_eq!(manifest().name, first);
    db.core().state.health.check_writable().unwrap();
    while manifest().name == first {
        number += 1;
        drop_both(number).unwrap();
    }
    assert!(manifest().bytes < 80 << 10);
    drop((table, db));
    sim.process_crash();
    assert!(open(&sim).unwrap().table("t").unwrap().is_some());
}

/// What is reserved behind the manifest is not for what takes more space.
#[test]
fn on_a_disk_without_a_byte_tables_are_dropped_and_none_is_created() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim).unwrap();
        let (table, mut model) = (create(&db, layout, true), Model::new());
        let other = |number: u32| {
            db.create_table(&format!("{number:0200}"), TableOptions { layout, ..TableOptions::default() })
        };
        (0..100).for_each(|number| put(&db, &table, &mut model, number).unwrap());
        table.flush().unwrap();
        let made: Vec<_> = (0..70).map(|number| other(number).unwrap()).collect();
        sim.set_free(0);
        let refused = (100..1000).find_map(|number| {
            sim.set_free(0);
            other(number).err()
        });
        let error = refused.expect("half of what is reserved is soon used up");
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert_eq!(db.verify().unwrap().problems, []);
        for table in made {
            // None of what comes free is used for the manifest.
            sim.set_free(0);
            db.drop_table(table.name()).unwrap();
        }
        sim.set_free(0);
        db.drop_table("t").unwrap();
        assert_eq!(db.verify().unwrap().problems, []);
        other(2000).unwrap();
    }
}
