//! Wrong input: one clear line, exit code 1 (2 for wrong usage), and nothing lost.

use crate::support::{Place, failure};
use spinney::base::checksum::checksum;
use std::process::Stdio;

/// Loads `bad` as line 8 of 10, in batches of 3, into a database that holds a row already.
fn load_with(bad: &[u8]) -> (Place, String) {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    place.ok(&["put", "db", "t", "old", "value"]);
    let row = |id: usize| format!("{{\"id\": {id}}}\n").into_bytes();
    let text: Vec<u8> =
        (1..=7).flat_map(row).chain(bad.iter().copied()).chain(*b"\n").chain((9..=10).flat_map(row)).collect();
    let file = place.file("rows", text);
    let message = place.fails(&["load", "db", "t", "--jsonl", &file, "--key", "id", "--batch", "3"]);
    (place, message)
}

#[test]
fn a_wrong_line_is_named_and_only_the_batches_before_it_are_loaded() {
    let long = format!("{{\"id\": \"{}\"}}", "k".repeat((64 << 10) + 1));
    let cases: [(&[u8], &str); 9] = [
        (b"17", "not a JSON object"),
        (b"[1, 2]", "not a JSON object"),
        (b"{\"id\": 8", "not valid JSON"),
        (b"{\"id\": 8} {}", "not valid JSON"),
        (b"{\"name\": 8}", "the object has no field `id`"),
        (b"{\"id\": null}", "neither a string nor a number"),
        (b"{\"id\": \"\"}", "empty"),
        (b"{\"id\": \"\xff\"}", "not UTF-8"),
        (long.as_bytes(), "at most 65536"),
    ];
    for (bad, words) in cases {
        let (place, message) = load_with(bad);
        assert!(message.starts_with("rows: line 8: ") && message.contains(words), "{message}");
        assert!(message.ends_with("; 6 rows were loaded"), "{message}");
        let keys = place.ok(&["scan", "db", "t", "--keys-only"]);
        assert_eq!(keys, "1\n2\n3\n4\n5\n6\nold\n", "{message}");
        place.verify();
    }
}

#[test]
fn an_input_that_cannot_be_read_makes_no_database() {
    let place = Place::new();
    for input in ["missing.jsonl", "."] {
        let message = place.fails(&["load", "db", "t", "--jsonl", input, "--key", "id"]);
        assert!(message.starts_with(&format!("cannot read {input}: ")), "{message}");
    }
    assert!(!place.path("db").exists());
}

#[test]
fn a_compressed_input_that_is_cut_off_says_how_far_it_came() {
    let place = Place::new();
    let text: String = (0..100_000).map(|id| format!("{{\"id\": {id}}}\n")).collect();
    let whole = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let file = place.file("rows.zst", &whole[..whole.len() / 2]);
    let message = place.fails(&["load", "db", "t", "--jsonl", &file, "--key", "id", "--batch", "100"]);
    let rows: usize = message.split("; ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(rows > 0 && rows < 100_000 && rows.is_multiple_of(100), "{message}");
    assert_eq!(place.count("t"), rows);
}

#[test]
fn a_table_with_another_layout_is_refused() {
    let place = Place::new();
    let file = place.file("rows", "{\"id\": 1}\n");
    place.ok(&["create", "db", "t", "--layout", "btree"]);
    let message = place.fails(&["load", "db", "t", "--jsonl", &file, "--key", "id", "--layout", "lsm"]);
    assert!(message.contains("`t`") && message.contains("btree") && message.contains("lsm"), "{message}");
    assert_eq!(place.count("t"), 0);
    place.ok(&["load", "db", "t", "--jsonl", &file, "--key", "id"]);
    assert_eq!(place.count("t"), 1);
}

#[test]
fn keys_that_no_table_takes_are_refused() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    let long = "k".repeat((64 << 10) + 1);
    for key in ["", &long] {
        let message = place.fails(&["put", "db", "t", key, "value"]);
        assert!(message.to_lowercase().contains("key"), "{message}");
    }
    place.ok(&["put", "db", "t", &long[1..], ""]);
    assert_eq!(place.count("t"), 1);
    place.verify();
}

#[test]
fn commands_that_need_a_database_do_not_make_one() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    for db in ["missing", "empty"] {
        for args in [
            &["get", db, "t", "k"][..],
            &["put", db, "t", "k", "v"],
            &["delete", db, "t", "k"],
            &["scan", db, "t"],
            &["count", db, "t"],
            &["tables", db],
            &["drop", db, "t"],
            &["shape", db],
            &["stat", db],
            &["verify", db],
            &["flush", db],
            &["compact", db],
            &["checkpoint", db, "copy"],
        ] {
            let message = place.fails(args);
            assert!(message.contains(db), "{args:?}: {message}");
        }
    }
    assert!(!place.path("missing").exists() && !place.path("copy").exists());
    assert_eq!(std::fs::read_dir(place.path("empty")).unwrap().count(), 0);
}

#[test]
fn a_path_that_is_a_file_is_refused_and_left_alone() {
    let place = Place::new();
    let rows = place.file("rows", "{\"id\": 1}\n");
    place.file("db", "not a directory");
    for args in
        [&["count", "db", "t"][..], &["create", "db", "t"], &["load", "db", "t", "--jsonl", &rows, "--key", "id"]]
    {
        let message = place.fails(args);
        assert!(message.contains("db"), "{message}");
    }
    assert_eq!(std::fs::read(place.path("db")).unwrap(), b"not a directory");
}

