//! A command that fails leaves nothing of what it made.

use crate::disk::{rows, run_with_room};
use crate::support::{LAYOUTS, Place, failure};
use std::path::Path;

fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_load_that_loads_nothing_leaves_no_database_and_no_table() {
    let place = Place::new();
    let file = place.file("rows", "{\"id\": 1}\n{\"id\": 2}\n{\"name\": 3}\n");
    std::fs::create_dir(place.path("empty")).unwrap();
    for more in [&[][..], &["--sorted"], &["--unlogged"], &["--layout", "btree"], &["--log-dir", "far/log"]] {
        for db in ["db", "deep/er/db", "empty"] {
            let load = ["load", db, "t", "--jsonl", &file, "--key", "id"];
            let message = place.fails(&[&load[..], more].concat());
            assert!(message.contains("line 3") && message.ends_with("0 rows were loaded"), "{message}");
            assert_eq!(names(&place.path("")), ["empty", "rows"], "{db} {more:?}");
            assert_eq!(names(&place.path("empty")), [""; 0]);
        }
    }
    // Of a database that was there, only the table goes that was made.
    place.ok(&["create", "db", "u"]);
    place.fails(&["load", "db", "t", "--jsonl", &file, "--key", "id"]);
    place.fails(&["load", "db", "u", "--jsonl", &file, "--key", "id"]);
    assert_eq!(place.ok(&["tables", "db"]).lines().count(), 2);
    // What was loaded stays.
    place.fails(&["load", "db", "t", "--jsonl", &file, "--key", "id", "--batch", "1"]);
    assert_eq!(place.count("t"), 2);
    place.verify();
}

#[test]
fn a_create_that_fails_leaves_no_database() {
    let place = Place::new();
    let long = "n".repeat(256);
    for args in [
        &["create", "db", "z", "--block", "5"][..],
        &["create", "db", "z", "--block", "2MiB"],
        &["create", "db", "z", "--fanout", "1"],
        &["create", "db", "z", "--filter-bits", "33"],
        &["create", "db", "z", "--large-values", "63"],
        &["create", "db", "z", "--merge", "concat"],
        &["create", "db", "z", "--layout", "btree", "--time-to-live", "1d"],
        &["create", "db", "z", "--prefix-filter", "bytes:4", "--filter-bits", "0"],
        &["create", "db", "z", "--memory", "1023KiB"],
        &["create", "db", ""],
        &["create", "db", &long],
    ] {
        let message = place.refused(args);
        assert!(!message.contains('_') && !message.contains("::"), "no names of Rust: {message}");
        assert!(!place.path("db").exists(), "{args:?}");
    }
    assert!(place.refused(&["create", "db", "z", "--block", "5"]).contains("between 512 B and 1 MiB"));
    // No file may be as large as a segment of the log.
    for room in [512, 4096, 256 << 10] {
        let args = ["create", "db", "z"];
        let message = failure(&run_with_room(&place, room, &args), &args);
        assert!(message.contains("too large"), "{message}");
        assert_eq!(names(&place.path("")), [""; 0], "{room}");
    }
    place.ok(&["create", "db", "z"]);
    assert!(place.fails(&["create", "db", "z"]).contains("exists already"));
    assert_eq!(place.count("z"), 0);
}

#[test]
fn a_checkpoint_that_fails_is_removed_and_can_be_tried_again() {
    const ROWS: usize = 3000;
    let place = Place::new();
    let file = place.file("rows", rows(ROWS));
    place.ok(&["load", "db", "t", "--jsonl", &file, "--key", "id", "--layout", "btree"]);
    place.ok(&["load", "db", "u", "--jsonl", &file, "--key", "id"]);
    place.ok(&["compact", "db"]);
    std::fs::create_dir(place.path("made")).unwrap();
    for copy in ["copy", "deep/copy", "made"] {
        let args = ["checkpoint", "db", copy];
        let message = failure(&run_with_room(&place, 3 << 19, &args), &args);
        assert!(message.contains("too large"), "{message}");
        assert_eq!(names(&place.path("")), ["db", "made", "rows"]);
        assert_eq!(names(&place.path("made")), [""; 0]);
    }
    place.ok(&["checkpoint", "db", "copy"]);
    assert_eq!(place.ok(&["count", "copy", "t"]), format!("{ROWS}\n"));
    place.verify();
}

