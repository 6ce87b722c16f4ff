//! The commands that read, change and look into a database.

use crate::support::{LAYOUTS, Place, sample_entries};
use serde_json::Value as Json;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn an_entry_lives_from_put_to_delete() {
    for layout in LAYOUTS {
        let place = Place::new();
        place.ok(&["create", "db", "t", "--layout", layout]);
        place.ok(&["put", "db", "t", "key", "first"]);
        place.ok(&["put", "db", "t", "key", "second", "--durability", "buffered"]);
        assert_eq!(place.ok(&["get", "db", "t", "key"]), "second");
        place.ok(&["delete", "db", "t", "key"]);
        place.ok(&["delete", "db", "t", "key"]);
        place.ok(&["put", "db", "t", "entry", "once"]);
        place.ok(&["delete", "db", "t", "entry", "--single"]);
        assert!(place.ok(&["log", "db"]).contains("single-delete  entry"));
        assert_eq!(place.ends(4, &["get", "db", "t", "key"]), "spinney: table `t` has no key `key`\n");
        assert_eq!(place.count("t"), 0);
        place.verify();
    }
}

#[test]
fn several_keys_are_looked_up_together_and_the_missing_ones_named() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "a\tb")] {
        place.ok(&["put", "db", "t", key, value]);
    }
    assert_eq!(place.ok(&["get", "db", "t", "c", "a", "c"]), "c\ta\tb\na\t1\nc\ta\tb\n");
    assert_eq!(place.ok(&["get", "db", "t", "c", "a", "--escape"]), "c\ta\\tb\na\t1\n");
    let lines = place.ok(&["get", "db", "t", "b", "a", "--json"]);
    let objects: Vec<_> = lines.lines().map(json).collect();
    assert_eq!(objects, [json(r#"{"key": "b", "value": "2"}"#), json(r#"{"key": "a", "value": "1"}"#)]);
    let output = place.run(&["get", "db", "t", "a", "x", "b", "y"]);
    assert_eq!(output.stdout, b"a\t1\nb\t2\n", "what is there is printed");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "spinney: table `t` has no keys `x`, `y`\n");
    assert_eq!(output.status.code(), Some(4), "a missing key is told from a failure");
    assert_eq!(place.ends(4, &["get", "db", "t", "x", "--json"]), "spinney: table `t` has no key `x`\n");
    assert!(place.fails(&["get", "db", "u", "x"]).contains("no table `u`"));
    assert_eq!(place.ok(&["get", "db", "t", "c", "a", "--hex"]), "63\t610962\n61\t31\n");
    assert_eq!(place.ok(&["get", "db", "t", "a", "--hex"]), "31\n");
    let object = json(&place.ok(&["get", "db", "t", "a", "--hex", "--json"]));
    assert_eq!(object, json(r#"{"key": {"hex": "61"}, "value": {"hex": "31"}}"#));
    assert_eq!(place.ok(&["scan", "db", "t", "--hex", "--limit", "1"]), "61\t31\n");
    assert_eq!(place.run(&["get", "db", "t"]).status.code(), Some(2));
}

#[test]
fn operands_are_merged_into_the_values_of_tables_with_an_operator() {
    for layout in LAYOUTS {
        let place = Place::new();
        place.ok(&["create", "db", "visits", "--merge", "add", "--layout", layout]);
        let sum = |key: &str| place.ok(&["get", "db", "visits", key, "--escape"]);
        place.ok(&["merge", "db", "visits", "page", "5"]);
        place.ok(&["merge", "db", "visits", "page", "300", "--durability", "buffered"]);
        assert_eq!(sum("page"), "1\\x01\\x00\\x00\\x00\\x00\\x00\\x00\n");
        place.ok(&["flush", "db"]);
        place.ok(&["merge", "db", "visits", "page", "-300"]);
        assert_eq!(sum("page"), "\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00\n");
        assert!(place.ok(&["log", "db"]).contains("merge"));
        place.ok(&["merge", "db", "visits", "--escape", "\\x00", "18446744073709551615"]);
        assert_eq!(sum("\\x00"), "\\xff".repeat(8) + "\n");
        // A number as one reads it, unless bytes are asked for.
        assert_eq!(place.ok(&["get", "db", "visits", "page"]), "5\n");
        assert_eq!(place.ok(&["get", "db", "visits", "page", "--hex"]), "0500000000000000\n");
        assert_eq!(place.ok(&["get", "db", "visits", "page", "--json"]), "{\"key\":\"page\",\"value\":5}\n");
        assert_eq!(place.ok(&["scan", "db", "visits"]), "\0\t-1\npage\t5\n");
        assert!(place.ok(&["scan", "db", "visits", "--json"]).starts_with("{\"key\":\"\\u0000\",\"value\":-1}\n"));
        for operand in ["", "x", "1.5", "18446744073709551616", "-9223372036854775809"] {
            let message = place.fails(&["merge", "db", "visits", "page", operand]);
            assert!(message.contains("is not a whole number of 64 bits"), "{message}");
        }
        place.ok(&["create", "db", "plain", "--layout", layout]);
        place.ok(&["put", "db", "plain", "page", "8 bytes."]);
        assert_eq!(place.ok(&["get", "db", "plain", "page"]), "8 bytes.");
        let message = place.fails(&["merge", "db", "plain", "page", "1"]);
        assert!(message.contains("merge operator") && message.contains("created without --merge"), "{message}");
        assert!(place.fails(&["merge", "db", "none", "page", "1"]).contains("has no table `none`"));
        assert_eq!(place.count("visits"), 2);
        place.verify();
    }
}

#[test]
fn a_range_is_deleted_at_once_and_shown_in_the_log() {
    for layout in LAYOUTS {
        let place = Place::loaded(layout);
        let keys: Vec<String> = sample_entries().into_keys().collect();
        place.ok(&["delete", "db", "packages", "--from", &keys[20], "--to", &keys[40]]);
        let log = place.ok(&["log", "db"]);
        assert!(
            log.lines()
                .any(|line| line.contains("range delete") && line.contains(&keys[20]) && line.contains(&keys[40])),
            "{log}"
        );
        let left: Vec<String> =
            place.ok(&["scan", "db", "packages", "--keys-only"]).lines().map(str::to_owned).collect();
        assert_eq!(left, [&keys[..20], &keys[40..]].concat());
        place.ok(&["delete", "db", "packages", "--prefix", &keys[0]]);
        assert_eq!(place.count("packages"), keys.len() - 21);
        place.ok(&["compact", "db"]);
        assert_eq!(place.count("packages"), keys.len() - 21);
        assert!(!place.run(&["delete", "db", "packages"]).status.success());
        assert!(!place.run(&["delete", "db", "packages", "key", "--from", "a"]).status.success());
        place.verify();
    }
}

#[test]
fn any_bytes_go_in_and_come_out() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    place.ok(&["put", "db", "t", "--escape", "\\x00\\xff\\t", "a\\nb\\\\"]);
    assert_eq!(place.ok(&["scan", "db", "t", "--escape"]), "\\x00\\xff\\t\ta\\nb\\\\\n");
    assert_eq!(place.ok(&["get", "db", "t", "--escape", "\\x00\\xff\\t"]), "a\\nb\\\\\n");
    assert_eq!(
        json(&place.ok(&["scan", "db", "t", "--json"])),
        json(r#"{"key": {"hex": "00ff09"}, "value": "a\nb\\"}"#)
    );
    assert_eq!(place.run(&["scan", "db", "t"]).stdout, b"\x00\xff\t\ta\nb\\\n");
    let value: Vec<u8> = (0..=255).collect();
    assert!(place.run_with(&["put", "db", "t", "all"], &value).status.success());
    assert_eq!(place.run(&["get", "db", "t", "all"]).stdout, value);
    assert!(place.refused(&["get", "db", "t", "-e", "\\z"]).contains("backslash"));
}

#[test]
fn a_scan_takes_ranges_limits_and_directions() {
    let keys: Vec<String> = sample_entries().into_keys().collect();
    for layout in LAYOUTS {
        let place = Place::loaded(layout);
        let scan = |args: &[&str]| -> Vec<String> {
            let text = place.ok(&[&["scan", "db", "packages", "--keys-only"], args].concat());
            text.lines().map(str::to_owned).collect()
        };
        let (from, to) = (keys[20].as_str(), keys[40].as_str());
        assert_eq!(scan(&["--from", from, "--to", to]), keys[20..40]);
        assert_eq!(scan(&["--from", from, "--limit", "3"]), keys[20..23]);
        let backward: Vec<String> = keys[20..40].iter().rev().cloned().collect();
        assert_eq!(scan(&["--from", from, "--to", to, "--reverse"]), backward);
        assert_eq!(scan(&["--to", to, "--reverse", "--limit", "2"]), backward[..2]);
        assert_eq!(scan(&["--limit", "0"]), [""; 0]);
        assert_eq!(scan(&["--from", to, "--to", from]), [""; 0]);
        let lib: Vec<&String> = keys.iter().filter(|key| key.starts_with("lib")).collect();
        assert!(scan(&["--prefix", "lib"]).iter().eq(lib.iter().copied()));
        let count = place.ok(&["count", "db", "packages", "--prefix", "lib", "--json"]);
        assert_eq!(json(&count)["count"], lib.len());
    }
}

#[test]
fn tables_are_listed_made_and_dropped() {
    let place = Place::new();
    for layout in LAYOUTS {
        place.ok(&["create", "db", layout, "--layout", layout, "--compression", "zstd", "--block", "4KiB"]);
    }
    let list = place.ok(&["tables", "db"]);
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["table", "layout", "compression", "options", "entries", "disk", "memory"]);
    let expected = |layout: &'static str| [layout, layout, "zstd", "block=4.00KiB", "0"];
    assert!(LAYOUTS.iter().all(|&layout| rows.iter().any(|row| row.starts_with(&expected(layout)))), "{list}");
    assert!(place.fails(&["create", "db", "lsm"]).contains("lsm"));
    place.ok(&["drop", "db", "lsm"]);
    assert!(place.fails(&["drop", "db", "lsm"]).contains("lsm"));
    assert_eq!(json(&place.ok(&["tables", "db", "--json"])).as_array().unwrap().len(), 2);
    place.verify();
}

#[test]
fn a_table_without_redo_log_is_made_shown_and_keeps_what_a_command_put() {
    let place = Place::new();
    place.ok(&["create", "db", "scratch", "--unlogged", "--merge", "add"]);
    place.ok(&["create", "db", "kept"]);
    let list = place.ok(&["tables", "db"]);
    assert!(list.lines().any(|line| line.starts_with("scratch") && line.contains(" unlogged merge=add ")), "{list}");
    let tables = json(&place.ok(&["tables", "db", "--json"]));
    assert_eq!([&tables[0]["logged"], &tables[1]["logged"]], [true, false], "{tables}");
    assert_eq!(json(&place.ok(&["stat", "db", "--json"]))["unlogged_tables"], 1);
    place.ok(&["put", "db", "scratch", "key", "12"]);
    assert_eq!(place.ok(&["get", "db", "scratch", "key"]), "12\n");
    assert_eq!(place.ok(&["log", "db"]).matches("scratch").count(), 0);
    assert!(place.fails(&["create", "db", "scratch"]).contains("without redo log"));
    place.verify();
}

#[test]
fn a_table_is_made_with_the_filters_that_it_is_asked_for() {
    let place = Place::new();
    place.ok(&["create", "db", "a", "--prefix-filter", "bytes:4"]);
    place.ok(&["create", "db", "b", "--prefix-filter", "upto:/"]);
    place.ok(&["create", "db", "c", "--prefix-filter", "upto:0x00"]);
    place.ok(&["create", "db", "d"]);
    let tables = json(&place.ok(&["tables", "db", "--json"]));
    let column =
        |name: &str| -> Vec<_> { tables.as_array().unwrap().iter().map(|table| table[name].clone()).collect() };
    assert_eq!(
        column("prefix_filter"),
        ["bytes:4".into(), "upto:/".into(), "upto:0x00".into(), serde_json::Value::Null]
    );
    for rule in ["bytes:0", "bytes:256", "bytes", "upto:", "upto:ab", "upto:0x100", "4"] {
        let refused = place.run(&["create", "db", "e", "--prefix-filter", rule]);
        let message = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && message.contains("is no rule of prefixes"), "{rule}: {message}");
    }
    let refused = place.refused(&["create", "db", "e", "--layout", "btree", "--prefix-filter", "bytes:4"]);
    assert!(refused.contains("a B-tree has no filters"), "{refused}");
}

#[test]
fn values_are_kept_apart_where_a_table_says_so() {
    let place = Place::new();
    place.ok(&["create", "db", "pictures", "--large-values", "4KiB"]);
    let picture = "picture ".repeat(1000);
    place.ok(&["put", "db", "pictures", "front", &picture]);
    place.ok(&["put", "db", "pictures", "size", "small"]);
    assert_eq!(place.ok(&["scan", "db", "pictures", "--keys-only"]), "front\nsize\n");
    place.ok(&["flush", "db"]);
    assert_eq!(place.ok(&["scan", "db", "pictures"]), format!("front\t{picture}\nsize\tsmall\n"));
    assert_eq!(place.ok(&["scan", "db", "pictures", "--keys-only", "--reverse"]), "size\nfront\n");
    assert_eq!(place.ok(&["count", "db", "pictures"]), "2\n");
    assert!(place.ok(&["shape", "db", "pictures"]).contains("1 file, apart"));
    assert_eq!(json(&place.ok(&["shape", "db", "pictures", "--json"]))["values"]["files"], 1);
    assert_eq!(json(&place.ok(&["tables", "db", "--json"]))[0]["large_value_bytes"], 4096);
    place.ok(&["put", "db", "pictures", "front", "gone"]);
    place.ok(&["compact", "db"]);
    assert_eq!(json(&place.ok(&["stat", "db", "--json"]))["values"]["files"], 0);
    let refused = place.refused(&["create", "db", "t", "--layout", "btree", "--large-values", "4KiB"]);
    assert!(refused.contains("--large-values is for the LSM layouts"), "{refused}");
}

#[test]
fn entries_go_when_their_time_is_over() {
    let place = Place::new();
    place.ok(&["create", "db", "sessions", "--time-to-live", "1s"]);
    place.ok(&["create", "db", "carts", "--time-to-live", "7d"]);
    let tables = json(&place.ok(&["tables", "db", "--json"]));
    let times: Vec<_> = tables.as_array().unwrap().iter().map(|table| &table["time_to_live_seconds"]).collect();
    assert_eq!(times, [&serde_json::json!(604_800.0), &serde_json::json!(1.0)]);
    place.ok(&["put", "db", "sessions", "alice", "1"]);
    place.ok(&["put", "db", "carts", "alice", "1"]);
    assert!((0..10_000).any(|_| place.ok(&["count", "db", "sessions"]) == "0\n"), "they go after a second");
    assert_eq!(place.ok(&["count", "db", "carts"]), "1\n");
    assert_eq!(place.ok(&["get", "db", "carts", "alice"]).trim_end(), "1");
    for time in ["7", "d", "-1s", "1.5h", "1w", "99999999999999999d"] {
        let refused = place.run(&["create", "db", "t", &format!("--time-to-live={time}")]);
        let message = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && message.contains("is not a time"), "{time}: {message}");
    }
    for (arguments, why) in [(["--layout", "btree"], "LSM layouts"), (["--merge", "add"], "merge operands")] {
        let create = [&["create", "db", "t", "--time-to-live", "1h"], &arguments[..]].concat();
        let refused = place.refused(&create);
        assert!(refused.contains("--time-to-live") && refused.contains(why), "{refused}");
    }
    assert!(place.refused(&["create", "db", "t", "--time-to-live", "0s"]).contains("between 1s and"));
}