#[test]
fn a_directory_that_is_not_ours_is_refused_and_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("db")).unwrap();
    place.file("db/letter.txt", "dear");
    for args in [&["count", "db", "t"][..], &["create", "db", "t"]] {
        let message = place.fails(args);
        assert!(message.contains("db"), "{message}");
    }
    let names: Vec<_> = std::fs::read_dir(place.path("db")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["letter.txt"]);
    assert_eq!(std::fs::read(place.path("db/letter.txt")).unwrap(), b"dear");
}

#[test]
fn a_database_that_another_process_has_open_is_refused() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    let args = ["load", "db", "t", "--jsonl", "-", "--key", "id", "--batch", "1", "--ack"];
    let mut holder = place.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = holder.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"{\"id\": 1}\n").unwrap();
    let mut ack = [0; 14];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut ack).unwrap();
    let message = place.fails(&["put", "db", "t", "k", "v"]);
    assert!(message.contains(&format!("process {}", holder.id())), "{message}");
    assert_eq!(place.count("t"), 1, "a command that looks need not wait");
    drop(stdin);
    assert!(holder.wait().unwrap().success());
    assert_eq!(place.count("t"), 1);
}

#[test]
fn unknown_tables_are_named() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    for args in [&["count", "db", "u"][..], &["shape", "db", "u"], &["flush", "db", "u"], &["put", "db", "u", "k", "v"]]
    {
        assert_eq!(
            place.fails(args),
            format!("{} has no table `u`", place.path("db").canonicalize().unwrap().display())
        );
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let place = Place::new();
    for args in [
        &["load", "db", "t"][..],
        &["frobnicate"],
        &["bench", "insert", "--indexes", "4"],
        &["bench", "insert", "--rows", "0"],
        &["count", "db", "t", "--memory", "lots"],
        &["scan", "db", "t", "--prefix", "a", "--from", "b"],
        &[],
    ] {
        assert_eq!(place.run(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn too_little_memory_is_refused() {
    let place = Place::new();
    let message = place.refused(&["create", "db", "t", "--memory", "1KiB"]);
    assert!(message.contains("--memory") && message.contains("between 1 MiB and 1 TiB"), "{message}");
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let place = Place::loaded("btree");
    place.ok(&["compact", "db"]);
    let current = std::fs::read_to_string(place.path("db/CURRENT")).unwrap();
    let lines = current.lines().take(2).collect::<Vec<_>>().join("\n").replacen("spinney 2\n", "spinney 3\n", 1);
    let newer = format!("{lines}\n{:016x}\n", checksum(0, 0, lines.as_bytes()));
    assert_ne!(newer, current);
    std::fs::write(place.path("db/CURRENT"), &newer).unwrap();
    let rows = place.file("rows", "{\"id\": 1}\n");
    for args in [
        &["count", "db", "packages"][..],
        &["put", "db", "packages", "k", "v"],
        &["create", "db", "t"],
        &["load", "db", "t", "--jsonl", &rows, "--key", "id"],
        &["verify", "db"],
        &["log", "db"],
    ] {
        let output = place.run(args);
        assert!(failure(&output, args).contains("format version 3"), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(std::fs::read_to_string(place.path("db/CURRENT")).unwrap(), newer);
    std::fs::write(place.path("db/CURRENT"), &current).unwrap();
    // The version of a single file: it stands in the four bytes after the magic.
    for (dir, extension, newer) in [("db", "tree", 2), ("db/log", "log", 3)] {
        let names = std::fs::read_dir(place.path(dir)).unwrap().map(|entry| entry.unwrap().path());
        let path = names.filter(|path| path.extension().is_some_and(|found| found == extension)).min().unwrap();
        let sound = std::fs::read(&path).unwrap();
        let mut bytes = sound.clone();
        bytes[8] = newer;
        let (sum_at, seed) = match extension {
            "tree" => (24, u64::from_le_bytes(bytes[16..24].try_into().unwrap())),
            _ => (4088, 0),
        };
        let sum = checksum(seed, 0, &bytes[..sum_at]);
        bytes[sum_at..sum_at + 8].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        for command in ["count", "flush"] {
            let message = place.fails(&[command, "db", "packages"]);
            assert!(message.contains("use a newer spinney") && message.contains("format"), "{message}");
            assert!(!message.contains("salvage"), "{message}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        std::fs::write(&path, &sound).unwrap();
    }
    place.verify();
}

#[test]
fn an_input_that_is_wrongly_compressed_is_told_of() {
    let place = Place::new();
    let whole = zstd::encode_all(&[b'x'; 1000][..], 1).unwrap();
    let file = place.file("cut", &whole[..whole.len() - 3]);
    let message = place.fails(&["load", "db", "t", "--jsonl", &file, "--key", "id"]);
    assert!(message.contains("the compressed data is cut off"), "{message}");
}

#[test]
fn a_result_that_could_not_be_written_starts_no_benchmark() {
    let place = Place::new();
    for args in [&["bench", "insert", "--json", "missing/result"][..], &["bench", "kv", "--json", "."]] {
        assert!(place.fails(args).starts_with("cannot write "), "{args:?}");
    }
}
