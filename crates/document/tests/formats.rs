//! The databases under `testdata/formats`, one folder for each release: each is opened, read, verified, written to and
//! opened again, or refused by a version that says so.
//!
//! `cargo xtask format-files` makes those of this version. A folder has
//!
//! | | |
//! |---|---|
//! | `engine` | a database of the engine: all layouts and compressions, and what a table can have; commits in the log |
//! | `engine.txt` | what it holds: table, key and value, escaped, separated by tabs |
//! | `documents` | a document database: kinds of collections and indexes |
//! | `documents.txt` | its documents and indexes as canonical extended JSON, behind the collection |

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

use spinney::{Batch, Durability, Error, ErrorKind, Options, TableOptions};
use spinney_document::Database;
use spinney_document::bson::DocumentBuf;
use spinney_document::command::{Client, Request, Service};

/// The folder of all versions.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats")
}

/// Small files: segments of 64 KiB, and memtables that are flushed when the test says so.
fn options() -> Options {
    Options::default()
        .memory_bytes(4 << 20)
        .log_segment_bytes(64 << 10)
        .log_bytes_max(1 << 20)
        .log_compression(spinney::LogCompression::Lz4)
        .durability(Durability::Buffered)
}

/// The tables, with all options that the format has.
fn tables() -> Vec<(&'static str, TableOptions)> {
    let usual = TableOptions::default().run_bytes_max(16 << 10);
    let with = |changes: &[(&str, &str)]| {
        let mut options = usual.clone();
        changes.iter().for_each(|(name, text)| options.set(name, text).expect("an option"));
        options
    };
    vec![
        ("btree", with(&[("layout", "btree"), ("compression", "none"), ("block_bytes", "512")])),
        ("btree lz4", with(&[("layout", "btree")])),
        ("counters", with(&[("merge", "add")])),
        ("lsm", with(&[("large_value_bytes", "256"), ("prefix_filter", "upto:/")])),
        ("lsm for ever", with(&[("time_to_live", "3162240000")])),
        ("lsm zstd", with(&[("compression", "zstd"), ("filter_bits_per_key", "0")])),
        ("tiered", with(&[("layout", "lsm-tiered"), ("fanout", "2"), ("compression", "none")])),
        ("unlogged", with(&[("logged", "false")])),
    ]
}

fn key(number: u32) -> String {
    format!("{}/{number:04}", ["ann", "bob", "eve"][number as usize % 3])
}

/// Values of 6 to 400 bytes.
fn value(number: u32, round: u32) -> String {
    format!("v{round} {number} ").repeat(1 + number as usize % 40)
}

/// Three rounds of changes to each table: two that are flushed, and one that stays in the log.
fn write_engine(path: &Path) -> spinney::Result<()> {
    let db = spinney::Database::open(path, options())?;
    for (name, options) in tables() {
        let table = db.create_table(name, options)?;
        let counts = table.options().merge.is_some();
        for round in 0..3_u32 {
            let mut batch = Batch::new();
            for number in (0..120).filter(|number| number % (round + 1) == 0) {
                match (counts, number % 7) {
                    (true, _) => batch.merge(&table, key(number), 1_u64.to_le_bytes()),
                    (false, 6) if round > 0 => batch.delete(&table, key(number)),
                    (false, _) => batch.put(&table, key(number), value(number, round)),
                }
            }
            db.write(&batch)?;
            if round == 1 {
                table.delete_range("bob/0030".."bob/0060")?;
            }
            if round < 2 || !table.options().logged {
                table.flush()?;
            }
        }
        table.wait_idle()?;
    }
    db.close()
}

/// What a database of the engine holds, as text.
fn engine_text(db: &spinney::Database) -> spinney::Result<String> {
    let mut text = String::new();
    for table in db.tables()? {
        for option in TableOptions::named() {
            let value = option.text(table.options()).unwrap_or_default();
            text += &format!("{}\toption {}\t{value}\n", table.name(), option.name());
        }
        for entry in table.range(..) {
            let (key, value) = entry?;
            text += &format!("{}\t{}\t{}\n", table.name(), key.escape_ascii(), value.escape_ascii());
        }
    }
    Ok(text)
}

/// Runs a command in JSON, which must be done.
fn run(service: &Service, command: &str) -> DocumentBuf {
    let command = DocumentBuf::from_json(command).expect("JSON");
    let client = Client::default();
    let reply = service.run(&Request { database: "shop", body: command.view(), sequences: &[], client: &client });
    let ok = reply.view().get("ok").and_then(|ok| ok.as_exact_i64());
    assert_eq!(ok, Some(1), "{}: {}", command.view().to_json(), reply.view().to_json());
    reply
}