#[test]
fn a_level_is_merged_into_the_next() {
    let place = Place::loaded("lsm");
    place.ok(&["flush", "db"]);
    place.ok(&["compact", "db", "packages", "--level", "0"]);
    let shape = json(&place.ok(&["shape", "db", "packages", "--json"]));
    let lengths = ["l0", "levels"].map(|field| shape[field].as_array().unwrap().len());
    assert_eq!(lengths, [0, 1], "{shape}");
    place.ok(&["compact", "db", "packages", "--level", "7"]);
    assert!(place.fails(&["compact", "db", "packages", "--level", "8"]).contains("level 8"));
    assert!(Place::loaded("btree").fails(&["compact", "db", "packages", "--level", "0"]).contains("B-tree"));
    place.verify();
}

/// Two runs are too few for the layout to merge: only all in one tree is what `compact` alone makes.
#[test]
fn a_table_is_compacted_until_its_layout_wants_no_more() {
    let place = Place::new();
    place.ok(&["create", "db", "t", "--layout", "lsm"]);
    for value in ["a", "b"] {
        place.ok(&["put", "db", "t", "key", value]);
        place.ok(&["flush", "db"]);
    }
    place.ok(&["put", "db", "t", "key", "c"]);
    let trees = || {
        let shape = json(&place.ok(&["shape", "db", "t", "--json"]));
        (shape["l0"].as_array().unwrap().len(), shape["memtable_entries"].as_u64().unwrap(), shape["trees"].clone())
    };
    assert_eq!(trees(), (2, 1, 3.into()));
    place.ok(&["compact", "db", "t", "--until-idle"]);
    assert_eq!(trees(), (2, 1, 3.into()));
    place.ok(&["flush", "db", "t"]);
    place.ok(&["compact", "db", "--until-idle"]);
    let (runs, _, _) = trees();
    assert!(runs == 3 || runs == 0, "{runs}");
    place.ok(&["compact", "db"]);
    assert_eq!(trees(), (0, 0, 1.into()));
}

