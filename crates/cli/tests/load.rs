//! `load`, and reading back what it loaded.

use crate::support::{LAYOUTS, Place, entries, sample, sample_entries};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

#[test]
fn every_layout_gives_back_what_was_loaded_in_both_directions() {
    let expected: Vec<(String, String)> = sample_entries().into_iter().collect();
    assert!(expected.len() > 300);
    for layout in LAYOUTS {
        let place = Place::loaded(layout);
        let check = || {
            assert_eq!(place.count("packages"), expected.len(), "{layout}");
            assert_eq!(place.entries("packages"), expected, "{layout}");
            let mut backward = entries(&place.ok(&["scan", "db", "packages", "--reverse"]));
            backward.reverse();
            assert_eq!(backward, expected, "{layout}");
            for (key, value) in expected.iter().step_by(29) {
                assert_eq!(place.ok(&["get", "db", "packages", key]), *value, "{layout}");
            }
        };
        check();
        place.ok(&["flush", "db"]);
        check();
        place.ok(&["compact", "db", "packages"]);
        check();
        place.verify();
    }
}

#[test]
fn a_compressed_file_and_stdin_load_the_same() {
    let expected: Vec<(String, String)> = sample_entries().into_iter().collect();
    let place = Place::new();
    place.ok(&["load", "db", "file", "--jsonl", &sample("packages.jsonl.zst"), "--key", "package"]);
    assert_eq!(place.entries("file"), expected);
    for name in ["packages.jsonl", "packages.jsonl.zst"] {
        let content = std::fs::read(sample(name)).unwrap();
        let output =
            place.run_with(&["load", "db", name, "--jsonl", "-", "--key", "package", "--batch", "10"], &content);
        assert!(output.status.success());
        assert_eq!(place.entries(name), expected);
    }
    place.verify();
}

#[test]
fn the_summary_tells_rows_and_layout() {
    let place = Place::new();
    let file = place.file("rows", "{\"id\": 1}\n\n{\"id\": 2}\n{\"id\": 1, \"again\": true}\n");
    let args = ["load", "db", "t", "--jsonl", &file, "--key", "id", "--layout", "btree"];
    let text = place.ok(&args);
    assert!(text.starts_with("loaded 3 rows (") && text.contains("into `t` (btree)"), "{text}");
    assert_eq!(place.entries("t"), [("1", "{\"id\": 1, \"again\": true}"), ("2", "{\"id\": 2}")].map(owned));
    let json: serde_json::Value = serde_json::from_str(&place.ok(&[&args[..], &["--json"]].concat())).unwrap();
    assert_eq!((json["rows"].as_u64(), json["batches"].as_u64()), (Some(3), Some(1)));
}

#[test]
fn a_load_into_a_table_without_redo_log_ends_with_a_flush() {
    let place = Place::new();
    let file = place.file("rows", "{\"id\": 1}\n{\"id\": 2}\n");
    let args = ["load", "db", "t", "--jsonl", &file, "--key", "id", "--unlogged"];
    place.ok(&args);
    assert_eq!(place.count("t"), 2);
    let shape: serde_json::Value = serde_json::from_str(&place.ok(&["shape", "db", "t", "--json"])).unwrap();
    assert!(shape.to_string().contains("\"l0\":[{"), "{shape}");
    // As one without redo log it is loaded again, also when that is not said.
    place.ok(&args);
    place.ok(&args[..7]);
    place.ok(&["create", "db", "logged"]);
    let refused = place.fails(&["load", "db", "logged", "--jsonl", &file, "--key", "id", "--unlogged"]);
    assert!(refused.contains("with redo log"), "{refused}");
    place.verify();
}

#[test]
fn a_sorted_load_adds_all_rows_or_none() {
    let place = Place::new();
    let sorted = place.file("sorted", "{\"id\": \"a\"}\n{\"id\": \"b\"}\n\n{\"id\": \"c\"}\n");
    let args = ["load", "db", "t", "--jsonl", &sorted, "--key", "id", "--sorted"];
    let text = place.ok(&args);
    assert!(text.starts_with("loaded 3 rows ("), "{text}");
    let shape: serde_json::Value = serde_json::from_str(&place.ok(&["shape", "db", "t", "--json"])).unwrap();
    assert!(shape.to_string().contains("\"memtable_entries\":0"), "{shape}");
    place.ok(&args);
    assert_eq!(place.count("t"), 3);
    let unsorted = place.file("unsorted", "{\"id\": \"d\"}\n{\"id\": \"f\"}\n{\"id\": \"e\"}\n");
    let said = place.fails(&["load", "db", "t", "--jsonl", &unsorted, "--key", "id", "--sorted"]);
    assert!(said.contains("line 3") && said.contains("'e' came after 'f'") && said.contains("0 rows"), "{said}");
    assert_eq!(place.count("t"), 3);
    place.verify();
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn each_batch_is_acknowledged_as_it_is_loaded() {
    let place = Place::new();
    let file = place.file("rows", (1..=7).map(|id| format!("{{\"id\": {id}}}\n")).collect::<String>());
    for durability in ["sync", "interval", "buffered"] {
        let args = ["load", "db", durability, "--jsonl", &file, "--key", "id", "--batch", "3", "--ack"];
        let text = place.ok(&[&args[..], &["--durability", durability]].concat());
        let acks: Vec<&str> = text.lines().filter(|line| line.starts_with("ack")).collect();
        assert_eq!(acks, ["acknowledged 3", "acknowledged 6", "acknowledged 7"]);
        assert_eq!(place.count(durability), 7);
    }
}

#[test]
fn an_empty_file_loads_nothing_into_a_new_table() {
    let place = Place::new();
    let file = place.file("rows", "");
    place.ok(&["load", "db", "t", "--jsonl", &file, "--key", "id"]);
    assert_eq!(place.count("t"), 0);
}

#[test]
fn an_interrupt_ends_the_load_after_a_batch_and_closes_the_database() {
    let place = Place::new();
    let args = ["load", "db", "t", "--jsonl", "-", "--key", "id", "--batch", "10", "--ack"];
    let mut child = place.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut acks = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = 0;
    let mut write = |rows: usize| {
        let text: String = (next..next + rows).map(|id| format!("{{\"id\": {id}}}\n")).collect();
        next += rows;
        stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush())
    };
    // The reader takes a buffer at a time or what there is, so that one batch comes through at once.
    write(10).unwrap();
    assert_eq!(acks.next().unwrap().unwrap(), "acknowledged 10");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    while write(10).is_ok() {}
    let last: usize = acks.map(|ack| ack.unwrap()[13..].parse().unwrap()).last().unwrap_or(10);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("spinney: -: interrupted; {last} rows were loaded\n"));
    assert_eq!(place.count("t"), last);
    place.verify();
}

#[test]
fn a_load_whose_acknowledgements_nobody_reads_fails() {
    let place = Place::new();
    let file = place.file("rows", (0..20_000).map(|id| format!("{{\"id\": {id}}}\n")).collect::<String>());
    let args =
        ["load", "db", "t", "--jsonl", &file, "--key", "id", "--batch", "1", "--ack", "--durability", "buffered"];
    let mut child = place.command(&args).spawn().unwrap();
    drop(child.stdout.take());
    let message = crate::support::failure(&child.wait_with_output().unwrap(), &args);
    assert!(message.contains("cannot acknowledge: "), "{message}");
    assert!(place.count("t") < 20_000);
    place.verify();
}
