//! An index never changes what is joined, updated or deleted: `$lookup`, `$graphLookup`, updates and deletes give with
//! each kind of index what they give without; and a cursor whose index changes between its batches gives all, or says
//! that its plan was ended.
//!
//! It would not see what is wrong with and without indexes alike: that is for the golden scripts.

use spinney::env::sim::SimEnv;
use spinney_document::command::Service;

use super::service::{batch, json, more, ok, open, sized};

const MEMORY_BYTES: u64 = 64 << 20;

/// Values that are joined; nothing is a field that is missing.
const VALUES: [&str; 36] = [
    "",
    "null",
    "0",
    "1",
    "1.0",
    r#"{"$numberLong":"1"}"#,
    r#"{"$numberDecimal":"1.00"}"#,
    "1.5",
    r#"{"$numberDouble":"NaN"}"#,
    r#"{"$numberDecimal":"NaN"}"#,
    r#"{"$numberDouble":"-0.0"}"#,
    r#""""#,
    r#""a""#,
    r#""A""#,
    r#""á""#,
    r#""b""#,
    "true",
    "false",
    "[]",
    "[null]",
    "[1]",
    "[1,2]",
    "[[1]]",
    "[[]]",
    r#"["a",1,null]"#,
    r#"[{"x":1},{"x":2}]"#,
    "{}",
    r#"{"x":1}"#,
    r#"{"x":null}"#,
    r#"{"x":[1,2]}"#,
    r#"{"$date":{"$numberLong":"5"}}"#,
    r#"{"$oid":"0102030405060708090a0b0c"}"#,
    r#"{"$minKey":1}"#,
    r#"{"$maxKey":1}"#,
    r#"{"$undefined":true}"#,
    r#"{"$regularExpression":{"pattern":"a","options":""}}"#,
];

/// Indexes of which each collection has one, or none.
const INDEXES: [&str; 17] = [
    "",
    r#"{"key":{"b":1},"name":"i"}"#,
    r#"{"key":{"b":-1},"name":"i"}"#,
    r#"{"key":{"b":1},"name":"i","sparse":true}"#,
    r#"{"key":{"b":1},"name":"i","hidden":true}"#,
    r#"{"key":{"n":"hashed"},"name":"i"}"#,
    r#"{"key":{"$**":1},"name":"i"}"#,
    r#"{"key":{"b.$**":1},"name":"i"}"#,
    r#"{"key":{"b.x":1},"name":"i"}"#,
    r#"{"key":{"b.x":1,"n":-1},"name":"i","sparse":true}"#,
    r#"{"key":{"b":1,"n":1},"name":"i"}"#,
    r#"{"key":{"n":1,"b":1},"name":"i"}"#,
    r#"{"key":{"b":1},"name":"i","collation":{"locale":"en","strength":1}}"#,
    r#"{"key":{"b":1},"name":"i","partialFilterExpression":{"b":{"$exists":true}}}"#,
    r#"{"key":{"b":1},"name":"i","partialFilterExpression":{"n":{"$gt":10}}}"#,
    r#"{"key":{"b":1},"name":"i","partialFilterExpression":{"b":{"$gte":1}}}"#,
    r#"{"key":{"n":1,"b":1},"name":"i","partialFilterExpression":{"b":{"$type":"string"}}}"#,
];

const JOINS: [&str; 16] = [
    r#"{"$lookup":{"from":"d","localField":"a","foreignField":"b","as":"l"}}"#,
    r#"{"$lookup":{"from":"d","localField":"a.x","foreignField":"b.x","as":"l"}}"#,
    r#"{"$lookup":{"from":"d","localField":"a","foreignField":"b.x","as":"l"}}"#,
    r#"{"$lookup":{"from":"d","localField":"a","foreignField":"b","as":"l","pipeline":[{"$match":{"n":{"$lt":20}}}]}}"#,
    r#"{"$lookup":{"from":"d","localField":"a","foreignField":"b","as":"l","pipeline":[{"$match":{"b":{"$ne":null}}}]}}"#,
    r#"{"$lookup":{"from":"d","let":{"a":"$a"},"as":"l","pipeline":[{"$match":{"$expr":{"$eq":["$b","$$a"]}}}]}}"#,
    r#"{"$lookup":{"from":"d","let":{"a":"$a"},"as":"l","pipeline":[{"$match":{"$expr":{"$gte":["$b","$$a"]}}}]}}"#,
    r#"{"$lookup":{"from":"d","let":{"a":"$a"},"as":"l","pipeline":[{"$match":{"$expr":{"$lt":["$b","$$a"]},"n":{"$gt":3}}}]}}"#,
    r#"{"$lookup":{"from":"d","let":{"a":"$a.x"},"as":"l","pipeline":[{"$match":{"$expr":{"$eq":["$b.x","$$a"]}}}]}}"#,
    r#"{"$lookup":{"from":"d","let":{"a":"$a"},"as":"l","pipeline":[{"$match":{"$expr":{"$and":[{"$eq":["$b","$$a"]},{"$gt":["$n",5]}]}}}]}}"#,
    r#"{"$graphLookup":{"from":"d","startWith":"$a","connectFromField":"n","connectToField":"b","maxDepth":1,"as":"l"}}"#,
    r#"{"$graphLookup":{"from":"d","startWith":"$a","connectFromField":"b","connectToField":"b","maxDepth":1,"as":"l"}}"#,
    r#"{"$graphLookup":{"from":"d","startWith":"$a.x","connectFromField":"b","connectToField":"b.x","maxDepth":0,"as":"l"}}"#,
    r#"{"$graphLookup":{"from":"d","startWith":"$a","connectFromField":"b","connectToField":"b","maxDepth":0,"as":"l","restrictSearchWithMatch":{"n":{"$gt":10}}}}"#,
    r#"{"$lookup":{"from":"v","localField":"a","foreignField":"b","as":"l"}}"#,
    r#"{"$lookup":{"from":"c","localField":"a","foreignField":"a","as":"l"}}"#,
];

