//! Pipelines of as many stages as there may be, of every kind, within each other and over views, on a thread with
//! 256 KiB of stack: whatever the stages are, they are answered or refused.

use std::fmt::Write;

use spinney_testkit::Rng;

use super::children::Suite;
use super::levels::{code, json, on_a_small_stack, service};

/// The most stages of a pipeline.
const STAGES_MAX: usize = 1000;

/// A stage of each kind that may stand anywhere, such that it has documents to give for most others.
const STAGES: &[&str] = &[
    r#"{"$match":{"_id":{"$gte":0}}}"#,
    r#"{"$match":{"$expr":{"$ne":["$a",["$b"]]}}}"#,
    r#"{"$project":{"_id":1,"a":1}}"#,
    r#"{"$addFields":{"b":"$a"}}"#,
    r#"{"$set":{"a":{"$ifNull":["$a",1]}}}"#,
    r#"{"$unset":"b"}"#,
    r#"{"$limit":3}"#,
    r#"{"$skip":0}"#,
    r#"{"$count":"a"}"#,
    r#"{"$replaceRoot":{"newRoot":{"_id":1,"a":"$a"}}}"#,
    r#"{"$replaceWith":{"$mergeObjects":["$$ROOT",{"a":1}]}}"#,
    r#"{"$redact":"$$DESCEND"}"#,
    r#"{"$sample":{"size":3}}"#,
    r#"{"$facet":{"a":[{"$limit":1},{"$project":{"a":1}}]}}"#,
    r#"{"$sort":{"_id":-1}}"#,
    r#"{"$unwind":{"path":"$a","preserveNullAndEmptyArrays":true}}"#,
    r#"{"$group":{"_id":"$_id","a":{"$first":"$a"}}}"#,
    r#"{"$sortByCount":"$_id"}"#,
    r#"{"$bucket":{"groupBy":"$_id","boundaries":[0,1,2],"default":3,"output":{"a":{"$max":"$a"}}}}"#,
    r#"{"$bucketAuto":{"groupBy":"$_id","buckets":2}}"#,
    r#"{"$setWindowFields":{"sortBy":{"_id":1},"output":{"b":{"$sum":1,"window":{"documents":[-1,0]}}}}}"#,
    r#"{"$fill":{"output":{"a":{"value":1}}}}"#,
    r#"{"$densify":{"field":"n","range":{"step":1,"bounds":"full"}}}"#,
    r#"{"$lookup":{"from":"c","localField":"_id","foreignField":"_id","as":"b"}}"#,
    r#"{"$lookup":{"from":"c","let":{"x":"$_id"},"pipeline":[{"$limit":1}],"as":"b"}}"#,
    r#"{"$graphLookup":{"from":"c","startWith":"$_id","connectFromField":"_id","connectToField":"_id","as":"b"}}"#,
    r#"{"$unionWith":{"coll":"c","pipeline":[{"$limit":1}]}}"#,
];

/// Stages around a pipeline `P`.
const AROUND: &[&str] = &[
    r#"{"$unionWith":{"coll":"c","pipeline":[P]}}"#,
    r#"{"$unionWith":{"coll":"v2","pipeline":[P]}}"#,
    r#"{"$lookup":{"from":"c","pipeline":[P],"as":"a"}}"#,
    r#"{"$lookup":{"from":"v2","let":{"x":"$_id"},"pipeline":[P],"as":"a"}}"#,
    r#"{"$facet":{"a":[P]}}"#,
];

/// Stages, all of a kind or of many, with commas between them.
fn stages(rng: &mut Rng, count: usize) -> Vec<&'static str> {
    let one = rng.chance(50).then(|| *rng.pick(STAGES));
    (0..count).map(|_| one.unwrap_or_else(|| *rng.pick(STAGES))).collect()
}

