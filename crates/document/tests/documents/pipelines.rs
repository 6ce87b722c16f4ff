//! Pipelines over collections: the same answers as over their documents one after the other, whatever moves to the
//! head; other collections, views, output, and what does not fit in memory.

use std::sync::Arc;

use spinney::env::sim::SimEnv;
use spinney_document::aggregate::{self, Memory, Run};
use spinney_document::bson::{Array, Document, DocumentBuf, Value};
use spinney_document::collection::WriteOptions;
use spinney_document::expr::Context;
use spinney_document::path::Sort;
use spinney_document::pipeline::aggregation::AggregateOptions;
use spinney_document::plan::Query;
use spinney_document::projection::{Projection, Use};
use spinney_document::query::Filter;
use spinney_document::{Collection, Database, Result, doc};

use super::collections::{json, open};

/// An array of JSON, in a document under the name `v`.
fn stages(text: &str) -> DocumentBuf {
    json(&format!("{{\"v\":{}}}", text.replace('\'', "\"")))
}

fn array(document: &DocumentBuf) -> Array<'_> {
    match document.view().get("v") {
        Some(Value::Array(array)) => array,
        _ => panic!("no array"),
    }
}

fn run_with(db: &Database, namespace: &str, text: &str, options: AggregateOptions) -> Result<String> {
    let rows = db.aggregate_on(namespace, array(&stages(text)), options)?;
    let rows: Vec<String> = rows.map(|row| Ok(row?.view().to_json())).collect::<Result<_>>()?;
    Ok(rows.join(" ").replace('"', "'"))
}