const COMMANDS: [&str; 9] = [
    r#"{"create": "goods"}"#,
    r#"{"create": "names", "collation": {"locale": "en", "strength": 2}, "storageEngine": {"spinney": {"layout": "btree"}}}"#,
    r#"{"create": "events", "capped": true, "size": 100000, "max": 5}"#,
    r#"{"create": "cheap", "viewOn": "goods", "pipeline": [{"$match": {"price": {"$lt": 10}}}]}"#,
    r#"{"createIndexes": "goods", "indexes": [
        {"key": {"tags": 1, "price": -1}, "name": "tags and price"}, {"key": {"code": 1}, "name": "code", "unique": true},
        {"key": {"price": "hashed"}, "name": "hashed"}, {"key": {"more.$**": 1}, "name": "all"},
        {"key": {"at": 1}, "name": "at", "expireAfterSeconds": 2000000000},
        {"key": {"price": 1}, "name": "some", "partialFilterExpression": {"price": {"$gt": 5}}}]}"#,
    r#"{"createIndexes": "names", "indexes": [{"key": {"name": 1}, "name": "name", "unique": true}]}"#,
    r#"{"insert": "names", "documents": [{"_id": "a", "name": "Ann"}, {"_id": "b", "name": "Zoë"}]}"#,
    r#"{"insert": "goods", "documents": [{"_id": {"$oid": "0123456789abcdef01234567"}, "code": -1,
        "double": 1.5, "long": {"$numberLong": "9007199254740993"}, "decimal": {"$numberDecimal": "1.50E+3"},
        "at": {"$date": "2026-01-02T03:04:05.678Z"}, "time": {"$timestamp": {"t": 7, "i": 8}}, "none": null, "yes": true,
        "binary": {"$binary": {"base64": "AAEC", "subType": "00"}}, "regex": {"$regularExpression": {"pattern": "^a", "options": "i"}},
        "more": {"deep": {"er": [1, "two", {"three": 3}]}}, "low": {"$minKey": 1}, "high": {"$maxKey": 1}, "empty": {}, "": ""}]}"#,
    r#"{"update": "goods", "updates": [{"q": {"code": -1}, "u": {"$set": {"updated": true}, "$inc": {"double": 1}}}]}"#,
];

