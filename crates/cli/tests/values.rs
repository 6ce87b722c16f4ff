//! Bytes that go in and come out, and counters.

use crate::support::{LAYOUTS, Place, sample};

#[test]
fn what_put_takes_from_a_pipe_get_gives_to_a_pipe() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    let all: Vec<u8> = (0..=255).cycle().take(5000).collect();
    for value in [&all[..], b"", b"\n", b"no end", b"an end\n", b"\0"] {
        assert!(place.run_with(&["put", "db", "t", "key"], value).status.success());
        assert_eq!(place.bytes(&["get", "db", "t", "key"]), value);
        // As text it is a line.
        let escaped = place.ok(&["get", "db", "t", "key", "--escape"]);
        assert!(escaped.ends_with('\n') && escaped.lines().count() == 1, "{escaped:?}");
    }
}

#[test]
fn a_number_is_put_into_a_counter_as_it_is_merged() {
    for layout in LAYOUTS {
        let place = Place::new();
        place.ok(&["create", "db", "c", "--merge", "add", "--layout", layout]);
        place.ok(&["put", "db", "c", "n", "5"]);
        assert_eq!(place.ok(&["get", "db", "c", "n"]), "5\n");
        place.ok(&["merge", "db", "c", "n", "1"]);
        assert_eq!(place.ok(&["get", "db", "c", "n"]), "6\n");
        place.ok(&["put", "db", "c", "n", "-7"]);
        place.ok(&["merge", "db", "c", "n", "-1"]);
        assert_eq!(place.ok(&["get", "db", "c", "n"]), "-8\n");
        // What get prints, put takes from a pipe; and bytes where they are asked for.
        assert!(place.run_with(&["put", "db", "c", "m"], b"12\n").status.success());
        place.ok(&["put", "db", "c", "--escape", "b", "\\x03\\x00\\x00\\x00\\x00\\x00\\x00\\x00"]);
        assert_eq!(place.ok(&["scan", "db", "c"]), "b\t3\nm\t12\nn\t-8\n");
        for (value, why) in [("hello", "not a whole number"), ("", "not a whole number"), ("1.5", "not a whole number")]
        {
            assert!(place.fails(&["put", "db", "c", "n", value]).contains(why), "{value}");
        }
        let message = place.fails(&["put", "db", "c", "--escape", "n", "5"]);
        assert!(message.contains("table 'c'") && message.contains("8 bytes"), "{message}");
        assert_eq!(place.ok(&["get", "db", "c", "n"]), "-8\n", "nothing of that was taken");
        place.verify();
    }
}

#[test]
fn counters_are_loaded_from_a_field() {
    let place = Place::new();
    place.ok(&["create", "db", "c", "--merge", "add"]);
    let rows = "{\"page\": \"a\", \"hits\": 3}\n{\"page\": \"b\", \"hits\": \"-4\"}\n";
    let file = place.file("rows", rows);
    let load = ["load", "db", "c", "--jsonl", &file, "--key", "page"];
    let message = place.fails(&load);
    assert!(message.contains("holds counters") && message.contains("--value"), "{message}");
    for more in [&["--value", "hits"][..], &["--value", "hits", "--sorted"]] {
        place.ok(&[&load[..], more].concat());
        assert_eq!(place.ok(&["scan", "db", "c"]), "a\t3\nb\t-4\n");
    }
    let bad = place.file("bad", "{\"page\": \"c\", \"hits\": \"many\"}\n");
    let message = place.fails(&["load", "db", "c", "--jsonl", &bad, "--key", "page", "--value", "hits"]);
    assert!(message.contains("line 1: `many` is not a whole number"), "{message}");
    let message = place.fails(&["load", "db", "c", "--jsonl", &bad, "--key", "page", "--value", "none"]);
    assert!(message.contains("line 1: the object has no field `none`"), "{message}");
    // In other tables a field is its text.
    place.ok(&["load", "db", "t", "--jsonl", &file, "--key", "page", "--value", "hits"]);
    assert_eq!(place.ok(&["scan", "db", "t"]), "a\t3\nb\t-4\n");
}

#[test]
fn the_least_memory_loads_and_a_row_that_is_too_large_is_named() {
    let place = Place::new();
    let row = |id: usize, bytes: usize| format!("{{\"id\": \"{id:06}\", \"text\": \"{}\"}}\n", "x".repeat(bytes));
    let rows: String = (0..4000).map(|id| row(id, 700)).collect();
    let file = place.file("rows", &rows);
    let load = |file, more: &[&str]| {
        let args = ["load", "db", "t", "--jsonl", file, "--key", "id", "--memory", "1MiB"];
        [&args[..], more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    fn borrowed(args: &[String]) -> Vec<&str> {
        args.iter().map(String::as_str).collect()
    }
    for more in [&[][..], &["--batch", "100000"], &["--sorted"]] {
        place.ok(&borrowed(&load(&file, more)));
        assert_eq!(place.count("t"), 4000);
    }
    let large = place.file("large", row(1, 10) + &row(2, 300_000));
    let message = place.fails(&borrowed(&load(&large, &[])));
    assert!(message.contains("line 2") && message.contains("--memory"), "{message}");
    place.verify();
}

#[test]
fn input_is_read_or_named_whatever_it_is() {
    let place = Place::new();
    let text = std::fs::read_to_string(sample("packages.jsonl")).unwrap();
    place.file("plain", &text);
    let gzip = std::process::Command::new("gzip").args(["-k", "plain"]).current_dir(place.path("")).status().unwrap();
    assert!(gzip.success());
    place.file("marked", format!("\u{feff}{text}"));
    let expected = Place::loaded("lsm").entries("packages");
    for name in ["plain.gz", "marked"] {
        place.ok(&["load", "db", name, "--jsonl", name, "--key", "package"]);
        assert_eq!(place.entries(name), expected, "{name}");
    }
    let utf16: Vec<u8> = "\u{feff}{\"id\": 1}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.file("wide", utf16);
    place.file("packed", b"\xfd7zXZ\0...");
    for (name, words) in [("wide", ["UTF-16", "iconv"]), ("packed", ["xz", "xz -dc"])] {
        let message = place.fails(&["load", "db", "u", "--jsonl", name, "--key", "id"]);
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
    assert!(place.fails(&["count", "db", "u"]).contains("no table"));
}