#[test]
fn the_shape_is_a_picture_of_eighty_columns_and_json() {
    for layout in LAYOUTS {
        let place = Place::loaded(layout);
        place.ok(&["compact", "db"]);
        let picture = place.ok(&["shape", "db"]);
        assert!(picture.lines().all(|line| line.chars().count() <= 80), "{picture}");
        assert!(picture.starts_with(&format!("packages ({layout})")) && picture.contains('█'), "{picture}");
        let shape = json(&place.ok(&["shape", "db", "packages", "--json"]));
        let sum = |field: &str| -> u64 {
            shape[field].as_array().unwrap().iter().map(|run| run["entries"].as_u64().unwrap()).sum()
        };
        let btree = shape["btree"]["entries"].as_u64().unwrap_or(0);
        assert_eq!(sum("l0") + sum("levels") + btree, sample_entries().len() as u64, "{shape}");
    }
}

#[test]
fn counters_are_printed_in_groups_and_as_json() {
    let place = Place::loaded("lsm");
    let text = place.ok(&["stat", "db"]);
    for group in ["database", "log", "flush", "cache"] {
        assert!(text.lines().any(|line| line == group), "{text}");
    }
    assert!(json(&place.ok(&["stat", "db", "--json"]))["log"]["syncs"].is_u64());
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("microseconds per sync"), "{text}");
    let report = json(&place.ok(&["verify", "db", "--json"]));
    assert_eq!((report["tables"].as_u64(), report["problems"].as_array().map(Vec::len)), (Some(1), Some(0)));
}