/// The text of a case: a command.
fn case(number: u64) -> String {
    let rng = &mut Rng::new(number);
    let count = *rng.pick(&[STAGES_MAX, STAGES_MAX, STAGES_MAX / 2, 333, 30]);
    let mut text = stages(rng, count).join(",");
    for _ in 0..*rng.pick(&[0, 0, 0, 1, 3, 20, 21]) {
        let around = rng.pick(AROUND).replace('P', &text);
        let outer = *rng.pick(&[STAGES_MAX / 2, 30, 0]);
        let mut outer = stages(rng, outer);
        // Those behind it pull from what is in it.
        outer.insert(if rng.chance(70) { 0 } else { outer.len() }, &around);
        text = outer.join(",");
    }
    if rng.chance(10) {
        write!(text, r#",{{"$out":"o"}}"#).expect("a string takes all");
    }
    let over = *rng.pick(&["c", "c", "v1", "v2"]);
    let aggregate = format!(r#"{{"aggregate":"{over}","pipeline":[{text}],"cursor":{{}}}}"#);
    match rng.in_range(0..10) {
        0 => format!(r#"{{"explain":{aggregate},"verbosity":"executionStats"}}"#),
        1 => format!(r#"{{"create":"w{number}","viewOn":"{over}","pipeline":[{text}]}}"#),
        2 => format!(r#"{{"update":"c","updates":[{{"q":{{}},"u":[{text}]}}]}}"#),
        _ => aggregate,
    }
}

/// What runs a case: a command on a collection, a view on it and a view on that.
fn runner() -> impl Fn(&str) + Send + Sync {
    let service = service();
    let documents = r#"[{"_id":1,"a":[1,2],"n":1},{"_id":2,"a":"b","n":4},{"_id":3,"a":null}]"#;
    assert_eq!(code(&service, &json(&format!(r#"{{"insert":"c","documents":{documents}}}"#))), 0);
    for (view, on) in [("v1", "c"), ("v2", "v1")] {
        let stages = [r#"{"$set":{"c":1}}"#; 300].join(",");
        let create = format!(r#"{{"create":"{view}","viewOn":"{on}","pipeline":[{stages}]}}"#);
        assert_eq!(code(&service, &json(&create)), 0);
    }
    move |text| {
        code(&service, &json(text));
    }
}

/// Six hundred `$sortByCount` overflowed the stack of a connection: each stage pulls from the one before it.
#[test]
fn pipelines_of_all_lengths_run_on_a_small_stack() {
    let suite = Suite { module: "long", name: "pipelines_of_all_lengths_run_on_a_small_stack", part: 10 };
    suite.run(case, runner);
}

/// The length is bounded as it is given, as it is when stages stand for others, and with the stages of views.
#[test]
fn a_pipeline_of_one_stage_too_many_is_refused() {
    on_a_small_stack(|| {
        let service = service();
        assert_eq!(code(&service, &json(r#"{"insert":"c","documents":[{"_id":1}]}"#)), 0);
        let run = |over: &str, stage: &str, count: usize| {
            let stages = vec![stage; count].join(",");
            code(&service, &json(&format!(r#"{{"aggregate":"{over}","pipeline":[{stages}],"cursor":{{}}}}"#)))
        };
        for stage in
            [r#"{"$set":{"a":1}}"#, r#"{"$sort":{"a":1}}"#, r#"{"$bucketAuto":{"groupBy":"$count","buckets":2}}"#]
        {
            assert_eq!(run("c", stage, STAGES_MAX), 0, "{stage}");
            assert_eq!(run("c", stage, STAGES_MAX + 1), 7_749_501, "{stage}");
        }
        // Each stands for a `$group` and a `$sort`.
        let twice = r#"{"$sortByCount":"$_id"}"#;
        assert_eq!(run("c", twice, STAGES_MAX / 2), 0);
        assert_eq!(run("c", twice, STAGES_MAX / 2 + 1), 5_054_701);
        let stages = vec![r#"{"$set":{"a":1}}"#; STAGES_MAX - 1].join(",");
        let create = format!(r#"{{"create":"v","viewOn":"c","pipeline":[{stages}]}}"#);
        assert_eq!(code(&service, &json(&create)), 0);
        assert_eq!(run("v", r#"{"$unset":"b"}"#, 1), 0);
        assert_eq!(run("v", r#"{"$unset":"b"}"#, 2), 5_054_701);
    });
}
