//! Pipelines whose expressions build nested and doubling values, each in a process with 256 KiB of stack and 256 MiB
//! of memory: whatever a query asks for, it is answered or refused within both.

use std::fmt::Write;

use spinney_document::aggregate::{self, Run};
use spinney_document::bson::{Checks, Document, DocumentBuf};
use spinney_document::expr::Context;
use spinney_testkit::Rng;

use super::children::Suite;

/// The deepest nesting of what a pipeline answers.
const LEVELS_MAX: usize = 200;

/// How often a stage is repeated.
const REPEATS: &[usize] = &[0, 1, 1, 2, 20];

/// How many values a `$range` has.
const COUNTS: &[&str] = &["3", "40", "190", "1000", "12000", "100000"];

/// What values grow from.
const STARTS: &[&str] = &["[]", "{}", "\"aab\"", "[1,2,3]", "\"$$ROOT\""];

/// Expressions that build a value of others, in the place of each `V`; `N` is a count.
const BUILDERS: &[&str] = &[
    "[V]",
    "[V,V]",
    r#"{"a":V}"#,
    r#"{"a":{"b":[V]}}"#,
    r#"{"$concatArrays":[V,V]}"#,
    r#"{"$setUnion":[V,V]}"#,
    r#"{"$setUnion":[V,[V]]}"#,
    r#"{"$setDifference":[V,[V]]}"#,
    r#"{"$concat":[V,V]}"#,
    r#"{"$zip":{"inputs":[V,V],"useLongestLength":true}}"#,
    r#"{"$map":{"input":{"$range":[0,N]},"in":V}}"#,
    r#"{"$map":{"input":{"$range":[0,N]},"in":{"$range":[0,N]}}}"#,
    r#"{"$map":{"input":V,"in":[V]}}"#,
    r#"{"$filter":{"input":V,"cond":[V]}}"#,
    r#"{"$replaceAll":{"input":V,"find":"a","replacement":V}}"#,
    r#"{"$replaceAll":{"input":V,"find":"","replacement":V}}"#,
    r#"{"$split":[V,"a"]}"#,
    r#"{"$regexFindAll":{"input":V,"regex":"a"}}"#,
    r#"{"$objectToArray":V}"#,
    r#"{"$arrayToObject":[["k",V]]}"#,
    r#"{"$mergeObjects":[V,{"b":V}]}"#,
    r#"{"$setField":{"field":"a","input":V,"value":[V]}}"#,
    r#"{"$sortArray":{"input":V,"sortBy":1}}"#,
    r#"{"$slice":[{"$reverseArray":[V]},100000]}"#,
    r#"{"$let":{"vars":{"x":V},"in":["$$x","$$x"]}}"#,
    r#"{"$ifNull":[V,[V]]}"#,
];

/// Expressions that look at the value `V`.
const READERS: &[&str] = &[
    r#"{"$eq":[V,V]}"#,
    r#"{"$in":[V,[V]]}"#,
    r#"{"$size":V}"#,
    r#"{"$cmp":[[V],[V]]}"#,
    r#"{"$setEquals":[[V],[V]]}"#,
    r#"{"$indexOfArray":[[V],V]}"#,
    r#"{"$toHashedIndexKey":V}"#,
    r#"{"$strLenBytes":V}"#,
    r#"{"$max":[V,V]}"#,
    r#"{"$bsonSize":V}"#,
    r#"{"$toString":V}"#,
    "V",
];

/// Stages that look at the field `r`, or put what they read into more.
const STAGES: &[&str] = &[
    r#"{"$sort":{"r":1}}"#,
    r#"{"$group":{"_id":"$r"}}"#,
    r#"{"$group":{"_id":null,"r":{"$addToSet":"$r"}}}"#,
    r#"{"$group":{"_id":null,"r":{"$push":"$$ROOT"}}}"#,
    r#"{"$group":{"_id":null,"r":{"$max":"$r"},"s":{"$mergeObjects":{"a":"$r"}}}}"#,
    r#"{"$group":{"_id":null,"r":{"$concatArrays":["$r"]},"s":{"$setUnion":["$r"]}}}"#,
    r#"{"$sortByCount":"$r"}"#,
    r#"{"$match":{"r":{"$gt":[[]]}}}"#,
    r#"{"$match":{"r":{"$elemMatch":{"a":1}}}}"#,
    r#"{"$match":{"$expr":{"$lte":["$r",["$r"]]}}}"#,
    r#"{"$unwind":"$r"}"#,
    r#"{"$replaceWith":{"r":["$$ROOT"]}}"#,
    r#"{"$bucketAuto":{"groupBy":"$r","buckets":2}}"#,
    r#"{"$set":{"PATH":"$$ROOT"}}"#,
    r#"{"$setWindowFields":{"partitionBy":"$r","sortBy":{"_id":1},"output":{"PATH":{"$push":"$r"}}}}"#,
    r#"{"$facet":{"r":[{"$set":{"q":"$$ROOT"}}]}}"#,
    r#"{"$lookup":{"pipeline":[{"$documents":[{"a":1}]}],"as":"PATH"}}"#,
    r#"{"$redact":{"$cond":[{"$eq":["$r",1]},"$$PRUNE","$$DESCEND"]}}"#,
];

