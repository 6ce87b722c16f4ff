//! Faults of the disk below documents: after a failed write or sync writes are refused with a code and reads go on, and
//! a damaged block fails what asks for it and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use spinney::env::sim::{Fault, SimEnv};
use spinney::{Durability, Options};
use spinney_document::Database;
use spinney_document::bson::DocumentBuf;
use spinney_document::command::Service;

use crate::collections::json;

/// Documents of a collection that is read from files.
const DOCUMENTS: usize = 600;

fn open(machine: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(16 << 20).durability(Durability::Sync);
    let engine = spinney::Database::builder("/db").options(options).env(machine.env()).open().unwrap();
    Database::with_engine(engine).unwrap()
}

/// The reply of a command; that which failed has a code.
fn run(service: &Service, command: &str) -> Result<DocumentBuf, (i32, String)> {
    let told = |error: spinney_document::Error| (error.code().number(), error.message().to_owned());
    service.run_command("app", json(command).view()).map_err(told)
}

/// The `_id`s of a collection.
fn ids(service: &Service, collection: &str) -> BTreeSet<i64> {
    let reply =
        run(service, &format!(r#"{{"find":"{collection}","batchSize":10000,"projection":{{"_id":1}}}}"#)).unwrap();
    let cursor = reply.view().get("cursor").and_then(|cursor| cursor.as_document()).unwrap();
    let batch = cursor.get("firstBatch").and_then(|batch| batch.as_array()).unwrap();
    batch.values().map(|row| row.as_document().unwrap().get("_id").unwrap().as_exact_i64().unwrap()).collect()
}

fn is_valid(service: &Service, collection: &str) {
    let told = run(service, &format!(r#"{{"validate":"{collection}","full":true}}"#)).unwrap();
    assert!(told.view().to_json().contains(r#""valid":true"#), "{told:?}");
}

#[test]
fn a_failed_write_or_sync_ends_writes_and_reads_go_on() {
    const WRITES: [&str; 7] = [
        r#"{"insert":"c","documents":[{"_id":100}]}"#,
        r#"{"insert":"c","documents":[{"_id":101},{"_id":102}],"ordered":false}"#,
        r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":9}}}]}"#,
        r#"{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}"#,
        r#"{"findAndModify":"c","query":{"_id":1},"remove":true}"#,
        r#"{"create":"d"}"#,
        r#"{"createIndexes":"c","indexes":[{"key":{"z":1},"name":"z"}]}"#,
    ];
    for fault in [Fault::SyncLost, Fault::ShortWrite, Fault::Error(std::io::ErrorKind::Other)] {
        let machine = SimEnv::new(1);
        let db = open(&machine);
        let service = Service::new(db.clone());
        run(&service, r#"{"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a"}]}"#).unwrap();
        for id in 0..20 {
            run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":{id},"a":{}}}]}}"#, id % 3)).unwrap();
        }
        machine.fail_next(fault, |_| true);
        let (code, message) = run(&service, WRITES[0]).unwrap_err();
        assert_eq!(code, 39, "{fault:?}: {message}");
        for write in WRITES {
            let (code, message) = run(&service, write).unwrap_err();
            assert!(code == 39 && message.contains("reopen"), "{fault:?}: {write}: {code} {message}");
        }
        let acknowledged: BTreeSet<i64> = (0..20).collect();
        assert_eq!(ids(&service, "c"), acknowledged);
        let counted = run(&service, r#"{"aggregate":"c","pipeline":[{"$match":{"a":1}},{"$count":"n"}],"cursor":{}}"#);
        assert!(counted.unwrap().view().to_json().contains(r#""n":7"#));
        is_valid(&service, "c");
        // Opened again all is well: the write whose outcome was not known is there or is not.
        drop((service, db));
        let service = Service::new(open(&machine));
        let found = ids(&service, "c");
        assert!(found.is_superset(&acknowledged) && found.iter().all(|id| *id < 20 || *id == 100), "{found:?}");
        is_valid(&service, "c");
        run(&service, r#"{"insert":"c","documents":[{"_id":200}]}"#).unwrap();
    }
}

/// The files of trees.
fn files(machine: &SimEnv) -> BTreeSet<PathBuf> {
    let all =
        machine.env().fs.list(Path::new("/db")).unwrap().into_iter().map(|entry| Path::new("/db").join(entry.name));
    all.filter(|path| path.extension().is_some_and(|end| end == "run" || end == "tree")).collect()
}

/// Makes a collection whose documents are in files, and says which those are.
fn filled(machine: &SimEnv, service: &Service, name: &str) -> BTreeSet<PathBuf> {
    let before = files(machine);
    for from in (0..DOCUMENTS).step_by(100) {
        let documents: Vec<_> = (from..from + 100)
            .map(|id| format!(r#"{{"_id":{id},"a":{},"pad":"{}"}}"#, id % 7, "x".repeat(100)))
            .collect();
        run(service, &format!(r#"{{"insert":"{name}","documents":[{}]}}"#, documents.join(","))).unwrap();
    }
    for table in service.database().engine().tables().unwrap() {
        table.flush().unwrap();
    }
    files(machine).difference(&before).cloned().collect()
}

#[test]
fn a_damaged_block_fails_what_asks_for_it_and_nothing_else() {
    let machine = SimEnv::new(1);
    let db = open(&machine);
    let service = Service::new(db.clone());
    filled(&machine, &service, "good");
    let damaged = filled(&machine, &service, "bad");
    assert!(!damaged.is_empty());
    drop((service, db));
    // Each block of the collection, but not what an open reads at the beginning and at the end of a file.
    let mut originals = Vec::new();
    for path in &damaged {
        let bytes = machine.read_file(path).unwrap();
        originals.push((path.clone(), bytes.clone()));
        for at in (bytes.len() / 8..bytes.len() * 3 / 4).step_by(64) {
            machine.corrupt(path, u64::try_from(at).unwrap(), 0x20).unwrap();
        }
    }
    let db = open(&machine);
    let service = Service::new(db.clone());
    for command in [
        r#"{"find":"bad","filter":{"a":3},"batchSize":10000}"#,
        r#"{"aggregate":"bad","pipeline":[{"$group":{"_id":"$a"}}],"cursor":{}}"#,
        r#"{"distinct":"bad","key":"a"}"#,
        r#"{"count":"bad","query":{"a":3}}"#,
    ] {
        let (code, message) = run(&service, command).unwrap_err();
        assert_eq!(code, 374, "{command}: {message}");
        assert!(message.starts_with("app.bad: "), "{command}: {message}");
    }
    let update =
        run(&service, r#"{"update":"bad","updates":[{"q":{"a":3},"u":{"$set":{"b":1}},"multi":true}]}"#).unwrap();
    let update = update.view().to_json();
    assert!(update.contains(r#""code":374"#) && update.contains("app.bad: "), "{update}");
    // Nothing else notices.
    assert_eq!(ids(&service, "good").len(), DOCUMENTS);
    is_valid(&service, "good");
    run(&service, r#"{"insert":"good","documents":[{"_id":-1}]}"#).unwrap();
    run(&service, r#"{"insert":"other","documents":[{"_id":1}]}"#).unwrap();
    run(&service, r#"{"update":"good","updates":[{"q":{"_id":5},"u":{"$set":{"b":1}}}]}"#).unwrap();
    // With the bytes as they were, all is there.
    drop((service, db));
    for (path, bytes) in originals {
        machine.write_file(path, &bytes).unwrap();
    }
    let service = Service::new(open(&machine));
    assert_eq!(ids(&service, "bad").len(), DOCUMENTS);
    assert_eq!(ids(&service, "good").len(), DOCUMENTS + 1);
    is_valid(&service, "bad");
}

#[test]
fn what_is_dropped_makes_room_on_a_disk_that_is_full() {
    let machine = SimEnv::new(3);
    machine.set_space(8 << 20);
    // The log is kept for change streams, for which a drop leaves a row.
    let options = Options::default().memory_bytes(1 << 20).log_segment_bytes(64 << 10).log_keep_bytes(64 << 10);
    let engine = spinney::Database::builder("/db").options(options).env(machine.env()).open().unwrap();
    let service = Service::new(Database::with_engine(engine).unwrap());
    run(&service, r#"{"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a"}]}"#).unwrap();
    let mut state = 1_u64;
    let mut insert = |id: u32, collection: &str| {
        // Text that does not compress, by Knuth's multiplier and increment.
        let text: String = (0..60)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("{state:016x}")
            })
            .collect();
        run(&service, &format!(r#"{{"insert":"{collection}","documents":[{{"_id":{id},"a":"{text}"}}]}}"#))
    };
    let is_full = |reply: &DocumentBuf| reply.view().to_json().contains(r#""code":14031"#);
    let filled = (0..).find(|id| insert(*id, "c").map_or_else(|error| error.0 == 14031, |reply| is_full(&reply)));
    assert!(filled.is_some_and(|documents| documents > 1000), "{filled:?}");
    for drop in [r#"{"dropIndexes":"c","index":"a"}"#, r#"{"drop":"c"}"#, r#"{"dropDatabase":1}"#] {
        run(&service, drop).unwrap();
    }
    machine.advance(std::time::Duration::from_secs(5));
    let reply = insert(1, "d").unwrap();
    assert!(!is_full(&reply), "{reply:?}");
}
