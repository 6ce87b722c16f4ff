//! What is done in pieces gives what is done at once: cursors that are cut after any number of documents, and by bytes;
//! lists of statements of which a part was done before the whole is sent again.
//!
//! It would not see what a cut does beside changes by others, nor plans that differ between the whole and its pieces.

use std::fmt::Write as _;

use spinney::env::sim::SimEnv;
use spinney_document::bson::{DocumentBuf, DocumentBuilder};
use spinney_document::command::Service;

use super::service::{batch, json, more, ok, open, run, sized};

/// The most bytes that the documents of a batch have, as in MongoDB; one document always fits.
const BATCH_BYTES: usize = 16 << 20;

fn service() -> Service {
    open(&SimEnv::new(1), 256 << 20)
}

/// All documents of a command whose cursor is cut into batches of these sizes, and how large the batches were.
fn read(service: &Service, command: &str, sizes: &mut dyn Iterator<Item = usize>) -> (Vec<String>, Vec<usize>) {
    let size = sizes.next().unwrap();
    let begin = sized(command, size);
    let (mut id, mut documents) = batch(&json(service, &begin));
    assert!(documents.len() <= size, "{begin}");
    let collection = |reply: &DocumentBuf| {
        let cursor = reply.view().get("cursor").unwrap();
        let space = cursor.as_document().unwrap().get("ns").unwrap().as_str().unwrap().to_owned();
        space.split_once('.').unwrap().1.to_owned()
    };
    let (mut lengths, opened) = (vec![documents.len()], id);
    // The name of the collection is the same for each cursor of a command.
    let name = if id == 0 { String::new() } else { collection(&json(service, &begin)) };
    while id != 0 {
        let size = sizes.next().unwrap();
        let (next, batch) = batch(&more(service, id, &name, size));
        assert!(next == id || next == 0, "{command}");
        assert!(size == 0 || batch.len() <= size, "{command}: {} of {size}", batch.len());
        assert!(next == 0 || !batch.is_empty(), "{command}: nothing, and not the end");
        lengths.push(batch.len());
        documents.extend(batch);
        id = next;
    }
    if opened != 0 {
        let gone = more(service, opened, &name, 1).view().to_json();
        assert!(gone.contains(r#""code":43,"#), "{command}: it has ended\n{gone}");
    }
    (documents, lengths)
}

/// Documents with equal values, arrays, missing fields, and strings that a collation takes for equal.
fn fill(service: &Service) {
    for name in ["c", "d"] {
        let mut insert = format!(r#"{{"insert":"{name}","documents":["#);
        for number in 0..60 {
            let comma = if number == 0 { "" } else { "," };
            let (a, b, next) = (number % 7, number * 37 % 60, (number + 1) % 60);
            let text = ["x", "X", "y", "é", "e"][number % 5];
            write!(insert, r#"{comma}{{"_id":{number},"a":{a},"b":{b},"s":"{text}","next":{next}"#).unwrap();
            if number % 3 > 0 {
                write!(insert, r#","t":[{},{},{}]"#, number % 4, number % 5, number % 4).unwrap();
            }
            insert.push('}');
        }
        ok(service, &(insert + "]}"));
    }
    ok(
        service,
        r#"{"createIndexes":"c","indexes":[{"key":{"a":1,"b":-1},"name":"ab"},{"key":{"t":1},"name":"t"},{"key":{"b":1},"name":"b"},
            {"key":{"s":1},"name":"s","collation":{"locale":"en","strength":1}},{"key":{"a":"hashed"},"name":"h"},
            {"key":{"w.$**":1},"name":"w"},{"key":{"a":1},"name":"p","partialFilterExpression":{"b":{"$gt":20}}}]}"#,
    );
    ok(service, r#"{"create":"v","viewOn":"c","pipeline":[{"$match":{"a":{"$lt":5}}},{"$project":{"t":0}}]}"#);
    ok(service, r#"{"create":"k","capped":true,"size":100000,"max":20}"#);
    for number in 0..30 {
        ok(service, &format!(r#"{{"insert":"k","documents":[{{"_id":{}}}]}}"#, number * 7 % 30));
    }
}

/// Commands with cursors, each over plans and stages of another kind.
const CURSORS: &[&str] = &[
    r#"{"find":"c"}"#,
    r#"{"find":"c","filter":{"a":3}}"#,
    r#"{"find":"c","filter":{"a":{"$in":[1,3,5]}},"sort":{"a":1,"b":-1}}"#,
    r#"{"find":"c","filter":{"a":{"$in":[1,3,5]}},"sort":{"b":1}}"#,
    r#"{"find":"c","filter":{"t":{"$gte":1}}}"#,
    r#"{"find":"c","filter":{"t":{"$gte":1}},"sort":{"t":-1}}"#,
    r#"{"find":"c","filter":{"t":{"$in":[1,2,3]}},"hint":"t"}"#,
    r#"{"find":"c","filter":{"$or":[{"a":1},{"b":{"$lt":9}},{"t":2}]}}"#,
    r#"{"find":"c","filter":{"$or":[{"a":1},{"b":{"$lt":9}}]},"sort":{"b":1}}"#,
    r#"{"find":"c","filter":{"s":"X"},"collation":{"locale":"en","strength":1}}"#,
    r#"{"find":"c","sort":{"s":1,"_id":-1},"collation":{"locale":"en","strength":1}}"#,
    r#"{"find":"c","sort":{"b":-1},"skip":7,"limit":31}"#,
    r#"{"find":"c","skip":58}"#,
    r#"{"find":"c","limit":1}"#,
    r#"{"find":"c","skip":60}"#,
    r#"{"find":"c","sort":{"s":1,"_id":1},"limit":12}"#,
    r#"{"find":"c","filter":{"a":{"$gt":1}},"projection":{"a":1,"b":1,"_id":0},"hint":"ab"}"#,
    r#"{"find":"c","hint":{"$natural":-1}}"#,
    r#"{"find":"c","min":{"b":10},"max":{"b":40},"hint":{"b":1}}"#,
    r#"{"find":"c","filter":{"a":4},"hint":"h"}"#,
    r#"{"find":"v","sort":{"b":1}}"#,
    r#"{"find":"k"}"#,
    r#"{"find":"k","hint":{"$natural":-1}}"#,
    r#"{"aggregate":"c","pipeline":[],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$match":{"a":{"$gt":2}}},{"$sort":{"b":1}},{"$skip":3},{"$limit":20}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$group":{"_id":"$a","n":{"$sum":1},"l":{"$push":"$b"}}},{"$sort":{"_id":1}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$unwind":"$t"},{"$sort":{"t":1,"_id":1}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$unwind":{"path":"$t","preserveNullAndEmptyArrays":true,"includeArrayIndex":"i"}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$lookup":{"from":"d","localField":"a","foreignField":"b","as":"l"}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$lookup":{"from":"c","localField":"b","foreignField":"b","as":"l"}},{"$unwind":"$l"}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$unionWith":{"coll":"d","pipeline":[{"$match":{"a":1}}]}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$limit":9},{"$graphLookup":{"from":"d","startWith":"$next","connectFromField":"next","connectToField":"_id","maxDepth":2,"as":"g"}},{"$project":{"n":{"$size":"$g"}}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$setWindowFields":{"partitionBy":"$a","sortBy":{"b":1},"output":{"r":{"$sum":"$b","window":{"documents":[-1,1]}}}}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$facet":{"x":[{"$count":"n"}],"y":[{"$limit":2}]}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$bucket":{"groupBy":"$b","boundaries":[0,10,30,60]}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$sortByCount":"$a"},{"$match":{"_id":{"$gt":3}}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$densify":{"field":"b","range":{"step":7,"bounds":"full"}}},{"$project":{"b":1}}],"cursor":{}}"#,
    r#"{"aggregate":"c","pipeline":[{"$sort":{"a":1,"_id":1}},{"$fill":{"output":{"t":{"method":"locf"}},"sortBy":{"_id":1}}}],"cursor":{}}"#,
    r#"{"aggregate":1,"pipeline":[{"$documents":[{"x":1},{"x":2},{"x":3},{"x":4}]}],"cursor":{}}"#,
    r#"{"aggregate":"v","pipeline":[{"$match":{"b":{"$gt":5}}}],"cursor":{}}"#,
    r#"{"listCollections":1,"cursor":{}}"#,
    r#"{"listIndexes":"c","cursor":{}}"#,
];

#[test]
fn a_cursor_that_is_cut_anywhere_gives_what_it_gives_at_once() {
    let service = service();
    fill(&service);
    for command in CURSORS {
        let (whole, lengths) = read(&service, command, &mut std::iter::repeat(100_000));
        assert_eq!(lengths.len(), 1, "{command}: all fit into the first batch");
        for size in 1..=whole.len() + 1 {
            let (cut, _) = read(&service, command, &mut std::iter::repeat(size));
            assert_eq!(cut, whole, "{command} in batches of {size}");
        }
        // An empty first batch opens the cursor alone.
        let (cut, lengths) = read(&service, command, &mut [0, 1, 2, 3, 5, 8, 13].into_iter().cycle());
        assert_eq!((cut, lengths[0]), (whole, 0), "{command} in growing batches");
    }
}

/// The first batch has as many documents as fit, and each of the others; none is lost where a batch is full.
#[test]
fn a_cursor_that_is_cut_by_bytes_loses_nothing() {
    let service = service();
    for (number, over) in [(0, 0_usize), (1, 1), (2, 40), (3, 0), (4, 17), (5, 0), (6, 3), (7, 0)] {
        // Two of them have all bytes of a batch, a little less or a little more.
        let text = "x".repeat(BATCH_BYTES / 2 - 32 + over);
        let mut insert = DocumentBuilder::new();
        insert.append("insert", "big").open_array("documents").push_document();
        insert.append("_id", number).append("text", &*text).close().close();
        let reply = run(&service, &insert.finish());
        assert_eq!(reply.view().get("n").unwrap().as_exact_i64(), Some(1), "{reply:?}");
    }
    for command in [
        r#"{"find":"big"}"#,
        r#"{"find":"big","sort":{"_id":-1}}"#,
        r#"{"aggregate":"big","pipeline":[],"cursor":{}}"#,
        r#"{"aggregate":"big","pipeline":[{"$sort":{"_id":-1}}],"allowDiskUse":true,"cursor":{}}"#,
    ] {
        let (documents, lengths) = read(&service, command, &mut std::iter::repeat(100));
        assert_eq!(documents.len(), 8, "{command}: {lengths:?}");
        assert!(lengths.len() >= 4 && lengths.iter().all(|length| (1..=2).contains(length)), "{lengths:?}");
        let mut numbers: Vec<&str> = documents.iter().map(|document| &document[..8]).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), 8, "{command}: each once");
    }
}

/// Statements, some of which fail.
const INSERTS: [&str; 6] =
    [r#"{"_id":1}"#, r#"{"_id":2}"#, r#"{"_id":1,"again":true}"#, r#"{"_id":3}"#, r#"{"_id":2}"#, r#"{"_id":4}"#];
const UPDATES: [&str; 7] = [
    r#"{"q":{"_id":0},"u":{"$inc":{"n":1}}}"#,
    r#"{"q":{"_id":7},"u":{"$inc":{"n":1}},"upsert":true}"#,
    r#"{"q":{"_id":0},"u":{"$push":{"n":1}}}"#,
    r#"{"q":{"_id":7},"u":[{"$set":{"n":{"$add":["$n",10]}}}]}"#,
    r#"{"q":{"x":5},"u":{"$setOnInsert":{"_id":8},"$inc":{"n":1}},"upsert":true}"#,
    r#"{"q":{"_id":0},"u":{"n":50}}"#,
    r#"{"q":{"_id":0},"u":{"$mul":{"n":2}}}"#,
];
const DELETES: [&str; 4] = [
    r#"{"q":{"_id":0},"limit":1}"#,
    r#"{"q":{"_id":0},"limit":1}"#,
    r#"{"q":{"g":1},"limit":1}"#,
    r#"{"q":{"g":1},"limit":1}"#,
];
const OPERATIONS: [&str; 7] = [
    r#"{"insert":0,"document":{"_id":1}}"#,
    r#"{"update":0,"filter":{"_id":0},"updateMods":{"$inc":{"n":1}}}"#,
    r#"{"insert":0,"document":{"_id":1}}"#,
    r#"{"update":0,"filter":{"_id":9},"updateMods":{"$inc":{"n":1}},"upsert":true}"#,
    r#"{"delete":0,"filter":{"g":1}}"#,
    r#"{"delete":0,"filter":{"g":1}}"#,
    r#"{"insert":0,"document":{"_id":2}}"#,
];

/// A command of the first `count` statements, in a session under one number.
fn statements(name: &str, list: &[&str], count: usize, ordered: bool) -> String {
    let (field, space) = match name {
        "insert" => ("documents", ""),
        "update" => ("updates", ""),
        "delete" => ("deletes", ""),
        _ => ("ops", r#""nsInfo":[{"ns":"app.c"}],"#),
    };
    let target = if name == "bulkWrite" { "1" } else { r#""c""# };
    let session = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}},"txnNumber":{"$numberLong":"1"}"#;
    let list = list[..count].join(",");
    format!(r#"{{"{name}":{target},"{field}":[{list}],{space}"ordered":{ordered},{session}}}"#)
}

/// What a reply says of the statements, but for which of them were done before.
fn said(reply: &DocumentBuf) -> String {
    let reply = reply.view().to_json();
    let (front, back) = reply.split_once(r#""retriedStmtIds":["#).unwrap_or((&reply, ""));
    format!("{front}{}", back.split_once("],").map_or("", |(_, back)| back))
}

#[test]
fn statements_of_which_some_were_done_before_give_what_they_give_at_once() {
    let prepared = || {
        let service = service();
        ok(
            &service,
            r#"{"insert":"c","documents":[{"_id":0,"n":1},{"_id":20,"g":1},{"_id":21,"g":1},{"_id":22,"g":1}]}"#,
        );
        service
    };
    let documents = |service: &Service| batch(&json(service, r#"{"find":"c","sort":{"_id":1}}"#)).1;
    let lists: [(&str, &[&str]); 4] =
        [("insert", &INSERTS), ("update", &UPDATES), ("delete", &DELETES), ("bulkWrite", &OPERATIONS)];
    for (name, list) in lists {
        for ordered in [true, false] {
            let whole = prepared();
            let all = statements(name, list, list.len(), ordered);
            let reply = json(&whole, &all);
            let expected = (said(&reply), documents(&whole));
            for first in 1..=list.len() {
                let cut = prepared();
                json(&cut, &statements(name, list, first, ordered));
                let reply = json(&cut, &all);
                assert_eq!((said(&reply), documents(&cut)), expected, "{name}, ordered {ordered}, {first} before");
                // And once more, when all is done.
                let reply = json(&cut, &all);
                assert_eq!((said(&reply), documents(&cut)), expected, "{name}, ordered {ordered}, {first}, again");
            }
        }
    }
}