/// Filters of the foreign collection, for updates and deletes.
const FILTERS: [&str; 22] = [
    r#"{"b":null}"#,
    r#"{"b":{"$ne":null}}"#,
    r#"{"b":{"$exists":false}}"#,
    r#"{"b":{"$exists":true}}"#,
    r#"{"b":{"$in":[null,1,"a"]}}"#,
    r#"{"b":{"$nin":[null,1]}}"#,
    r#"{"b":{"$in":[[],[1],{"x":1}]}}"#,
    r#"{"b":{"$gte":1,"$lt":3}}"#,
    r#"{"b":{"$not":{"$gt":0}}}"#,
    r#"{"b.x":null}"#,
    r#"{"b.x":{"$in":[1,null]}}"#,
    r#"{"b.0":1}"#,
    r#"{"b":{"$elemMatch":{"$gte":1}}}"#,
    r#"{"b":{"$elemMatch":{"x":2}}}"#,
    r#"{"b":{"$size":2}}"#,
    r#"{"b":{"$type":"string"}}"#,
    r#"{"b":{"$regex":"^a","$options":"i"}}"#,
    r#"{"b":{"$all":[1,2]}}"#,
    r#"{"$or":[{"b":1},{"n":{"$lt":4}}]}"#,
    r#"{"$nor":[{"b":1},{"b":null}]}"#,
    r#"{"n":{"$gt":10},"b":"a"}"#,
    r#"{"b":{"$gte":{"$minKey":1}}}"#,
];