#[test]
fn a_checkpoint_that_was_killed_is_begun_anew() {
    for layout in LAYOUTS {
        let place = Place::loaded(layout);
        place.ok(&["checkpoint", "db", "copy"]);
        let whole = names(&place.path("copy"));
        assert!(!whole.contains(&"CHECKPOINT".to_owned()), "{whole:?}");
        // Complete it is not touched, nor is a database that lost its CURRENT.
        assert!(place.fails(&["checkpoint", "db", "copy"]).contains("not empty"));
        std::fs::remove_file(place.path("copy/CURRENT")).unwrap();
        assert!(place.fails(&["checkpoint", "db", "copy"]).contains("not empty"));
        place.file("copy/CHECKPOINT", "");
        place.file("copy/letter.txt", "dear");
        assert!(place.fails(&["checkpoint", "db", "copy"]).contains("not empty"));
        std::fs::remove_file(place.path("copy/letter.txt")).unwrap();
        place.ok(&["checkpoint", "db", "copy"]);
        let count = place.count("packages").to_string();
        assert_eq!(place.ok(&["count", "copy", "packages"]).trim(), count);
        place.ok(&["verify", "copy"]);
        assert!(!place.path("copy/CHECKPOINT").exists());
    }
}

#[test]
fn a_salvage_that_was_killed_is_begun_anew() {
    for layout in LAYOUTS {
        let place = Place::loaded(layout);
        place.ok(&["salvage", "db", "copy"]);
        let whole = names(&place.path("copy"));
        assert!(!whole.contains(&"SALVAGE".to_owned()), "{whole:?}");
        // Complete it is not touched, nor is a database that lost its CURRENT.
        assert!(place.fails(&["salvage", "db", "copy"]).contains("not empty: it holds a database: give a new one"));
        std::fs::remove_file(place.path("copy/CURRENT")).unwrap();
        assert!(place.fails(&["salvage", "db", "copy"]).contains("it holds '"));
        place.file("copy/SALVAGE", "");
        place.file("copy/letter.txt", "dear");
        assert!(place.fails(&["salvage", "db", "copy"]).contains("it holds 'letter.txt'"));
        std::fs::remove_file(place.path("copy/letter.txt")).unwrap();
        place.ok(&["salvage", "db", "copy"]);
        assert_eq!(place.ok(&["scan", "copy", "packages"]), place.ok(&["scan", "db", "packages"]));
        place.ok(&["verify", "copy"]);
        assert_eq!(names(&place.path("copy")).iter().filter(|name| *name == "SALVAGE").count(), 0);
    }
}

#[test]
fn lost_and_found_alone_is_an_empty_directory() {
    let place = Place::new();
    for dir in ["db", "copy", "saved"] {
        std::fs::create_dir_all(place.path(dir).join("lost+found")).unwrap();
    }
    let file = place.file("rows", "{\"name\": 3}\n");
    place.fails(&["load", "db", "t", "--jsonl", &file, "--key", "id"]);
    assert_eq!(names(&place.path("db")), ["lost+found"]);
    place.ok(&["create", "db", "t"]);
    place.ok(&["put", "db", "t", "k", "v"]);
    place.ok(&["checkpoint", "db", "copy"]);
    place.ok(&["salvage", "db", "saved"]);
    for db in ["db", "copy", "saved"] {
        assert_eq!(place.ok(&["get", db, "t", "k"]), "v", "{db}");
    }
}

#[test]
fn a_checkpoint_shares_with_an_earlier_one_what_did_not_change() {
    for layout in LAYOUTS {
        let place = Place::loaded(layout);
        place.ok(&["checkpoint", "db", "monday"]);
        let said = place.ok(&["checkpoint", "db", "tuesday", "--since", "monday"]);
        assert!(said.starts_with("1 file linked (") && said.contains(", 0 copied (0 B)"), "{layout}: {said}");
        place.ok(&["put", "db", "packages", "new", "row"]);
        let said = place.ok(&["checkpoint", "db", "wednesday", "--since", "tuesday", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(report["linked_files"].as_u64().unwrap() + report["copied_files"].as_u64().unwrap() > 0, "{said}");
        // Each can be written and removed without the others.
        place.ok(&["put", "tuesday", "packages", "other", "row"]);
        place.ok(&["compact", "tuesday"]);
        std::fs::remove_dir_all(place.path("wednesday")).unwrap();
        for (copy, more) in [("monday", 0), ("tuesday", 1), ("db", 1)] {
            assert_eq!(place.ok(&["count", copy, "packages"]).trim(), (313 + more).to_string(), "{layout} {copy}");
            place.ok(&["verify", copy]);
        }
        for (base, words) in [("missing", "missing"), ("db", "the database is open in"), (".", "no database here")] {
            let message = place.fails(&["checkpoint", "db", "deep/next", "--since", base]);
            assert!(message.contains(words), "{message}");
            assert!(!place.path("deep").exists());
        }
        place.ok(&["create", "stranger", "t"]);
        let message = place.fails(&["checkpoint", "db", "next", "--since", "stranger"]);
        assert!(message.contains("no checkpoint of this database"), "{message}");
    }
}
