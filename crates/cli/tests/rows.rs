//! `load` of rows in all their forms: comma- and tab-separated, with nested and compound keys, and with wrong rows.

use crate::support::{Place, sample, sample_entries};
use serde_json::Value as Json;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_row_of_csv_becomes_a_json_object() {
    let place = Place::new();
    let text = "id,name,\"a \"\"note\"\"\"\r\n7,\"Doe, \"\"J\"\"\",\"two\nlines\"\r\n\r\n8,é,\n";
    let args = |file| ["load", "db", "t", "--csv", file, "--key", "id"];
    place.file("plain.csv", text);
    place.file("marked", format!("\u{feff}{text}"));
    place.file("packed.zst", zstd::encode_all(text.as_bytes(), 1).unwrap());
    let gzip =
        std::process::Command::new("gzip").args(["-k", "plain.csv"]).current_dir(place.path("")).status().unwrap();
    assert!(gzip.success());
    for file in ["plain.csv", "marked", "packed.zst", "plain.csv.gz"] {
        let said = place.ok(&args(file));
        assert!(said.starts_with("loaded 2 rows"), "{said}");
        let expected = r#"{"id":"7","name":"Doe, \"J\"","a \"note\"":"two\nlines"}"#;
        assert_eq!(place.ok(&["get", "db", "t", "7"]), expected, "{file}");
        assert_eq!(place.ok(&["get", "db", "t", "8"]), r#"{"id":"8","name":"é","a \"note\"":""}"#);
        place.ok(&["drop", "db", "t"]);
    }
    assert!(place.run_with(&args("-"), text.as_bytes()).status.success());
    assert_eq!(place.count("t"), 2);
    place.file("empty", "");
    place.file("header", "id,name\n");
    for file in ["empty", "header"] {
        assert!(place.ok(&args(file)).contains("the input has none"), "{file}");
    }
}

#[test]
fn columns_values_and_tabs() {
    let place = Place::new();
    place.file("t.tsv", "\"a\tb\"\nc:\\new\td\n");
    place.ok(&["load", "db", "t", "--tsv", "t.tsv", "--columns", "k,v", "--key", "k", "--value", "v"]);
    assert_eq!(place.ok(&["scan", "db", "t", "--escape"]), "\"a\tb\"\nc:\\\\new\td\n");
    // What a scan with escapes prints, comes back.
    place.ok(&["put", "db", "t", "--escape", "\\x00\\xff\\t", "\\n\\xfe"]);
    let scan = place.file("scan", place.ok(&["scan", "db", "t", "--escape"]));
    place.ok(&["load", "db", "u", "--tsv", &scan, "--columns", "k,v", "--key", "k", "--value", "v", "--escape"]);
    assert_eq!(place.bytes(&["scan", "db", "u"]), place.bytes(&["scan", "db", "t"]));
    // Counters, as `dump --format csv` writes them.
    place.ok(&["create", "db", "c", "--merge", "add"]);
    place.ok(&["put", "db", "c", "n", "-5"]);
    place.ok(&["dump", "db", "c", "--format", "csv", "-o", "c.csv"]);
    place.ok(&["create", "db", "d", "--merge", "add"]);
    place.ok(&["load", "db", "d", "--csv", "c.csv", "--key", "key", "--value", "value", "--sorted"]);
    assert_eq!(place.ok(&["get", "db", "d", "n"]), "-5\n");
    for (args, words) in [
        (&["--csv", "c.csv", "--key", "kee"][..], "there is no column `kee`, only `key`, `value`"),
        (&["--csv", "c.csv", "--key", "key", "--value", "v"], "there is no column `v`"),
        (&["--tsv", "t.tsv", "--columns", "k,v,k", "--key", "k"], "column `k` is there twice"),
        (
            &["--tsv", "t.tsv", "--columns", "k,v,w", "--key", "k"],
            "line 1: the row has 2 fields, and there are 3 columns",
        ),
        (&["--jsonl", "missing", "--key", "k"], "cannot read missing"),
    ] {
        let message = place.fails(&[&["load", "new", "t"], args].concat());
        assert!(message.contains(words), "{message}");
        assert!(!place.path("new").exists());
    }
    for args in [
        &["--csv", "c.csv", "--tsv", "t.tsv", "--key", "k"][..],
        &["--key", "k"],
        &["--csv", "c.csv"],
        &["--csv", "c.csv", "--key", ""],
        &["--csv", "c.csv", "--key", "a,,b"],
        &["--csv", "c.csv", "--key", "k", "--escape"],
        &["--csv", "c.csv", "--key", "k", "--bad-rows", "bad"],
        &["--jsonl", "c.csv", "--key", "k", "--columns", "k"],
    ] {
        place.refused(&[&["load", "new", "t"], args].concat());
    }
}

#[test]
fn keys_are_nested_and_of_several_fields() {
    let place = Place::new();
    let file = place.file(
        "rows",
        "{\"c\": {\"city\": \"Oslo\", \"at\": {\"no\": 4}}, \"id\": \"a/b\"}\n{\"c\": {\"city\": \"Rome\", \"at\": {\"no\": 5}}, \"id\": 1}\n",
    );
    let load = |more: &[&str]| place.ok(&[&["load", "db", "t", "--jsonl", &file], more].concat());
    let keys = || {
        let keys = place.ok(&["scan", "db", "t", "--keys-only", "--escape"]);
        place.ok(&["drop", "db", "t"]);
        keys
    };
    load(&["--key", "c.at.no"]);
    assert_eq!(keys(), "4\n5\n");
    load(&["--key", "c.city,id", "--sorted"]);
    assert_eq!(keys(), "Oslo/a/b\nRome/1\n");
    load(&["--key", "c.city,c.at.no,id", "--key-separator", "\\x00"]);
    assert_eq!(keys(), "Oslo\\x004\\x00a/b\nRome\\x005\\x001\n");
    load(&["--key", "id", "--value", "c.at"]);
    assert_eq!(place.ok(&["scan", "db", "t"]), "1\t{\"no\": 5}\na/b\t{\"no\": 4}\n");
    let message = place.fails(&["load", "db", "t", "--jsonl", &file, "--key", "id,c.city"]);
    assert!(message.contains("line 1: the field `id` contains the separator `/`"), "{message}");
    let message = place.fails(&["load", "db", "t", "--jsonl", &file, "--key", "c.city.name"]);
    assert!(message.contains("line 1: the field `c.city` is not an object"), "{message}");
    assert!(
        place.refused(&["load", "db", "t", "--jsonl", &file, "--key", "id", "--key-separator", "\\q"]).contains("\\q")
    );
}

/// Rows of which every seventh is wrong.
fn bad_rows() -> String {
    let row = |id: usize| if id.is_multiple_of(7) { format!("{{\"id\": {id}") } else { format!("{{\"id\": {id}}}") };
    (1..=100).map(|id| row(id) + "\n").collect()
}

#[test]
fn wrong_rows_are_left_out_and_told() {
    let place = Place::new();
    let file = place.file("rows", bad_rows());
    let load = ["load", "db", "t", "--jsonl", &file, "--key", "id", "--batch", "10"];
    let message = place.fails(&load);
    assert!(message.starts_with("rows: line 7: not valid JSON"), "{message}");
    let args = [&load[..], &["--skip-bad", "--bad-rows", "bad.jsonl"]].concat();
    let output = place.run(&args);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "spinney: 14 rows of rows were left out\n");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("loaded 86 rows") && said.contains("left out 14 rows:\n  line 7: not valid JSON"), "{said}");
    assert!(said.contains("  line 70: ") && !said.contains("line 77") && said.ends_with("  and 4 more\n"), "{said}");
    assert_eq!(place.count("t"), 86);
    let bad = std::fs::read_to_string(place.path("bad.jsonl")).unwrap();
    let bad: Vec<Json> = bad.lines().map(json).collect();
    assert_eq!(bad.len(), 14);
    assert_eq!((&bad[13]["line"], &bad[13]["row"]), (&Json::from(98), &Json::from("{\"id\": 98")));
    assert!(bad[13]["error"].as_str().unwrap().starts_with("not valid JSON"));
    let output = place.run(&[&args[..], &["--json"]].concat());
    let summary = json(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((&summary["rows"], &summary["left_out"]), (&Json::from(86), &Json::from(14)));
    assert_eq!(summary["first_left_out"][0]["line"], 7);
    // A file without wrong rows is a success.
    place.ok(&["load", "db", "u", "--jsonl", &sample("packages.jsonl"), "--key", "package", "--skip-bad"]);
    assert_eq!(place.count("u"), sample_entries().len());
    place.verify();
}