/// Puts what `make` gives into the place of each `V` of a pattern, and a count into that of each `N`.
fn filled(pattern: &str, rng: &mut Rng, make: &mut dyn FnMut(&mut Rng) -> String) -> String {
    let mut text = String::new();
    for part in pattern.split_inclusive(['V', 'N']) {
        match part.as_bytes() {
            [.., b'V'] if !part.ends_with("NV") => {
                text.push_str(&part[..part.len() - 1]);
                text.push_str(&make(rng));
            }
            // Of names such as `$ifNull` the letter is part.
            [.., before, b'N'] if !before.is_ascii_alphabetic() => {
                text.push_str(&part[..part.len() - 1]);
                let count: &str = rng.pick::<&str>(COUNTS);
                text.push_str(count);
            }
            _ => text.push_str(part),
        }
    }
    text
}

/// An expression that builds more of a value.
fn grown(rng: &mut Rng, leaf: &str, levels: usize) -> String {
    let builder = *rng.pick(BUILDERS);
    filled(builder, rng, &mut |rng| {
        if levels > 0 && rng.chance(25) { grown(rng, leaf, levels - 1) } else { leaf.to_owned() }
    })
}

/// An expression that builds a value in steps.
fn value(rng: &mut Rng) -> String {
    let (count, start) = (*rng.pick(COUNTS), *rng.pick(STARTS));
    if rng.chance(85) {
        let step = grown(rng, "\"$$value\"", 2);
        format!(r#"{{"$reduce":{{"input":{{"$range":[0,{count}]}},"initialValue":{start},"in":{step}}}}}"#)
    } else {
        grown(rng, start, 3)
    }
}

/// The text of a case: `{p: PIPELINE}`.
fn case(number: u64) -> String {
    let rng = &mut Rng::new(number);
    let reader = if rng.chance(50) { "V" } else { *rng.pick(READERS) };
    let value = value(rng);
    let mut text = format!(r#"{{"p":[{{"$project":{{"r":{}}}}}"#, filled(reader, rng, &mut |_| value.clone()));
    let stage = *rng.pick(STAGES);
    let path = vec!["r"; *rng.pick(&[2, 60, 150])].join(".");
    for _ in 0..*rng.pick(REPEATS) {
        write!(text, ",{}", stage.replace("PATH", &path)).expect("a string takes all");
    }
    text.push_str("]}");
    text
}

/// Reads and runs the pipeline of a case; nothing may be nested too deeply in what it answers.
fn run(text: &str) {
    let spec = DocumentBuf::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let stages = spec.view().get("p").and_then(|stages| stages.as_array()).expect("it has a pipeline");
    let context = Context::new(1_700_000_000_123);
    let Ok(pipeline) = aggregate::parse(stages, &context) else { return };
    let documents = [r#"{"_id":1,"a":"aab"}"#, r#"{"_id":2,"a":[1,2]}"#];
    let rows = documents.map(|text| Ok(DocumentBuf::from_json(text).expect("a document")));
    let Ok(rows) = pipeline.run(Box::new(rows.into_iter()), &Run::new(context)) else { return };
    for row in rows.take(10) {
        let Ok(row) = row else { break };
        let checks = Checks { utf8: false, bytes_max: usize::MAX, depth_max: LEVELS_MAX };
        Document::parse_with(row.as_bytes(), checks).expect("what a pipeline answers is a document");
    }
}

#[test]
fn values_that_grow_take_neither_the_stack_nor_all_memory() {
    let suite = Suite { module: "growing", name: "values_that_grow_take_neither_the_stack_nor_all_memory", part: 4 };
    suite.run(case, || |text: &str| run(text));
}