fn run(db: &Database, namespace: &str, text: &str) -> String {
    run_with(db, namespace, text, AggregateOptions::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn fails(db: &Database, namespace: &str, text: &str) -> i32 {
    match run_with(db, namespace, text, AggregateOptions::default()) {
        Err(error) => error.code().number(),
        Ok(found) => panic!("{text}: {found}"),
    }
}

fn fill(db: &Database, namespace: &str, documents: &[&str]) {
    let collection = db.collection_or_create(namespace).unwrap();
    for document in documents {
        collection.insert_one(json(&document.replace('\'', "\"")).view()).unwrap();
    }
}

fn index(db: &Database, namespace: &str, spec: &str) {
    db.create_indexes(namespace, &[json(&spec.replace('\'', "\""))]).unwrap();
}

#[test]
fn javascript_is_refused_as_by_a_server_without_it() {
    let db = open(&SimEnv::new(1));
    fill(&db, "t.c", &["{'_id':1}"]);
    let function = "{'$function':{'body':'function() { return 1 }','args':[],'lang':'js'}}";
    let accumulator = "{'$accumulator':{'init':'f','accumulate':'f','accumulateArgs':[],'merge':'f','lang':'js'}}";
    assert_eq!(fails(&db, "t.c", &format!("[{{'$project':{{'a':{function}}}}}]")), 31264);
    assert_eq!(fails(&db, "t.c", &format!("[{{'$group':{{'_id':1,'a':{accumulator}}}}}]")), 31264);
    assert_eq!(fails(&db, "t.c", &format!("[{{'$project':{{'a':{accumulator}}}}}]")), 31325);
    assert_eq!(fails(&db, "t.c", "[{'$match':{'$where':'true'}}]"), 2);
    let refused = Filter::parse(doc! {"$where": "true"}.view(), &Context::default()).unwrap_err();
    assert_eq!(refused.code().number(), 6_108_304);
}

#[test]
fn what_moves_to_the_head_changes_no_answer() {
    let db = open(&SimEnv::new(1));
    let documents = [
        "{'_id':1,'a':1,'b':[1,2],'c':{'d':1}}",
        "{'_id':2,'a':null,'b':[]}",
        "{'_id':3,'b':5,'c':[{'d':1},{'d':2},3]}",
        "{'_id':4,'a':[1,3],'c':{'d':null},'b':2}",
        "{'_id':5,'a':'x','c':7}",
        "{'_id':6,'a':2,'b':[[1],2],'c':{'d':[1,2],'e':1}}",
    ];
    fill(&db, "t.c", &documents);
    index(&db, "t.c", "{'key':{'a':1,'b':1},'name':'a_b'}");
    index(&db, "t.c", "{'key':{'c.d':1},'name':'c'}");
    let middles = [
        "{'$set':{'x':'$a'}}",
        "{'$set':{'a':'$b'}}",
        "{'$set':{'c.e':1}}",
        "{'$unset':'a'}",
        "{'$project':{'a':1,'c':1}}",
        "{'$project':{'a':1,'c.d':1,'z':'$b'}}",
        "{'$project':{'c.d':0}}",
        "{'$unwind':'$a'}",
        "{'$unwind':{'path':'$b','includeArrayIndex':'i','preserveNullAndEmptyArrays':true}}",
        "{'$sort':{'a':1,'_id':1}}",
        "{'$sort':{'c.d':-1,'_id':1}}",
        "{'$limit':3}",
        "{'$skip':2}",
        "{'$group':{'_id':'$a','n':{'$sum':'$c.d'},'all':{'$push':'$b'}}}",
        "{'$replaceWith':{'a':'$b','c':'$c'}}",
        "{'$sortByCount':'$c'}",
    ];
    let filters = [
        "{'a':1}",
        "{'a':null}",
        "{'c.d':{'$gte':1}}",
        "{'b':{'$exists':true}}",
        "{'$expr':{'$gt':['$a','$b']}}",
        "{'$expr':{'$eq':['$a',1]}}",
        "{'$expr':{'$eq':['$c.d',1]}}",
        "{'$expr':{'$and':[{'$eq':[1,'$c.d']},{'$eq':['$a',1]}]}}",
    ];
    for first in middles {
        for filter in filters {
            for last in ["", ",{'$limit':2}", ",{'$count':'n'}", ",{'$group':{'_id':'$a','n':{'$sum':1}}}"] {
                let text = format!("[{first},{{'$match':{filter}}}{last}]");
                let pipeline = aggregate::parse(array(&stages(&text)), &Context::default()).unwrap();
                let input = documents.map(|document| Ok(json(&document.replace('\'', "\""))));
                let rows = pipeline.run(Box::new(input.into_iter()), &Run::new(Context::default())).unwrap();
                let mut expected: Vec<String> =
                    rows.map(|row| row.unwrap().view().to_json().replace('"', "'")).collect();
                let options = AggregateOptions::default();
                let rows = db.aggregate_on("t.c", array(&stages(&text)), options).unwrap();
                let mut found: Vec<String> = rows.map(|row| row.unwrap().view().to_json().replace('"', "'")).collect();
                // Without a sort an index may give another order.
                if !first.contains("$sort") && !last.contains("$limit") {
                    expected.sort();
                    found.sort();
                }
                if first.contains("$sort'")
                    || !last.contains("$limit") && !first.contains("$limit") && !first.contains("$skip")
                {
                    assert_eq!(found, expected, "{text}");
                } else {
                    assert_eq!(found.len(), expected.len(), "{text}");
                }
            }
        }
    }
}

#[test]
fn other_collections_are_read_from_the_same_snapshot() {
    let db = open(&SimEnv::new(2));
    fill(&db, "t.orders", &["{'_id':1,'item':'a','n':2}", "{'_id':2,'item':['b','c']}", "{'_id':3}"]);
    fill(&db, "t.items", &["{'_id':1,'sku':'a','p':5}", "{'_id':2,'sku':'b'}", "{'_id':3,'sku':null}", "{'_id':4}"]);
    fill(&db, "other.things", &["{'_id':'thing'}"]);
    for _ in 0..2 {
        let joined = run(
            &db,
            "t.orders",
            "[{'$lookup':{'from':'items','localField':'item','foreignField':'sku','as':'i'}},{'$project':{'i':'$i._id'}}]",
        );
        assert_eq!(joined, "{'_id':1,'i':[1]} {'_id':2,'i':[2]} {'_id':3,'i':[3,4]}");
        // The second time with an index.
        index(&db, "t.items", "{'key':{'sku':1},'name':'sku'}");
    }
    let text = "[{'$lookup':{'from':'items','let':{'n':'$n'},'pipeline':[{'$match':{'$expr':{'$gt':['$p','$$n']}}}],'as':'i'}},{'$project':{'i':'$i._id'}}]";
    assert_eq!(run(&db, "t.orders", text), "{'_id':1,'i':[1]} {'_id':2,'i':[1]} {'_id':3,'i':[1]}");
    // A number is a position in an array; a variable of a field that is missing has no value.
    let text = "[{'$lookup':{'from':'items','localField':'item.1','foreignField':'sku','as':'i'}},{'$project':{'i':'$i._id'}}]";
    assert_eq!(run(&db, "t.orders", text), "{'_id':1,'i':[3,4]} {'_id':2,'i':[]} {'_id':3,'i':[3,4]}");
    let text = "[{'$lookup':{'from':'items','let':{'n':'$n'},'pipeline':[{'$limit':1},{'$project':{'_id':0,'t':{'$type':'$$n'}}}],'as':'i'}},{'$project':{'i':'$i.t'}}]";
    assert_eq!(run(&db, "t.orders", text), "{'_id':1,'i':['int']} {'_id':2,'i':['missing']} {'_id':3,'i':['missing']}");
    // By the index of the field that the expression compares with the variable.
    let text = "[{'$lookup':{'from':'items','let':{'i':'$item'},'pipeline':[{'$match':{'$expr':{'$eq':['$sku','$$i']}}}],'as':'i'}},{'$project':{'i':'$i._id'}}]";
    assert_eq!(run(&db, "t.orders", text), "{'_id':1,'i':[1]} {'_id':2,'i':[]} {'_id':3,'i':[4]}");
    let text = "[{'$lookup':{'from':'items','pipeline':[{'$count':'n'}],'as':'i'}},{'$project':{'i':1}}]";
    assert_eq!(run(&db, "t.orders", text), "{'_id':1,'i':[{'n':4}]} {'_id':2,'i':[{'n':4}]} {'_id':3,'i':[{'n':4}]}");
    let text = "[{'$project':{'_id':1}},{'$unionWith':{'coll':'items','pipeline':[{'$match':{'sku':'a'}}]}}]";
    assert_eq!(run(&db, "t.orders", text), "{'_id':1} {'_id':2} {'_id':3} {'_id':1,'sku':'a','p':5}");
    let text = "[{'$limit':1},{'$lookup':{'from':{'db':'other','coll':'things'},'pipeline':[],'as':'x'}}]";
    assert_eq!(run(&db, "t.orders", text), "{'_id':1,'item':'a','n':2,'x':[{'_id':'thing'}]}");
    fill(
        &db,
        "t.people",
        &["{'_id':'a','to':'b'}", "{'_id':'b','to':['c','d']}", "{'_id':'c','to':'a'}", "{'_id':'d'}"],
    );
    let text = "[{'$match':{'_id':'a'}},{'$graphLookup':{'from':'people','startWith':'$to','connectFromField':'to','connectToField':'_id','as':'r','depthField':'d'}},{'$project':{'r._id':1,'r.d':1}}]";
    let found = run(&db, "t.people", text).replace("{'$numberLong':'", "").replace("'}", "");
    assert_eq!(found, "{'_id':'a','r':[{'_id':'b','d':0},{'_id':'c','d':1},{'_id':'d','d':1},{'_id':'a','d':2}]}");
}

#[test]
fn a_view_is_its_pipeline_and_stays_within_its_depth() {
    let db = open(&SimEnv::new(3));
    fill(&db, "t.c", &["{'_id':1,'a':1}", "{'_id':2,'a':2}", "{'_id':3,'a':3}"]);
    let view = |name: &str, on: &str, pipeline: &str| {
        let options = format!("{{'viewOn':'{on}','pipeline':{pipeline}}}").replace('\'', "\"");
        db.create_collection(name, json(&options).view())
    };
    view("t.v", "c", "[{'$match':{'a':{'$gt':1}}}]").unwrap();
    view("t.w", "v", "[{'$set':{'b':'$a'}}]").unwrap();
    assert_eq!(run(&db, "t.w", "[{'$sort':{'a':-1}}]"), "{'_id':3,'a':3,'b':3} {'_id':2,'a':2,'b':2}");
    let text = "[{'$match':{'_id':2}},{'$lookup':{'from':'w','localField':'a','foreignField':'b','as':'w'}}]";
    assert_eq!(run(&db, "t.c", text), "{'_id':2,'a':2,'w':[{'_id':2,'a':2,'b':2}]}");
    let text = "[{'$limit':1},{'$project':{'_id':0}},{'$unionWith':{'coll':'w','pipeline':[{'$count':'n'}]}}]";
    assert_eq!(run(&db, "t.c", text), "{'a':1} {'n':2}");
    assert_eq!(view("t.x", "x", "[]").unwrap_err().code().number(), 5);
    view("t.y", "z", "[]").unwrap();
    assert_eq!(view("t.z", "y", "[]").unwrap_err().code().number(), 5);
    assert_eq!(view("t.q", "c", "[{'$out':'d'}]").unwrap_err().code().number(), 167);
    assert_eq!(fails(&db, "t.c", "[{'$out':'v'}]"), 166);
    assert_eq!(fails(&db, "t.c", "[{'$merge':'v'}]"), 166);
    let mut on = "c".to_owned();
    for depth in 1..=20 {
        view(&format!("t.d{depth}"), &on, "[]").unwrap();
        on = format!("d{depth}");
    }
    assert_eq!(run(&db, "t.d20", "[{'$count':'n'}]"), "{'n':3}");
    assert_eq!(view("t.d21", &on, "[]").unwrap_err().code().number(), 165);
}

#[test]
fn out_replaces_a_collection_at_once_and_keeps_its_indexes() {
    let machine = SimEnv::new(4);
    let db = open(&machine);
    fill(&db, "t.c", &["{'_id':1,'a':1}", "{'_id':2,'a':1}"]);
    fill(&db, "t.d", &["{'_id':9,'a':9}"]);
    index(&db, "t.d", "{'key':{'a':1},'name':'a','unique':true}");
    // Two documents break the constraint of the index: the old ones stay.
    assert_eq!(fails(&db, "t.c", "[{'$out':'d'}]"), 11000);
    assert_eq!(run(&db, "t.d", "[]"), "{'_id':9,'a':9}");
    assert_eq!(run(&db, "t.c", "[{'$set':{'a':'$_id'}},{'$out':'d'}]"), "");
    assert_eq!(run(&db, "t.d", "[]"), "{'_id':1,'a':1} {'_id':2,'a':2}");
    assert_eq!(db.list_indexes("t.d").unwrap().len(), 2);
    let d = db.collection("t.d").unwrap().unwrap();
    assert_eq!(super::collections::entries(&d), "a=2");
    assert_eq!(run(&db, "t.d", "[{'$match':{'a':2}},{'$out':{'db':'new','coll':'e'}}]"), "");
    assert_eq!(run(&db, "new.e", "[]"), "{'_id':2,'a':2}");
    assert_eq!(db.list_collections("t").len(), 2);
    // A collection that reads itself.
    assert_eq!(run(&db, "t.d", "[{'$match':{'a':2}},{'$out':'d'}]"), "");
    drop((d, db));
    let db = open(&machine);
    assert_eq!(run(&db, "t.d", "[]"), "{'_id':2,'a':2}");
}

#[test]
fn merge_has_its_modes() {
    let db = open(&SimEnv::new(5));
    let reset = || {
        db.drop_collection("t.d").unwrap();
        fill(&db, "t.d", &["{'_id':1,'a':1,'k':1}", "{'_id':2,'b':2,'k':2}"]);
    };
    fill(&db, "t.c", &["{'_id':2,'a':7,'k':2}", "{'_id':3,'a':8,'k':3}"]);
    for (how, expected) in [
        ("'whenMatched':'merge'", "{'_id':1,'a':1,'k':1} {'_id':2,'b':2,'k':2,'a':7} {'_id':3,'a':8,'k':3}"),
        ("'whenMatched':'replace'", "{'_id':1,'a':1,'k':1} {'_id':2,'a':7,'k':2} {'_id':3,'a':8,'k':3}"),
        ("'whenMatched':'keepExisting'", "{'_id':1,'a':1,'k':1} {'_id':2,'b':2,'k':2} {'_id':3,'a':8,'k':3}"),
        ("'whenNotMatched':'discard'", "{'_id':1,'a':1,'k':1} {'_id':2,'b':2,'k':2,'a':7}"),
        (
            "'whenMatched':[{'$set':{'s':{'$add':['$b','$$new.a']}}}],'whenNotMatched':'discard'",
            "{'_id':1,'a':1,'k':1} {'_id':2,'b':2,'k':2,'s':9}",
        ),
        (
            "'let':{'x':'$a'},'whenMatched':[{'$set':{'s':'$$x'}}],'whenNotMatched':'discard'",
            "{'_id':1,'a':1,'k':1} {'_id':2,'b':2,'k':2,'s':7}",
        ),
    ] {
        reset();
        assert_eq!(run(&db, "t.c", &format!("[{{'$merge':{{'into':'d',{how}}}}}]")), "");
        assert_eq!(run(&db, "t.d", "[]"), expected, "{how}");
    }
    reset();
    let merge = |how: &str| fails(&db, "t.c", &format!("[{{'$merge':{{'into':'d',{how}}}}}]"));
    assert_eq!(merge("'whenMatched':'fail'"), 11000);
    reset();
    assert_eq!(merge("'whenNotMatched':'fail'"), 13113);
    assert_eq!(merge("'on':'k'"), 51183);
    reset();
    index(&db, "t.d", "{'key':{'k':1},'name':'k','unique':true}");
    let text = "[{'$unset':'_id'},{'$merge':{'into':'d','on':'k','whenNotMatched':'discard','whenMatched':'replace'}}]";
    assert_eq!(run(&db, "t.c", text), "");
    assert_eq!(run(&db, "t.d", "[]"), "{'_id':1,'a':1,'k':1} {'_id':2,'a':7,'k':2}");
    let text = "[{'$set':{'_id':9}},{'$merge':{'into':'d','on':'k','whenNotMatched':'discard'}}]";
    assert_eq!(fails(&db, "t.c", text), 66);
    reset();
    index(&db, "t.d", "{'key':{'k':1},'name':'k','unique':true}");
    let text = "[{'$merge':{'into':'d','on':'k','whenNotMatched':'discard'}}]";
    assert_eq!(run(&db, "t.c", text), "");
    assert_eq!(run(&db, "t.d", "[]"), "{'_id':1,'a':1,'k':1} {'_id':2,'b':2,'k':2,'a':7}");
    index(&db, "t.d", "{'key':{'s':1},'name':'s','unique':true,'sparse':true}");
    assert_eq!(fails(&db, "t.c", "[{'$merge':{'into':'d','on':'s'}}]"), 51132);
    // What is merged beside a document that fails stays.
    fill(&db, "t.e", &["{'_id':7,'k':2}", "{'_id':8,'k':8}"]);
    assert_eq!(fails(&db, "t.e", "[{'$merge':'d'}]"), 11000);
    assert_eq!(run(&db, "t.d", "[{'$match':{'k':8}}]"), "{'_id':8,'k':8}");
    assert_eq!(run(&db, "t.c", "[{'$merge':{'into':{'db':'new','coll':'x'}}}]"), "");
    assert_eq!(run(&db, "new.x", "[{'$count':'n'}]"), "{'n':2}");
    // Without a document to insert no collection is created.
    assert_eq!(run(&db, "t.c", "[{'$match':{'_id':77}},{'$merge':'none'}]"), "");
    assert_eq!(run(&db, "t.c", "[{'$merge':{'into':'none','whenNotMatched':'discard'}}]"), "");
    assert_eq!(fails(&db, "t.c", "[{'$merge':{'into':'none','whenNotMatched':'fail'}}]"), 13113);
    assert!(db.collection("t.none").unwrap().is_none());
}

#[test]
fn what_does_not_fit_in_memory_gives_the_same_and_leaves_nothing() {
    let db = open(&SimEnv::new(6));
    let collection = db.collection_or_create("t.c").unwrap();
    for number in 0..2000_i32 {
        let text =
            format!(r#"{{"_id":{number},"g":{},"x":{},"s":"{number:050}"}}"#, number * 7 % 501, number * 31 % 1009);
        collection.insert_one(json(&text).view()).unwrap();
    }
    let tables = db.engine().tables().unwrap().len();
    for text in [
        "[{'$set':{'y':1}},{'$sort':{'x':1,'s':-1}},{'$project':{'x':1}}]",
        "[{'$set':{'y':1}},{'$sort':{'x':-1}},{'$skip':3},{'$limit':700},{'$project':{'x':1}}]",
        "[{'$group':{'_id':'$g','n':{'$sum':'$x'},'p':{'$max':'$s'}}},{'$sort':{'_id':1}}]",
        "[{'$bucketAuto':{'groupBy':'$x','buckets':7,'output':{'n':{'$sum':1},'m':{'$max':'$s'}}}}]",
        "[{'$setWindowFields':{'partitionBy':'$g','sortBy':{'x':1},'output':{'r':{'$sum':'$x','window':{'documents':['unbounded','current']}}}}},{'$project':{'r':1}}]",
    ] {
        let expected = run(&db, "t.c", text);
        assert!(!expected.is_empty(), "{text}");
        let small = AggregateOptions { memory_bytes_max: 20_000, ..AggregateOptions::default() };
        let found = run_with(&db, "t.c", text, small.clone()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(found == expected, "{text}");
        assert_eq!(db.engine().tables().unwrap().len(), tables, "{text}");
        let refused = run_with(&db, "t.c", text, AggregateOptions { allow_disk_use: false, ..small });
        assert_eq!(refused.map_err(|error| error.code().number()), Err(292), "{text}");
    }
    // A result that is given up leaves no table either.
    let small = AggregateOptions { memory_bytes_max: 20_000, ..AggregateOptions::default() };
    let mut rows = db.aggregate_on("t.c", array(&stages("[{'$set':{'y':1}},{'$sort':{'x':1}}]")), small).unwrap();
    rows.next().unwrap().unwrap();
    assert_eq!(db.engine().tables().unwrap().len(), tables + 1);
    drop(rows);
    assert_eq!(db.engine().tables().unwrap().len(), tables);
}

#[test]
fn what_a_crash_leaves_of_pipelines_is_dropped_at_open() {
    let machine = SimEnv::new(9);
    let db = open(&machine);
    fill(&db, "t.tmp.agg_out.1", &["{'_id':1}"]);
    fill(&db, "t.c", &["{'_id':1}"]);
    db.engine().create_table("s-7", spinney::TableOptions::default().logged(false)).unwrap();
    let tables = db.engine().tables().unwrap().len();
    drop(db);
    let db = open(&machine);
    assert_eq!(db.list_collections("t").len(), 1);
    assert_eq!(db.engine().tables().unwrap().len(), tables - 2);
    assert_eq!(run(&db, "t.c", "[]"), "{'_id':1}");
}

#[test]
fn a_result_outlives_changes_and_the_handle() {
    let db = open(&SimEnv::new(7));
    fill(&db, "t.c", &["{'_id':1}", "{'_id':2}"]);
    let collection = db.collection("t.c").unwrap().unwrap();
    let mut rows = collection.aggregate(array(&stages("[{'$set':{'a':'$_id'}}]"))).unwrap();
    assert_eq!(rows.next().unwrap().unwrap().view().to_json(), r#"{"_id":1,"a":1}"#);
    collection.delete_by_id(2).unwrap();
    drop((db, collection));
    let rest = std::thread::scope(|scope| {
        scope.spawn(move || rows.map(|row| row.unwrap().view().to_json()).collect::<Vec<_>>()).join().unwrap()
    });
    assert_eq!(rest, [r#"{"_id":2,"a":2}"#]);
}

#[test]
fn databases_have_pipelines_that_make_their_documents() {
    let db = open(&SimEnv::new(8));
    let on = |text: &str| -> Result<String> {
        let rows = db.aggregate("t", array(&stages(text)))?;
        let rows: Vec<String> = rows.map(|row| Ok(row?.view().to_json())).collect::<Result<_>>()?;
        Ok(rows.join(" ").replace('"', "'"))
    };
    assert_eq!(on("[{'$documents':[{'a':1},{'a':2}]},{'$match':{'a':2}}]").unwrap(), "{'a':2}");
    assert_eq!(on("[{'$match':{}}]").unwrap_err().code().number(), 73);
    assert_eq!(fails(&db, "t.c", "[{'$documents':[]}]"), 73);
    for (input, regex, found) in [("ab", "b*", 2), ("aaa", "x*", 3), ("", "x*", 1), ("a\u{e9}b", "", 3)] {
        let text = format!("{{'$regexFindAll':{{'input':'{input}','regex':'{regex}'}}}}");
        let text = format!("[{{'$documents':[{{'a':1}}]}},{{'$project':{{'n':{{'$size':{text}}}}}}}]");
        assert_eq!(on(&text).unwrap(), format!("{{'n':{found}}}"), "{text}");
    }
    let text = "[{'$fill':{'partitionBy':'$s','partitionByFields':['s'],'output':{'q':{'value':1}}}}]";
    assert_eq!(fails(&db, "t.c", text), 6_050_204);
    assert_eq!(fails(&db, "t.c", "[{'$project':{'x':{'$range':[0,200000000]}}}]"), 146);
    assert_eq!(fails(&db, "t.c", "[{'$collStats':{'count':{}}}]"), 26);
    fill(&db, "t.c", &["{'_id':1}"]);
    assert!(run(&db, "t.c", "[{'$collStats':{'count':{}}}]").contains("'count':1"));
    assert!(run(&db, "t.c", "[{'$indexStats':{}}]").contains("'name':'_id_'"));
    assert_eq!(Document::empty().elements().count(), 0);
}

#[test]
fn sorts_of_queries_go_on_in_tables_where_they_may() {
    let db = open(&SimEnv::new(5));
    let collection = db.collection_or_create("t.c").unwrap();
    for number in 0..300_i32 {
        let document = json(&format!(r#"{{"_id":{number},"a":{},"b":[{number},"text"]}}"#, number * 37 % 100));
        collection.insert_one(document.view()).unwrap();
    }
    let tables = db.engine().tables().unwrap().len();
    let found = |memory: Option<Memory>, limit: Option<u64>| {
        let context = Context::default();
        let mut query = Query::new(Filter::parse(json(r#"{"b":{"$gte":10}}"#).view(), &context).unwrap());
        query.sort = Some(Sort::parse(json(r#"{"a":-1}"#).view(), None).unwrap());
        query.projection = Some(Projection::parse(json(r#"{"b.$":1,"a":1}"#).view(), Use::Find, &context).unwrap());
        (query.limit, query.memory) = (limit, memory.map(Arc::new));
        let rows: Result<Vec<_>> = collection.find(query).unwrap().map(|row| Ok(row?.view().to_json())).collect();
        rows.map_err(|error| error.code().number())
    };
    for limit in [None, Some(3), Some(250)] {
        let expected = found(None, limit);
        assert_eq!(expected.as_ref().map(Vec::len), Ok(limit.map_or(290, |limit| usize::try_from(limit).unwrap())));
        let little = || Memory::new(4000);
        assert_eq!(found(Some(little().with_spill(db.engine().clone())), limit), expected);
        let refused = if limit == Some(3) { expected } else { Err(292) };
        assert_eq!(found(Some(little()), limit), refused);
    }
    assert_eq!(db.engine().tables().unwrap().len(), tables);
}

/// Documents `0..count`, a part of them written again, so that they lie in several trees.
fn many(count: i64) -> (Database, Collection) {
    let options = spinney::Options::default().memory_bytes(16 << 20);
    let engine = spinney::Database::builder("/db").options(options).env(SimEnv::new(1).env()).open().unwrap();
    let db = Database::with_engine(engine).unwrap();
    let collection = db.collection_or_create("t.c").unwrap();
    for part in (0..count).collect::<Vec<_>>().chunks(1000) {
        let documents: Vec<_> = part.iter().map(|id| doc! {"_id": *id, "text": "some text that is the same"}).collect();
        collection.insert_many(documents.iter().map(DocumentBuf::view), true, WriteOptions::default()).unwrap();
    }
    for table in db.engine().tables().unwrap() {
        table.flush().unwrap();
    }
    for id in (0..count).step_by(7) {
        collection.replace_by_id(id, doc! {"_id": id, "text": "another"}.view()).unwrap();
    }
    (db, collection)
}

fn sampled(collection: &Collection, size: i64) -> Vec<i64> {
    let stages = json(&format!(r#"{{"v":[{{"$sample":{{"size":{size}}}}}]}}"#));
    let stages = stages.view().get("v").unwrap().as_array().unwrap();
    let found = collection.aggregate(stages).unwrap();
    found.map(|found| found.unwrap().view().get("_id").unwrap().as_exact_i64().unwrap()).collect()
}

#[test]
fn a_sample_has_each_document_about_as_often_and_none_twice() {
    let (_db, collection) = many(100_000);
    let (mut buckets, mut total) = (vec![0_u32; 50], 0_u32);
    for _ in 0..100 {
        let found = sampled(&collection, 20);
        assert_eq!(found.len(), 20);
        assert_eq!(found.iter().collect::<std::collections::BTreeSet<_>>().len(), 20, "{found:?}");
        for id in found {
            buckets[usize::try_from(id / 2000).unwrap()] += 1;
            total += 1;
        }
    }
    let expected = f64::from(total) / 50.0;
    let squares: f64 = buckets.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    // Of 49 degrees of freedom: above 100 in one of 20,000 cases when all are as likely.
    assert!(squares < 100.0, "{squares}: {buckets:?}");
}

#[test]
fn a_sample_of_many_or_of_a_small_collection_is_right() {
    let (db, collection) = many(3000);
    for size in [1, 10, 2999, 3000, 5000] {
        let mut found = sampled(&collection, size);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), usize::try_from(size.min(3000)).unwrap());
    }
    collection.delete_many(json("{}").view()).unwrap();
    assert!(sampled(&collection, 3).is_empty());
    drop(db);
}

#[test]
fn pipelines_within_others_have_a_greatest_depth() {
    let nested = |depth| {
        let lookup = |inner: String, _| format!(r#"{{"$lookup":{{"from":"x","as":"y","pipeline":[{inner}]}}}}"#);
        let stages = (0..depth).fold(String::new(), lookup);
        let stages = json(&format!(r#"{{"v":[{{"$facet":{{"f":[{stages}]}}}}]}}"#));
        let stages = stages.view().get("v").unwrap().as_array().unwrap();
        aggregate::parse(stages, &Context::default()).map(drop).map_err(|error| error.code().number())
    };
    assert_eq!((nested(20), nested(21)), (Ok(()), Err(232)));
}