#[test]
fn rows_are_wrong_in_many_ways() {
    let place = Place::new();
    let text = "id,n\n1,10\n2\n3,x\n4,40\n\"5,50\n6,60\n7,\"70\"x\n,80\n9,90\n";
    let file = place.file("rows.csv", text);
    place.ok(&["create", "db", "c", "--merge", "add"]);
    let args = ["load", "db", "c", "--csv", &file, "--key", "id", "--value", "n", "--skip-bad"];
    let output = place.run(&args);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let told: Vec<&str> = said.lines().skip(2).collect();
    let expected = [
        "  line 3: the row has 1 field, and there are 2 columns",
        "  line 4: `x` is not a whole number of 64 bits, which a table with --merge add takes",
        "  line 6: field 1: there is more behind its quotes",
        "  line 8: field 2: there is more behind its quotes",
        "  line 9: the field `id` is empty, and a key is not",
    ];
    assert_eq!(told, expected);
    assert_eq!(place.ok(&["scan", "db", "c"]), "1\t10\n4\t40\n6\t60\n9\t90\n");
    // Sorted, a key that does not ascend is wrong too.
    let file =
        place.file("sorted", "{\"id\": \"a\"}\n{\"id\": \"c\"}\n{\"id\": \"b\"}\n{\"id\": \"c\"}\n{\"id\": \"d\"}\n");
    let args = ["load", "db", "s", "--jsonl", &file, "--key", "id", "--sorted", "--skip-bad"];
    let output = place.run(&args);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(place.ok(&["scan", "db", "s", "--keys-only"]), "a\nc\nd\n");
    // A row that no commit can hold.
    let large = place
        .file("large", format!("{{\"id\": 1}}\n{{\"id\": 2, \"x\": \"{}\"}}\n{{\"id\": 3}}\n", "x".repeat(300_000)));
    let args = ["load", "db", "l", "--jsonl", &large, "--key", "id", "--memory", "1MiB", "--skip-bad"];
    assert_eq!(place.run(&args).status.code(), Some(3));
    assert_eq!(place.ok(&["scan", "db", "l", "--keys-only"]), "1\n3\n");
    place.verify();
}

