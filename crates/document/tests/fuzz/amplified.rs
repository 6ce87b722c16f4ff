//! Operations that multiply what they read, each with a small command on a small document: what they build is counted
//! where it is built, so they are answered or refused within 256 MiB of memory.

use std::fmt::Write;

use spinney_document::bson::{DocumentBuf, DocumentBuilder};

use super::children::Suite;
use super::levels::{code, json, service};

/// How many values the arrays have.
const COUNT: i32 = 2000;

/// Operations with the code of their error; `L` is a text of 100 KB, `RANGE` an array of 10,000 numbers.
const CASES: &[(i64, &str)] = &[
    // Each document that `$unwind` makes has a copy of the other fields, here a megabyte.
    (0, r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$count":"n"}],"cursor":{}}"#),
    (
        292,
        r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$group":{"_id":null,"r":{"$push":"$s"}}}],"cursor":{},"allowDiskUse":false}"#,
    ),
    (10_334, r#"{"aggregate":"c","pipeline":[{"$facet":{"r":[{"$unwind":"$a"}]}}],"cursor":{}}"#),
    (
        4568,
        r#"{"aggregate":"c","pipeline":[{"$lookup":{"from":"c","pipeline":[{"$unwind":"$a"}],"as":"r"}}],"cursor":{}}"#,
    ),
    (
        4568,
        r#"{"aggregate":"c","pipeline":[{"$lookup":{"from":"c","let":{"x":1},"pipeline":[{"$unwind":"$a"}],"as":"r"}}],"cursor":{}}"#,
    ),
    // The windows of all rows together. One value that is that of all rows is there once.
    (
        0,
        r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$project":{"a":1}},{"$setWindowFields":{"sortBy":{"a":1},"output":{"r":{"$push":"$$ROOT"}}}}],"cursor":{}}"#,
    ),
    (
        292,
        r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$project":{"a":1}},{"$setWindowFields":{"sortBy":{"a":1},"output":{"r":{"$shift":{"output":RANGE,"by":1}}}}}],"cursor":{}}"#,
    ),
    (
        292,
        r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$project":{"a":1}},{"$setWindowFields":{"sortBy":{"a":1},"output":{"r":{"$locf":RANGE}}}}],"cursor":{}}"#,
    ),
    // One group that grows beyond what a stage may keep.
    (
        292,
        r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$project":{"a":1}},{"$bucketAuto":{"groupBy":"$a","buckets":1,"output":{"r":{"$push":RANGE}}}}],"cursor":{}}"#,
    ),
    (
        292,
        r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$project":{"a":1}},{"$group":{"_id":null,"r":{"$firstN":{"input":RANGE,"n":100000}}}}],"cursor":{},"allowDiskUse":false}"#,
    ),
    (
        292,
        r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$project":{"a":1}},{"$group":{"_id":null,"r":{"$maxN":{"input":RANGE,"n":100000}}}}],"cursor":{},"allowDiskUse":false}"#,
    ),
    (
        292,
        r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$project":{"a":1}},{"$group":{"_id":null,"r":{"$topN":{"output":RANGE,"sortBy":{"a":1},"n":100000}}}}],"cursor":{},"allowDiskUse":false}"#,
    ),
    (
        292,
        r#"{"aggregate":"c","pipeline":[{"$unwind":"$a"},{"$project":{"a":1}},{"$group":{"_id":null,"r":{"$concatArrays":RANGE}}}],"cursor":{},"allowDiskUse":false}"#,
    ),
    // A document that doubles with each stage.
    (10_334, r#"{"aggregate":"c","pipeline":[TWICE],"cursor":{}}"#),
    // A value for each element of an array.
    (17_419, r#"{"update":"c","updates":[{"q":{},"u":{"$set":{"a.$[]":"L"}}}]}"#),
    (17_419, r#"{"update":"c","updates":[{"q":{},"u":{"$push":{"b.$[].c":"L"}}}]}"#),
    (10_334, r#"{"update":"c","updates":[{"q":{},"u":[{"$set":{"b.c":"$s"}}]}]}"#),
    (10_334, r#"{"find":"c","projection":{"b.c":"$s","_id":1}}"#),
    (
        17_419,
        r#"{"update":"c","updates":[{"q":{},"u":{"$set":{"p.1400000":1,"q.1400000":1,"r.1400000":1,"t.1400000":1}}}]}"#,
    ),
    // A key for each element of an array, each with the other field.
    (201, r#"{"createIndexes":"c","indexes":[{"key":{"a":1,"k":1},"name":"k"}]}"#),
    // Patterns of a few bytes that compile to many.
    (146, r#"{"find":"c","filter":{"$or":[REGEXES]}}"#),
];

fn case(number: u64) -> String {
    let at = usize::try_from(number).unwrap_or_default() % CASES.len();
    let (expected, command) = CASES[at];
    format!(r#"{{"expected":{expected},"command":{command}}}"#)
}

/// The document that the cases multiply.
fn document() -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append("_id", 1).append("s", &*"s".repeat(1 << 20)).append("k", &*"k".repeat(60_000));
    builder.open_array("a");
    (0..COUNT).for_each(|number| {
        builder.push(number);
    });
    builder.close().open_array("b");
    (0..COUNT).for_each(|_| {
        builder.push_document().open_array("c").close().close();
    });
    builder.close();
    for name in ["p", "q", "r", "t"] {
        builder.open_array(name).close();
    }
    builder.finish()
}

fn runner() -> impl Fn(&str) + Send + Sync {
    let service = service();
    let mut insert = DocumentBuilder::new();
    insert.append("insert", "c").open_array("documents").push(&document()).close();
    assert_eq!(code(&service, &insert.finish()), 0);
    let mut regexes = String::new();
    for number in 0..COUNT {
        let comma = if number > 0 { "," } else { "" };
        write!(regexes, r#"{comma}{{"x":{{"$regex":"x{number}[a-z]{{900}}"}}}}"#).expect("a string takes all");
    }
    let twice = [r#"{"$set":{"x":["$$ROOT","$$ROOT"]}}"#; 30].join(",");
    move |text| {
        let text = text.replace("RANGE", r#"{"$range":[0,10000]}"#).replace("REGEXES", &regexes);
        let text = text.replace("TWICE", &twice).replace("\"L\"", &format!("\"{}\"", "l".repeat(100_000)));
        let case = json(&text);
        let command = case.view().get("command").and_then(|command| command.as_document()).expect("a command");
        let expected = case.view().get("expected").and_then(|code| code.as_exact_i64());
        assert_eq!(Some(code(&service, &command.into())), expected, "the code of the error is an invalid one");
    }
}

/// An `$unwind` of an array of a million values beside a megabyte, an update of each of its elements and others built
/// what they multiplied before anything was counted.
#[test]
fn operations_that_multiply_what_they_read_end_within_their_limits() {
    let name = "operations_that_multiply_what_they_read_end_within_their_limits";
    let suite = Suite { module: "amplified", name, part: 1000 };
    suite.run_each(CASES.len(), case, runner);
}