fn write_documents(path: &Path) -> spinney_document::Result<()> {
    let service = Service::new(Database::open(path, options())?);
    for command in COMMANDS {
        run(&service, command);
    }
    for number in 0..60 {
        let tags = ["[]", "[\"new\"]", "[\"new\", \"red\"]"][number % 3];
        let price = number as f64 / 4.0;
        run(
            &service,
            &format!(
                r#"{{"insert": "goods", "documents": [{{"_id": {number}, "code": {number}, "tags": {tags}, "price": {price}}}]}}"#
            ),
        );
        run(&service, &format!(r#"{{"insert": "events", "documents": [{{"_id": {number}}}]}}"#));
        if number == 40 {
            service.database().engine().flush()?;
        }
    }
    run(&service, r#"{"delete": "goods", "deletes": [{"q": {"price": {"$gte": 14}}, "limit": 0}]}"#);
    Ok(service.database().engine().clone().close()?)
}

/// What a document database holds, as text.
fn documents_text(service: &Service) -> String {
    let mut text = String::new();
    for name in ["cheap", "events", "goods", "names"] {
        let batch = |command: String| {
            let reply = run(service, &command);
            let cursor = reply.view().get("cursor").and_then(|cursor| cursor.as_document()).expect("a cursor");
            let batch = cursor.get("firstBatch").and_then(|batch| batch.as_array()).expect("a batch");
            let lines = batch.into_iter().map(|item| item.as_document().expect("documents").to_canonical_json());
            lines.map(|line| format!("{name}\t{line}\n")).collect::<String>()
        };
        text += &batch(format!(r#"{{"find": "{name}", "sort": {{"_id": 1}}, "batchSize": 1000}}"#));
        if name != "cheap" {
            text += &batch(format!(r#"{{"listIndexes": "{name}"}}"#));
        }
    }
    text
}

/// Copies a folder, so that what is kept stays as it is.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The number of a database's format: the first line of the file `CURRENT` is "spinney" and that.
fn format_of(database: &Path) -> String {
    let text = fs::read(database.join("CURRENT")).unwrap();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().replace("spinney ", "")
}

fn is_sound(db: &spinney::Database) {
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty() && report.blocks > 0 && report.log_commits > 0, "{report:?}");
}

fn opens_engine(kept: &Path, place: &Path) {
    let expected = fs::read_to_string(kept.join("engine.txt")).unwrap();
    copy(&kept.join("engine"), place);
    let db = spinney::Database::open(place, options()).unwrap();
    assert_eq!(engine_text(&db).unwrap(), expected);
    is_sound(&db);
    for table in db.tables().unwrap() {
        match table.options().merge {
            Some(_) => table.merge("later", 5_u64.to_le_bytes()).unwrap(),
            None => table.put("later", "written").unwrap(),
        }
        table.compact().unwrap();
    }
    db.close().unwrap();
    let db = spinney::Database::open(place, options()).unwrap();
    let after = engine_text(&db).unwrap();
    let (later, before): (Vec<_>, Vec<_>) = after.lines().partition(|line| line.contains("\tlater\t"));
    assert_eq!(before, expected.lines().collect::<Vec<_>>());
    assert_eq!(later.len(), db.tables().unwrap().len());
    assert!(db.verify().unwrap().problems.is_empty());
    db.close().unwrap();
}

fn opens_documents(kept: &Path, place: &Path) {
    let expected = fs::read_to_string(kept.join("documents.txt")).unwrap();
    copy(&kept.join("documents"), place);
    let service = Service::new(Database::open(place, options()).unwrap());
    assert_eq!(documents_text(&service), expected);
    is_sound(service.database().engine());
    for name in ["events", "goods", "names"] {
        let collection = service.database().collection(&format!("shop.{name}")).unwrap().unwrap();
        let validation = collection.validate().unwrap();
        assert!(validation.problems.is_empty(), "{name}: {validation:?}");
    }
    run(
        &service,
        r#"{"insert": "goods", "documents": [{"_id": "later", "code": "later", "tags": ["red"], "price": 1}]}"#,
    );
    service.database().engine().clone().close().unwrap();
    let service = Service::new(Database::open(place, options()).unwrap());
    let found = run(&service, r#"{"find": "goods", "filter": {"tags": "red", "price": 1}, "hint": "tags and price"}"#);
    assert!(found.view().to_json().contains("later"));
    service.database().engine().clone().close().unwrap();
}

fn is_refused(error: &Error, theirs: &str, ours: &str) {
    let message = error.to_string();
    assert!(error.kind() == ErrorKind::Unsupported && message.contains(theirs) && message.contains(ours), "{message}");
}

#[test]
fn kept_databases_are_opened_or_refused() {
    let place = tempfile::tempdir().unwrap();
    write_if_asked();
    let new = place.path().join("new");
    spinney::Database::open(&new, options()).unwrap().close().unwrap();
    let ours = format_of(&new);
    let mut own = 0;
    for version in fs::read_dir(folder()).unwrap() {
        let kept = version.unwrap().path();
        let copied = place.path().join(kept.file_name().unwrap());
        let theirs = format_of(&kept.join("engine"));
        if theirs == ours {
            own += 1;
            opens_engine(&kept, &copied.join("engine"));
            opens_documents(&kept, &copied.join("documents"));
        } else {
            copy(&kept.join("engine"), &copied);
            is_refused(&spinney::Database::open(&copied, options()).unwrap_err(), &theirs, &ours);
        }
    }
    assert!(own > 0, "no database of format {ours} is kept: `cargo xtask format-files` makes one");
}

/// Makes the databases of this version, when the environment asks for it.
fn write_if_asked() {
    if std::env::var_os("SPINNEY_FORMAT_FILES").is_none() {
        return;
    }
    let version = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
    let kept = folder().join(version);
    fs::remove_dir_all(&kept).ok();
    fs::create_dir_all(&kept).unwrap();
    write_engine(&kept.join("engine")).unwrap();
    write_documents(&kept.join("documents")).unwrap();
    let copied = tempfile::tempdir().unwrap();
    copy(&kept, copied.path());
    let db = spinney::Database::open(copied.path().join("engine"), options()).unwrap();
    fs::write(kept.join("engine.txt"), engine_text(&db).unwrap()).unwrap();
    let service = Service::new(Database::open(copied.path().join("documents"), options()).unwrap());
    fs::write(kept.join("documents.txt"), documents_text(&service)).unwrap();
}