#[test]
fn a_load_of_nothing_but_wrong_rows_fails_and_leaves_nothing() {
    let place = Place::new();
    let file = place.file("rows", "{\"id\": 1}\n{\"id\": 2}\n");
    for more in [&[][..], &["--sorted"]] {
        let load = ["load", "db", "t", "--jsonl", &file, "--key", "nr", "--skip-bad", "--bad-rows", "bad"];
        let message = place.fails(&[&load[..], more].concat());
        assert!(message.contains("no row is right: line 1: the object has no field `nr`; 0 rows"), "{message}");
        assert!(!place.path("db").exists() && !place.path("bad").exists());
    }
    let load = ["load", "db", "t", "--jsonl", &file, "--key", "id", "--skip-bad", "--bad-rows", "missing/bad"];
    assert!(place.fails(&load).contains("cannot write missing/bad"));
    assert!(!place.path("db").exists());
    // What cannot be read is not left out.
    let packed = zstd::encode_all(bad_rows().repeat(1000).as_bytes(), 1).unwrap();
    let cut = place.file("cut", &packed[..packed.len() / 2]);
    let message = place.fails(&["load", "db", "t", "--jsonl", &cut, "--key", "id", "--skip-bad"]);
    assert!(message.contains("the compressed data is cut off"), "{message}");
}