#[test]
fn every_counter_is_a_metric_of_prometheus() {
    /// Counters in JSON; a histogram is one, those of each table are labels of their sums, and of each level labels.
    fn leaves(value: &Json) -> usize {
        if let Some(first) = value.as_array().and_then(|all| all.first()).filter(|first| first.is_object()) {
            return leaves(first);
        }
        match value.as_object() {
            Some(fields) if !fields.contains_key("counts") => {
                fields.iter().filter(|(name, _)| *name != "table_reads").map(|(_, value)| leaves(value)).sum()
            }
            // Words are no metric.
            _ => usize::from(!value.is_null() && !value.is_string()),
        }
    }
    let place = Place::loaded("lsm");
    let text = place.ok(&["stat", "db", "--prometheus"]);
    let metrics = text.lines().filter(|line| line.starts_with("# TYPE spinney_")).count();
    assert_eq!(metrics, leaves(&json(&place.ok(&["stat", "db", "--json"]))), "{text}");
    assert!(text.contains("# TYPE spinney_log_syncs_total counter\nspinney_log_syncs_total "), "{text}");
}

#[test]
fn the_log_may_have_a_directory_of_its_own_and_be_moved() {
    let place = Place::new();
    place.ok(&["create", "db", "t", "--log-dir", "fast/log"]);
    place.ok(&["put", "db", "t", "a", "1"]);
    assert!(!place.path("db/log").exists());
    assert_eq!(place.ok(&["log", "db"]).lines().count(), 2);
    std::fs::rename(place.path("fast"), place.path("faster")).unwrap();
    assert!(place.fails(&["get", "db", "t", "a"]).contains("the directory is missing"));
    assert!(place.fails(&["get", "db", "t", "a", "--log-dir", "other"]).contains("is not there but in"));
    let messages = [&[][..], &["--log-dir", "other"]].map(|dir| place.fails(&[&["get", "db", "t", "a"], dir].concat()));
    assert!(messages.iter().all(|said| said.contains("--log-dir") && !said.contains("log_dir")), "{messages:?}");
    assert_eq!(place.ok(&["get", "db", "t", "a", "--log-dir", "faster/log"]), "1");
    // That was a look, which changes nothing.
    assert!(place.fails(&["get", "db", "t", "a"]).contains("the directory is missing"));
    place.ok(&["put", "db", "t", "b", "2", "--log-dir", "faster/log"]);
    assert_eq!(place.ok(&["get", "db", "t", "a"]), "1");
    assert!(place.fails(&["create", "second", "t", "--log-dir", "faster/log"]).contains("give another"));
}