const COLLATIONS: [&str; 2] = ["", r#","collation":{"locale":"en","strength":1}"#];

/// The documents of a command that all fit into its first batch.
fn found(service: &Service, command: &str) -> Vec<String> {
    batch(&ok(service, command)).1
}

fn fill(service: &Service, name: &str, field: &str) {
    let documents = VALUES.iter().enumerate().map(|(number, value)| match *value {
        "" => format!(r#"{{"_id":{number},"n":{number}}}"#),
        value => format!(r#"{{"_id":{number},"n":{number},"{field}":{value}}}"#),
    });
    let documents: Vec<String> = documents.collect();
    ok(service, &format!(r#"{{"insert":"{name}","documents":[{}]}}"#, documents.join(",")));
}

/// A machine with the database of the tests, of which each takes a copy.
fn machine(index: &str) -> SimEnv {
    let machine = SimEnv::new(1);
    let service = open(&machine, MEMORY_BYTES);
    fill(&service, "c", "a");
    fill(&service, "d", "b");
    ok(&service, r#"{"create":"v","viewOn":"d","pipeline":[{"$match":{"n":{"$lt":30}}}]}"#);
    if !index.is_empty() {
        ok(&service, &format!(r#"{{"createIndexes":"d","indexes":[{index}]}}"#));
        ok(&service, &format!(r#"{{"createIndexes":"c","indexes":[{}]}}"#, index.replace(r#""b"#, r#""a"#)));
    }
    drop(service);
    machine
}

fn copy_of(machine: &SimEnv) -> Service {
    open(&machine.fork(), MEMORY_BYTES)
}

/// What joins give: for each document the ids that it is joined with.
fn joins(service: &Service) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for join in JOINS {
        // A view has the collation that it was made with.
        let collations = if join.contains(r#""from":"v""#) { &COLLATIONS[..1] } else { &COLLATIONS[..] };
        for collation in collations {
            let ids = r#"{"$project":{"l":{"$sortArray":{"input":"$l._id","sortBy":1}}}}"#;
            let command = format!(
                r#"{{"aggregate":"c","pipeline":[{join},{ids},{{"$sort":{{"_id":1}}}}],"cursor":{{}}{collation}}}"#
            );
            all.push((command.clone(), found(service, &command)));
        }
    }
    all
}

#[test]
fn joins_give_the_same_with_each_index() {
    let plain = joins(&copy_of(&machine(INDEXES[0])));
    assert!(plain.iter().all(|(_, found)| found.len() == VALUES.len()));
    for index in &INDEXES[1..] {
        for ((command, expected), (_, joined)) in plain.iter().zip(joins(&copy_of(&machine(index)))) {
            for (expected, joined) in expected.iter().zip(&joined) {
                assert_eq!(joined, expected, "{command}\nwith the index {index}");
            }
        }
    }
}

/// What updates and deletes by a filter do, each on documents of its own: the reply, and what is there afterwards.
fn changes(index: &str) -> Vec<(String, String)> {
    let (machine, mut all) = (machine(index), Vec::new());
    for filter in FILTERS {
        for collation in COLLATIONS {
            for what in ["update", "delete", "findAndUpdate", "findAndRemove", "move"] {
                let service = copy_of(&machine);
                let command = match what {
                    "update" => format!(
                        r#"{{"update":"d","updates":[{{"q":{filter},"u":{{"$set":{{"z":1}}}},"multi":true{collation}}}]}}"#
                    ),
                    // Each document is moved within the index that finds it, and is changed once.
                    "move" => format!(
                        r#"{{"update":"d","updates":[{{"q":{filter},"u":[{{"$set":{{"b":{{"$ifNull":["$z",1.25]}},"z":7,"n":{{"$add":["$n",100]}}}}}}],"multi":true{collation}}}]}}"#
                    ),
                    "delete" => format!(r#"{{"delete":"d","deletes":[{{"q":{filter},"limit":0{collation}}}]}}"#),
                    "findAndUpdate" => format!(
                        r#"{{"findAndModify":"d","query":{filter},"sort":{{"n":-1}},"update":{{"$inc":{{"n":1000}}}}{collation}}}"#
                    ),
                    _ => {
                        format!(r#"{{"findAndModify":"d","query":{filter},"sort":{{"n":1}},"remove":true{collation}}}"#)
                    }
                };
                let reply = ok(&service, &command).view().to_json();
                let documents = found(&service, r#"{"find":"d","sort":{"_id":1}}"#);
                let valid = ok(&service, r#"{"validate":"d"}"#).view().to_json();
                assert!(valid.contains(r#""valid":true"#), "{command}\nwith the index {index}: {valid}");
                all.push((command, format!("{reply}\n{}", documents.join("\n"))));
            }
        }
    }
    all
}

#[test]
fn updates_and_deletes_do_the_same_with_each_index() {
    let plain = changes(INDEXES[0]);
    for index in &INDEXES[1..] {
        for ((command, expected), (_, done)) in plain.iter().zip(changes(index)) {
            assert_eq!(&done, expected, "{command}\nwith the index {index}");
        }
    }
}

/// Changes of the indexes of a collection, one after the other.
const CHANGES: [&str; 8] = [
    r#"{"createIndexes":"d","indexes":[{"key":{"n":1},"name":"n"}]}"#,
    r#"{"collMod":"d","index":{"name":"i","hidden":true}}"#,
    r#"{"createIndexes":"d","indexes":[{"key":{"b":1,"n":-1},"name":"j"}]}"#,
    r#"{"collMod":"d","index":{"name":"i","hidden":false}}"#,
    r#"{"dropIndexes":"d","index":"j"}"#,
    r#"{"dropIndexes":"d","index":"i"}"#,
    r#"{"createIndexes":"d","indexes":[{"key":{"b":1},"name":"i"}]}"#,
    r#"{"dropIndexes":"d","index":["i","n"]}"#,
];

#[test]
fn a_cursor_whose_indexes_change_gives_all_or_says_that_its_plan_was_ended() {
    let machine = machine(INDEXES[1]);
    for command in [
        r#"{"find":"d","filter":{"b":{"$gte":0}},"sort":{"b":1,"_id":1}}"#,
        r#"{"find":"d","filter":{"b":{"$in":[1,"a",null]}}}"#,
        r#"{"find":"d","filter":{"$or":[{"b":1},{"n":{"$lt":9}}]}}"#,
        r#"{"find":"d","sort":{"n":-1}}"#,
        r#"{"aggregate":"c","pipeline":[{"$lookup":{"from":"d","localField":"a","foreignField":"b","as":"l"}},{"$set":{"l":{"$size":"$l"}}}],"cursor":{}}"#,
    ] {
        let name = &command[command.find(':').unwrap() + 2..][..1];
        for first in 0..CHANGES.len() {
            let service = copy_of(&machine);
            let expected = found(&service, command);
            let (mut id, mut read) = batch(&ok(&service, &sized(command, 1)));
            for change in CHANGES[first..].iter().chain(&[""; 100]) {
                if id == 0 {
                    break;
                }
                if !change.is_empty() {
                    // Some are of an index that is not there.
                    json(&service, change);
                }
                let reply = more(&service, id, name, 2);
                if let Some(code) = reply.view().get("code") {
                    assert_eq!(code.as_exact_i64(), Some(175), "{command}, {change}: {reply:?}");
                    assert!(change.contains("dropIndexes"), "{command}, {change}: {reply:?}");
                    read.clear();
                    break;
                }
                let (next, documents) = batch(&reply);
                (id, read) = (next, [read, documents].concat());
            }
            assert!(read.is_empty() || read == expected, "{command} from change {first}\n{read:?}\n{expected:?}");
        }
    }
}
