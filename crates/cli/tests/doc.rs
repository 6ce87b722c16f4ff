//! `spinney doc`: documents in and out, queries, plans and indexes.

use super::support::Place;

fn place() -> Place {
    let place = Place::new();
    let lines = (0..50).map(|id| format!(r#"{{"_id":{id},"a":{},"name":"n{}","tags":["x",{id}]}}"#, id % 5, id % 3));
    let lines = place.file("in.jsonl", lines.collect::<Vec<_>>().join("\n"));
    place.ok(&["doc", "import", "db", "app.things", &lines]);
    place
}

#[test]
fn documents_come_out_as_they_went_in() {
    let place = place();
    for (name, format) in [("out.jsonl", "jsonl"), ("out.json", "json"), ("out.bson", "bson"), ("out.json.zst", "json")]
    {
        place.ok(&["doc", "export", "db", "app.things", name]);
        let again = format!("app.{format}{}", name.len());
        place.ok(&["doc", "import", "db", &again, name]);
        let all = |namespace: &str| place.ok(&["doc", "find", "db", namespace, "--canonical"]);
        assert_eq!(all("app.things"), all(&again), "{name}");
    }
    let csv = place.ok(&["doc", "export", "db", "app.things", "-", "--format", "csv", "--fields", "_id,name,tags.1"]);
    assert!(csv.starts_with("_id,name,tags.1\n0,n0,0\n1,n1,1\n"), "{csv}");
}

#[test]
fn csv_has_numbers_and_empty_fields_are_missing() {
    let place = Place::new();
    let csv = place.file("in.csv", "_id,price,zip,note\n1,2.5,0815,\n2,3,x,\"a, \"\"b\"\"\"\n");
    place.ok(&["doc", "import", "db", "app.csv", &csv]);
    let all = place.ok(&["doc", "find", "db", "app.csv"]);
    assert_eq!(
        all,
        "{\"_id\":1,\"price\":2.5,\"zip\":\"0815\"}\n{\"_id\":2,\"price\":3,\"zip\":\"x\",\"note\":\"a, \\\"b\\\"\"}\n"
    );
}

#[test]
fn documents_that_are_there_are_left_out_or_replaced() {
    let place = place();
    let more = place.file("more.json", "[{\"_id\": 1, \"a\": 100},\n {\"_id\": 1000}]");
    let refused = place.run(&["doc", "import", "db", "app.things", &more]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("1 document was left out; the first: E11000"));
    place.ok(&["doc", "import", "db", "app.things", &more, "--replace"]);
    assert_eq!(place.ok(&["doc", "find", "db", "app.things", r#"{"a":100}"#]), "{\"_id\":1,\"a\":100}\n");
}

#[test]
fn queries_use_indexes_and_tell_it() {
    let place = place();
    place.ok(&["doc", "indexes", "db", "app.things", "--create", r#"{"a":1,"name":-1}"#]);
    let filter = r#"{"a":3}"#;
    let plan = place.ok(&["doc", "explain", "db", "app.things", filter, "--sort", r#"{"name":-1}"#, "--limit", "4"]);
    assert!(plan.contains("IXSCAN") && plan.contains("indexName a_1_name_-1") && !plan.contains("SORT"), "{plan}");
    assert!(plan.contains("4 returned, 4 entries of indexes and 4 documents looked at"), "{plan}");
    let scan = place.ok(&["doc", "explain", "db", "app.things", r#"{"tags":7}"#]);
    assert!(scan.contains("COLLSCAN") && scan.contains("1 returned, 0 entries"), "{scan}");
    let groups = place.ok(&[
        "doc",
        "aggregate",
        "db",
        "app.things",
        r#"[{"$group":{"_id":"$a","n":{"$sum":1}}},{"$sort":{"_id":1}},{"$limit":2}]"#,
    ]);
    assert_eq!(groups, "{\"_id\":0,\"n\":10}\n{\"_id\":1,\"n\":10}\n");
    let list = place.ok(&["doc", "indexes", "db", "app.things"]);
    assert!(list.contains("_id_") && list.contains("a_1_name_-1"), "{list}");
    place.ok(&["doc", "indexes", "db", "app.things", "--drop", "a_1_name_-1"]);
    assert!(!place.ok(&["doc", "indexes", "db", "app.things"]).contains("a_1_name_-1"));
    assert!(place.ok(&["doc", "stats", "db"]).contains("app.things"));
}

#[test]
fn strings_are_compared_as_a_collation_says() {
    let place = place();
    let find = |collation: &str| {
        let sort =
            [r#"{"name":"N1","a":{"$lt":2}}"#, "--sort", r#"{"name":1,"_id":1}"#, "--projection", r#"{"_id":1}"#];
        place.ok(&[&["doc", "find", "db", "app.things", "--collation", collation, "--limit", "2"], &sort[..]].concat())
    };
    assert_eq!(find(r#"{"locale":"en","strength":2}"#), "{\"_id\":1}\n{\"_id\":10}\n");
    assert_eq!(find(r#"{"locale":"simple"}"#), "");
    let refused = place.run(&["doc", "find", "db", "app.things", "--collation", r#"{"locale":"nowhere"}"#]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Field 'locale' is invalid"));
}

#[test]
fn bad_input_is_told_in_the_words_of_the_caller() {
    let place = place();
    let wrong = place.file("wrong.jsonl", "{\"_id\": 500}\n{\"a\": }\n");
    let cut = place.file("cut.bson", [200, 0, 0, 0, 1]);
    for (arguments, code, what) in [
        (vec!["doc", "find", "db", "app.things", "{a"], 2, "FILTER"),
        (vec!["doc", "find", "db", "app.things", r#"{"$foo":1}"#], 1, "unknown top level operator: $foo"),
        (vec!["doc", "find", "db", "app.none"], 1, "no collection app.none"),
        (vec!["doc", "find", "db", "app"], 2, "as in shop.orders"),
        (vec!["doc", "find", "db", "app.things", "--hint", "x"], 1, "hint"),
        (vec!["doc", "import", "db", "app.things", "in.txt"], 1, "cannot read in.txt"),
        (vec!["doc", "import", "db", "app.things", &wrong], 1, "line 2"),
        (vec!["doc", "import", "db", "app.things", &cut], 1, "cut off"),
        (vec!["doc", "export", "db", "app.things", "x.csv"], 2, "--fields"),
        (vec!["doc", "aggregate", "db", "app.things", "{}"], 2, "PIPELINE"),
    ] {
        let done = place.run(&arguments);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(what), "{arguments:?}: {said}");
    }
    // What was read before a line that is wrong is kept.
    assert_eq!(place.ok(&["doc", "find", "db", "app.things", r#"{"_id":500}"#]), "{\"_id\":500}\n");
}

#[test]
fn an_import_that_ends_early_tells_how_many_documents_are_in() {
    let place = Place::new();
    for (number, (name, text, told)) in [
        ("a.jsonl", "{\"a\": 1}\n{\"a\": }\n", "line 2: "),
        ("b.json", "[{\"a\": 1},\n", "line 1: the array has no end: the file may be cut off; 1 document was imported"),
        ("c.csv", "a,b\n1,2\n3\n", "line 3: the row has 1 field, and there are 2 columns; 1 document was imported"),
        ("d.json", "{\"a\": 1} ]", "line 1: expected a JSON object; 1 document was imported"),
    ]
    .into_iter()
    .enumerate()
    {
        let namespace = format!("app.c{number}");
        let message = place.fails(&["doc", "import", "db", &namespace, &place.file(name, text)]);
        assert!(message.contains(told) && message.ends_with("; 1 document was imported"), "{message}");
        assert_eq!(place.ok(&["doc", "find", "db", &namespace]).lines().count(), 1, "{name}");
    }
    // Where nothing is imported, nothing is made.
    for (name, text) in [("e.json", "5"), ("f.csv", "a,a\n1,2\n"), ("g.csv", "a,a.b\n1,2\n"), ("h.csv", "a..b\n1\n")] {
        let message = place.fails(&["doc", "import", "new", "app.c", &place.file(name, text)]);
        assert!(name == "e.json" || message.contains("column `a"), "{message}");
        assert!(!place.path("new").exists(), "{name}");
    }
}

#[test]
fn columns_with_dots_are_documents_and_no_text_is_changed_to_another_number() {
    let place = Place::new();
    let csv = "_id,a.x,b,a.y.z\n1,2,+49,3\n2,,12345678901234567890,\n3,1e999,1.5,-0\n";
    place.ok(&["doc", "import", "db", "app.csv", &place.file("in.csv", csv)]);
    let all = place.ok(&["doc", "find", "db", "app.csv"]);
    let expected = [
        r#"{"_id":1,"a":{"x":2,"y":{"z":3}},"b":"+49"}"#,
        r#"{"_id":2,"b":"12345678901234567890"}"#,
        r#"{"_id":3,"a":{"x":"1e999","y":{"z":0}},"b":1.5}"#,
    ];
    assert_eq!(all.lines().collect::<Vec<_>>(), expected);
    let out = ["doc", "export", "db", "app.csv", "-", "--format", "csv", "--fields", "_id,a.x,b,a.y.z"];
    assert_eq!(place.ok(&out), csv.replace("-0", "0"));
}

#[test]
fn what_is_in_memory_only_is_told_beside_what_is_on_disk() {
    let place = place();
    let stats = place.ok(&["doc", "stats", "db", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert!(stats[0]["disk"] == 0 && stats[0]["memory"].as_u64().unwrap() > 0, "{stats}");
    for list in [place.ok(&["doc", "stats", "db"]), place.ok(&["doc", "indexes", "db", "app.things"])] {
        assert!(list.lines().next().unwrap().ends_with(" memory") && list.contains(" KiB"), "{list}");
    }
}

/// A copy of a database under `testdata/faults`.
fn fault(name: &str) -> Place {
    let place = Place::new();
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/faults").join(name);
    std::fs::create_dir(place.path("db")).unwrap();
    for file in std::fs::read_dir(kept).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), place.path("db").join(file.file_name())).unwrap();
    }
    place
}

#[test]
fn documents_are_compared_with_their_indexes_when_asked() {
    // `verify` called a salvaged copy sound whose indexes had entries of documents that were gone, and said nothing of
    // what it had not compared.
    let place = fault("disagreeing");
    let verified = place.ok(&["verify", "db"]);
    assert!(verified.contains("not compared with their indexes: spinney verify --documents db does"), "{verified}");
    let compared = place.run(&["verify", "db", "--documents"]);
    let text = String::from_utf8_lossy(&compared.stdout).into_owned();
    assert_eq!(compared.status.code(), Some(1), "{text}");
    assert!(text.contains("shop.p: index k_1 has an entry of a document that does not exist: "), "{text}");
    assert!(String::from_utf8_lossy(&compared.stderr).contains("reIndex"), "{compared:?}");
    let json = place.run(&["verify", "db", "--documents", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["documents"][0]["damaged_indexes"], serde_json::json!(["k_1", "code_1"]));
    let salvaged = place.ok(&["salvage", "db", "out"]);
    assert!(salvaged.contains("k_1, code_1") && salvaged.contains("spinney verify --documents out"), "{salvaged}");
    place.ok(&["verify", "out", "--documents"]);
}

#[test]
fn faults_of_earlier_versions_are_named() {
    let two = fault("two-ids").run(&["verify", "db", "--documents"]);
    let text = String::from_utf8_lossy(&two.stdout).into_owned();
    assert!(two.status.code() == Some(1) && text.contains("_id 1 has 2 fields _id"), "{text}");
    let zero = fault("zero-expiry").ok(&["verify", "db", "--documents"]);
    assert!(zero.contains("warning: index d_1: expireAfterSeconds is 0"), "{zero}");
    fault("users").ok(&["verify", "db", "--documents"]);
}