#[test]
fn the_log_shows_changes_in_order() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    place.ok(&["create", "db", "u"]);
    place.ok(&["put", "db", "t", "a", &"x".repeat(100)]);
    place.ok(&["put", "db", "u", "b", "2"]);
    place.ok(&["delete", "db", "t", "a"]);
    let log: Vec<Json> = place.ok(&["log", "db", "--json"]).lines().map(json).collect();
    let shown: Vec<_> =
        log.iter().map(|entry| (entry["table"].as_str(), entry["change"].as_str(), entry["key"].as_str())).collect();
    let expected = [("t", "put", "a"), ("u", "put", "b"), ("t", "delete", "a")];
    assert_eq!(shown, expected.map(|(table, change, key)| (Some(table), Some(change), Some(key))));
    assert!(
        log.is_sorted_by_key(|entry| entry["seqnum"].as_u64()) && log.is_sorted_by_key(|entry| entry["lsn"].as_u64())
    );
    let text = place.ok(&["log", "db", "--table", "t", "--limit", "1"]);
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("(100 bytes)"), "{text}");
    assert!(place.fails(&["log", "missing"]).contains("missing"));
    assert_eq!(place.count("u"), 1);
}

#[test]
fn a_log_that_is_followed_shows_what_others_commit_until_it_is_interrupted() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    place.ok(&["put", "db", "t", "a", "1"]);
    let mut follower = place.command(&["log", "db", "--follow", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || json(&lines.next().unwrap().unwrap())["key"].as_str().unwrap().to_owned();
    assert_eq!(next(), "a");
    for key in ["b", "c"] {
        place.ok(&["put", "db", "t", key, "2"]);
        assert_eq!(next(), key);
    }
    let process = nix::unistd::Pid::from_raw(i32::try_from(follower.id()).unwrap());
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(follower.wait().unwrap().success());
}

#[test]
fn the_log_is_written_as_a_command_is_told() {
    let text = "x".repeat(20_000);
    for compression in ["off", "lz4", "zstd"] {
        let place = Place::new();
        place.ok(&["create", "db", "t"]);
        let flags = ["--log-compression", compression];
        place.ok(&[&["put", "db", "t", "key", &text][..], &flags].concat());
        let log =
            std::fs::read_dir(place.path("db/log")).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
        let plain =
            log.filter(|bytes| bytes.windows(10_000).any(|window| window == &text.as_bytes()[..10_000])).count();
        assert_eq!(plain > 0, compression == "off", "{compression}");
        assert_eq!(place.ok(&["get", "db", "t", "key"]), text);
        place.ok(&[&["delete", "db", "t", "key"][..], &flags].concat());
        assert_eq!(place.count("t"), 0);
    }
}

#[test]
fn a_checkpoint_is_a_database_that_stays_as_it_was() {
    for layout in LAYOUTS {
        let place = Place::loaded(layout);
        place.ok(&["checkpoint", "db", "copy"]);
        place.ok(&["put", "db", "packages", "new", "value"]);
        place.ok(&["compact", "db"]);
        assert_eq!(place.ok(&["count", "copy", "packages"]).trim(), sample_entries().len().to_string());
        place.ok(&["verify", "copy"]);
        place.ok(&["put", "copy", "packages", "other", "value"]);
        assert!(place.ends(4, &["get", "db", "packages", "other"]).contains("other"));
        place.verify();
        assert!(place.fails(&["checkpoint", "db", "copy"]).contains("copy"));
    }
}

#[test]
fn a_reader_that_stops_is_no_failure() {
    let place = Place::loaded("lsm");
    let mut child = place.command(&["scan", "db", "packages"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn benchmarks_run_in_small() {
    let place = Place::new();
    let small = ["--num", "2000", "--reads", "2000", "--memory", "16MiB", "--dir", "data", "--json", "out.json"];
    let args = [&["bench", "kv", "--workloads", "fillrandom,readrandom", "--html", "out.html"], &small[..]].concat();
    let text = place.ok(&args);
    assert!(text.contains("--- absolute") && text.contains("--- relative to spinney-btree"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let report = json(&std::fs::read_to_string(place.path("out.json")).unwrap());
    let engines: Vec<_> = report["runs"].as_array().unwrap().iter().map(|run| run["engine"]["name"].clone()).collect();
    assert_eq!(engines, ["spinney-btree", "spinney-lsm", "spinney-lsm-tiered"]);
    for run in report["runs"].as_array().unwrap() {
        let steps: Vec<_> = run["steps"].as_array().unwrap().iter().map(|step| step["name"].clone()).collect();
        assert_eq!(
            (&run["error"], steps),
            (&().into(), vec!["fillrandom".into(), "settle".into(), "readrandom".into()])
        );
    }
    assert!(std::fs::read_to_string(place.path("out.html")).unwrap().contains("</svg>"));
    assert!(!place.path("data").exists());
    assert!(place.ok(&["bench", "compare", "out.json", "out.json"]).contains("spinney-lsm"));
    place.file("mine", "");
    assert!(place.fails(&["bench", "insert", "--dir", "."]).contains("not empty"));
}

#[test]
fn wrong_benchmarks_say_what_is_known() {
    let place = Place::new();
    let message = place.fails(&["bench", "kv", "--engines", "oracle"]);
    assert!(message.contains("no engine `oracle`") && message.contains("spinney-btree, spinney-lsm"), "{message}");
    let message = place.fails(&["bench", "kv", "--num", "1000000000000"]);
    assert!(message.contains("on disk") && message.contains("free"), "{message}");
    let file = place.file("text", "no JSON");
    assert!(place.fails(&["bench", "compare", &file, &file]).contains("no result of `bench`"));
}

/// A signal to the whole group, as ctrl-C sends it, once reached the worker twice: from the terminal and from its
/// parent, and the second one ended it before it could say what it had measured.
#[test]
fn an_interrupted_benchmark_says_what_it_measured_and_leaves_data_to_go_on_with_in_a_directory_that_was_given() {
    use std::os::unix::process::CommandExt as _;
    let sized = ["bench", "kv", "--workloads", "fillrandom", "--num", "4000000", "--memory", "16MiB"];
    let sized = [&sized[..], &["--engines", "spinney-lsm", "--json", "out.json"]].concat();
    for given in [true, false] {
        let place = Place::new();
        let args = if given { [&sized[..], &["--dir", "data"]].concat() } else { sized.clone() };
        // Without a directory it makes one in `target`, if that is there.
        std::fs::create_dir(place.path("target")).unwrap();
        let child = place.command(&args).process_group(0).spawn().unwrap();
        let below = |dir: PathBuf| dir.read_dir().into_iter().flatten().map(|entry| entry.unwrap().path());
        let begun = |dir: PathBuf| below(dir.join("spinney-lsm-0")).next().is_some();
        while !begun(place.path("data")) && !below(place.path("target")).any(begun) {
            std::thread::yield_now();
        }
        let group = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGINT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "spinney: interrupted\n");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains("PARTIAL"), "{stdout}");
        assert_eq!(stdout.contains("the same command with --resume goes on with what data has"), given, "{stdout}");
        let report = json(&std::fs::read_to_string(place.path("out.json")).unwrap());
        let run = &report["runs"][0];
        assert_eq!((&report["partial"], &run["partial"]), (&true.into(), &true.into()), "{run}");
        assert!(run["error"].is_null(), "{run}");
        assert_eq!((begun(place.path("data")), below(place.path("target")).count()), (given, 0));
    }
}

/// A worker that was killed once took all that it had measured with it.
#[test]
fn a_worker_that_is_killed_leaves_the_steps_that_had_ended() {
    let place = Place::new();
    let args = ["bench", "kv", "--workloads", "fillseq,fillrandom,readrandom", "--num", "1000", "--duration", "600"];
    let args = [&args[..], &["--memory", "16MiB", "--dir", "data", "--engines", "spinney-lsm", "--json", "out.json"]];
    let child = place.command(&args.concat()).spawn().unwrap();
    // The second fill's database is made when the first fill has ended, and the reads after it take longer than anyone
    // waits.
    while !place.path("data/spinney-lsm-0/kv-1").exists() {
        std::thread::yield_now();
    }
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    let worker = nix::unistd::Pid::from_raw(children.trim().parse().unwrap());
    nix::sys::signal::kill(worker, nix::sys::signal::Signal::SIGKILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("FAILED: spinney-lsm: the worker ended") && stdout.contains("SIGKILL"), "{stdout}");
    // With a mark behind it when other processes were busy.
    assert!(stdout.lines().any(|line| line.starts_with("fillseq")), "{stdout}");
    let report = json(&std::fs::read_to_string(place.path("out.json")).unwrap());
    let run = &report["runs"][0];
    assert_eq!((&run["partial"], &run["steps"][0]["name"]), (&true.into(), &"fillseq".into()), "{run}");
    assert_eq!(run["engine"]["durability"], "buffered");
    assert!(stdout.contains("the same command with --resume goes on with what data has"), "{stdout}");
}
