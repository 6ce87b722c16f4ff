//! Rows of the catalog that cannot be used: each is one damaged collection or index, which answers 374 and can be
//! dropped, and everything else opens.

use std::fs;
use std::path::Path;

use spinney::{Options, Table};
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use spinney_document::catalog::Added;
use spinney_document::command::Service;
use spinney_document::{Database, Error};

use crate::collections::json;

fn open(path: &Path) -> Service {
    Service::new(Database::open(path, Options::default().memory_bytes(16 << 20)).unwrap())
}

/// The reply of a command in JSON, or its code and its message.
fn run(service: &Service, database: &str, command: &str) -> Result<String, (i32, String)> {
    let told = |error: Error| (error.code().number(), error.message().to_owned());
    service.run_command(database, json(command).view()).map(|reply| reply.view().to_json()).map_err(told)
}

fn done(service: &Service, database: &str, command: &str) -> String {
    let reply = run(service, database, command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    assert!(!reply.contains("writeErrors"), "{command}: {reply}");
    reply
}

/// That a command fails with 374, and a sentence that says what to do.
fn is_damaged(service: &Service, database: &str, command: &str, remedy: &str) {
    match run(service, database, command) {
        Err((374, what)) if what.contains(remedy) => {}
        Ok(reply) if reply.contains(r#""code":374"#) && reply.contains(remedy) => {}
        other => panic!("{command}: {other:?}"),
    }
}

const EVERY: [&str; 14] = [
    r#"{"find":"NAME"}"#,
    r#"{"find":"VIEW"}"#,
    r#"{"aggregate":"NAME","pipeline":[],"cursor":{}}"#,
    r#"{"aggregate":"NAME","pipeline":[{"$out":"elsewhere"}],"cursor":{}}"#,
    r#"{"count":"NAME"}"#,
    r#"{"distinct":"NAME","key":"a"}"#,
    r#"{"insert":"NAME","documents":[{"_id":1}]}"#,
    r#"{"update":"NAME","updates":[{"q":{},"u":{"$set":{"a":1}}}]}"#,
    r#"{"delete":"NAME","deletes":[{"q":{},"limit":0}]}"#,
    r#"{"create":"NAME"}"#,
    r#"{"createIndexes":"NAME","indexes":[{"key":{"b":1},"name":"b"}]}"#,
    r#"{"listIndexes":"NAME"}"#,
    r#"{"collMod":"NAME","validator":{}}"#,
    r#"{"convertToCapped":"NAME","size":1000}"#,
];

/// That a collection answers 374 to all that needs it, can be dropped, and leaves nothing.
fn is_one_damaged_collection(place: &Path, database: &str, name: &str, view: &str) {
    let service = open(place);
    let listed = done(&service, database, r#"{"listCollections":1}"#);
    assert!(listed.contains(&format!(r#""name":"{name}""#)) && listed.contains(r#""damaged":"#), "{listed}");
    let damages = service.database().catalog().damages();
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert!(damages[0].0.as_str() == format!("{database}.{name}") && damages[0].1.contains("Drop"), "{damages:?}");
    for command in EVERY.iter().filter(|command| !view.is_empty() || !command.contains("VIEW")) {
        is_damaged(&service, database, &command.replace("NAME", name).replace("VIEW", view), "Drop the collection");
    }
    let validated = done(&service, database, &format!(r#"{{"validate":"{name}"}}"#));
    assert!(validated.contains(r#""valid":false"#) && validated.contains("is damaged"), "{validated}");
    done(&service, database, r#"{"insert":"others","documents":[{"_id":1}]}"#);
    done(&service, database, &format!(r#"{{"drop":"{name}"}}"#));
    done(&service, database, &format!(r#"{{"insert":"{name}","documents":[{{"_id":7}}]}}"#));
    done(&service, database, &format!(r#"{{"drop":"{name}"}}"#));
    drop(service);
    let service = open(place);
    assert!(service.database().catalog().damages().is_empty());
    assert!(!done(&service, database, r#"{"listCollections":1}"#).contains(&format!(r#""name":"{name}""#)));
    let mut rows = catalog(&service).range(..);
    while let Some((key, _)) = rows.advance().unwrap() {
        assert_ne!(key, format!("{database}.{name}").as_bytes());
    }
}

fn catalog(service: &Service) -> Table {
    service.database().engine().table("catalog").unwrap().unwrap()
}

fn tables(service: &Service) -> Vec<String> {
    service.database().engine().tables().unwrap().iter().map(|table| table.name().to_owned()).collect()
}

/// The number in the name of the table of a collection.
fn number_of(service: &Service, name: &str) -> u64 {
    service.database().collection(name).unwrap().unwrap().state().number
}

/// A database with two collections, an index and a view.
fn make(place: &Path) -> Service {
    let service = open(place);
    for command in [
        r#"{"insert":"bad","documents":[{"_id":1,"a":1},{"_id":2,"a":[2,3]}]}"#,
        r#"{"createIndexes":"bad","indexes":[{"key":{"a":1},"name":"a"}]}"#,
        r#"{"insert":"good","documents":[{"_id":1,"a":1}]}"#,
        r#"{"create":"view","viewOn":"bad","pipeline":[]}"#,
    ] {
        done(&service, "d", command);
    }
    service
}

#[test]
fn a_database_that_ended_at_its_start_opens() {
    // A row of a collection was written again from memory by the end of the build of an index, after the collection was
    // dropped: its table was gone, and no later start succeeded.
    let place = tempfile::tempdir().unwrap();
    let (place, kept) = (place.path().join("db"), Path::new(env!("CARGO_MANIFEST_DIR")));
    fs::create_dir(&place).unwrap();
    for file in fs::read_dir(kept.join("../../testdata/damaged/catalog-row")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), place.join(file.file_name())).unwrap();
    }
    is_one_damaged_collection(&place, "shop", "orders", "");
    let service = open(&place);
    assert_eq!(service.database().collection("shop.goods").unwrap().unwrap().count().unwrap(), 20);
    assert_eq!(service.database().collection("app.people").unwrap().unwrap().count().unwrap(), 5);
}

#[test]
fn a_row_without_its_table_is_one_damaged_collection() {
    let place = tempfile::tempdir().unwrap();
    let service = make(place.path());
    let number = number_of(&service, "d.bad");
    service.database().engine().drop_table(&format!("c-{number}")).unwrap();
    drop(service);
    is_one_damaged_collection(place.path(), "d", "bad", "view");
    // Its index went with it.
    assert_eq!(tables(&open(place.path())).iter().filter(|name| name.starts_with("i-")).count(), 0);
}

#[test]
fn a_row_that_cannot_be_read_is_one_damaged_collection() {
    for row in [&b"no document"[..], json(r#"{"n":1}"#).as_bytes(), json(r#"{"n":"one"}"#).as_bytes()] {
        let place = tempfile::tempdir().unwrap();
        let service = make(place.path());
        let before = tables(&service);
        catalog(&service).put("d.bad", row).unwrap();
        drop(service);
        // Which tables are its own it does not say: nothing is dropped while it is there.
        assert_eq!(tables(&open(place.path())).len(), before.len());
        is_one_damaged_collection(place.path(), "d", "bad", "view");
        assert_eq!(tables(&open(place.path())).iter().filter(|name| name.starts_with("i-")).count(), 0);
    }
}

#[test]
fn a_damaged_collection_goes_with_its_database() {
    let place = tempfile::tempdir().unwrap();
    let service = make(place.path());
    catalog(&service).put("d.bad", b"no document").unwrap();
    drop(service);
    let service = open(place.path());
    done(&service, "d", r#"{"dropDatabase":1}"#);
    assert!(service.database().list_databases().is_empty());
    drop(service);
    assert_eq!(tables(&open(place.path())), ["catalog"]);
}

#[test]
fn an_index_without_its_table_is_one_damaged_index() {
    for remedy in
        [r#"{"dropIndexes":"bad","index":"a"}"#, r#"{"dropIndexes":"bad","index":"*"}"#, r#"{"reIndex":"bad"}"#]
    {
        let place = tempfile::tempdir().unwrap();
        let service = make(place.path());
        let index = tables(&service).into_iter().find(|name| name.starts_with("i-")).unwrap();
        service.database().engine().drop_table(&index).unwrap();
        drop(service);
        let service = open(place.path());
        let damages = service.database().catalog().damages();
        assert!(damages.len() == 1 && damages[0].1.contains("reIndex"), "{damages:?}");
        assert!(done(&service, "d", r#"{"listIndexes":"bad"}"#).contains(r#""name":"a""#));
        // It is read without the index, and nothing is written past it.
        assert!(done(&service, "d", r#"{"find":"bad","filter":{"a":2}}"#).contains(r#""_id":2"#));
        is_damaged(&service, "d", r#"{"insert":"bad","documents":[{"_id":3,"a":3}]}"#, "reIndex");
        assert!(done(&service, "d", r#"{"validate":"bad"}"#).contains("'a' of d.bad is damaged"));
        // A change of the row keeps what it has of the index.
        done(&service, "d", r#"{"collMod":"bad","validator":{"b":{"$exists":false}}}"#);
        drop(service);
        let service = open(place.path());
        assert_eq!(service.database().catalog().damages().len(), 1);
        done(&service, "d", remedy);
        done(&service, "d", r#"{"insert":"bad","documents":[{"_id":3,"a":3}]}"#);
        drop(service);
        let service = open(place.path());
        assert!(service.database().catalog().damages().is_empty());
        let listed = done(&service, "d", r#"{"listIndexes":"bad"}"#);
        assert_eq!(listed.contains(r#""name":"a""#), remedy.contains("reIndex"), "{listed}");
        assert!(service.database().collection("d.bad").unwrap().unwrap().validate().unwrap().is_valid());
    }
}

#[test]
fn no_other_row_of_the_catalog_fails_a_start() {
    for key in ["#", "#c", "#c-0000000000000001", "#p", "#r", "#h-00000001-0000000000000001", "#s-1", "no namespace"] {
        let place = tempfile::tempdir().unwrap();
        let service = make(place.path());
        service.database().engine().sync().unwrap();
        // As a process that was killed leaves it: nothing is stored at the end.
        let table = catalog(&service);
        std::mem::forget(service.clone());
        table.put(key, b"?").unwrap();
        let engine = service.database().engine().clone();
        drop(service);
        engine.close().unwrap();
        let service = open(place.path());
        assert_eq!(service.database().collection("d.bad").unwrap().unwrap().count().unwrap(), 2, "{key}");
        done(&service, "d", r#"{"create":"another"}"#);
        assert!(number_of(&service, "d.another") > number_of(&service, "d.good"), "{key}");
        drop(service);
        assert!(open(place.path()).database().catalog().damages().is_empty(), "{key}");
    }
}

#[test]
fn a_query_setting_that_cannot_be_read_fails_no_query() {
    // Every find failed, of every collection.
    let place = tempfile::tempdir().unwrap();
    let service = make(place.path());
    done(&service, "config", r#"{"insert":"querySettings","documents":[{"_id":"x","settings":7}]}"#);
    drop(service);
    done(&open(place.path()), "d", r#"{"find":"good"}"#);
}

#[test]
fn what_a_build_finds_of_arrays_outlives_a_change_of_the_index_meanwhile() {
    // The build noted it in the index as it was when it began, and its end wrote the row without it: queries over two
    // bounds missed documents.
    let place = tempfile::tempdir().unwrap();
    let service = make(place.path());
    let catalog = std::sync::Arc::clone(service.database().catalog());
    let bad = service.database().collection("d.bad").unwrap().unwrap();
    let mut spec = DocumentBuilder::new();
    spec.append("key", &spinney_document::doc! {"a": 1, "b": 1}).append("name", "late");
    let spec = spinney_document::catalog::IndexSpec::parse(spec.finish().view()).unwrap();
    let Added { indexes: added, snapshot, builds } = catalog.add_indexes(bad.state(), &[spec]).unwrap();
    done(&service, "d", r#"{"collMod":"bad","index":{"name":"late","hidden":true}}"#);
    spinney_document::collection::build::build(&catalog, bad.state(), &added, &snapshot).unwrap();
    catalog.finish_indexes(bad.state(), &added).unwrap();
    assert!(bad.schema().index("late").unwrap().is_multikey());
    drop((added, snapshot, builds, bad, catalog, service));
    let service = open(place.path());
    assert!(service.database().collection("d.bad").unwrap().unwrap().schema().index("late").unwrap().is_multikey());
}

#[test]
fn the_end_of_a_build_does_not_bring_back_a_collection_that_was_dropped() {
    let place = tempfile::tempdir().unwrap();
    let service = make(place.path());
    let catalog = std::sync::Arc::clone(service.database().catalog());
    let bad = service.database().collection("d.bad").unwrap().unwrap();
    let spec = json(r#"{"key":{"b":1},"name":"b"}"#);
    let spec = spinney_document::catalog::IndexSpec::parse(spec.view()).unwrap();
    let Added { indexes: added, .. } = catalog.add_indexes(bad.state(), &[spec]).unwrap();
    done(&service, "d", r#"{"drop":"bad"}"#);
    assert_eq!(catalog.finish_indexes(bad.state(), &added).unwrap_err().code().number(), 26);
    done(&service, "d", r#"{"create":"bad"}"#);
    assert_eq!(catalog.finish_indexes(bad.state(), &added).unwrap_err().code().number(), 26);
    let number = number_of(&service, "d.bad");
    drop((added, bad, catalog, service));
    assert_eq!(number_of(&open(place.path()), "d.bad"), number);
}

#[test]
fn an_index_that_another_thread_builds_is_waited_for() {
    // The second of two threads that created an index was told that it is there, while the first one still built it;
    // when that build failed, or the process ended, the index that was acknowledged was gone.
    let place = tempfile::tempdir().unwrap();
    let service = make(place.path());
    let catalog = std::sync::Arc::clone(service.database().catalog());
    let bad = service.database().collection("d.bad").unwrap().unwrap();
    let spec = json(r#"{"key":{"b":1},"name":"b"}"#);
    let spec = spinney_document::catalog::IndexSpec::parse(spec.view()).unwrap();
    let added = catalog.add_indexes(bad.state(), &[spec]).unwrap();
    let number = added.indexes[0].number;
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            done(&service, "d", r#"{"createIndexes":"bad","indexes":[{"key":{"b":1},"name":"b"}]}"#);
        });
        // The first one fails: its build ends, and it has not dropped the index.
        drop(added);
        second.join().unwrap();
    });
    let index = bad.schema().index("b").cloned().unwrap();
    assert!(index.ready && index.number != number);
}

/// A row of a collection as it would be without one of its fields.
#[test]
fn each_field_of_a_row_may_be_missing() {
    let place = tempfile::tempdir().unwrap();
    let service = make(place.path());
    let row = DocumentBuf::from(Document::parse(&catalog(&service).get("d.bad").unwrap().unwrap()).unwrap());
    drop(service);
    for field in ["uuid", "options"] {
        let service = open(place.path());
        let mut builder = DocumentBuilder::new();
        row.view().elements().filter(|element| element.name != field).for_each(|element| {
            builder.append_element(&element);
        });
        catalog(&service).put("d.bad", builder.finish().as_bytes()).unwrap();
        drop(service);
        let service = open(place.path());
        is_damaged(&service, "d", r#"{"find":"bad"}"#, "Drop the collection");
        assert_eq!(service.database().collection("d.good").unwrap().unwrap().count().unwrap(), 1, "{field}");
        // Whoever puts it back has all again.
        catalog(&service).put("d.bad", row.as_bytes()).unwrap();
        drop(service);
        let found = done(&open(place.path()), "d", r#"{"count":"bad"}"#);
        assert!(found.contains(r#""n":2"#), "{found}");
    }
    assert_eq!(row.view().get("n").map(|n| matches!(n, Value::Int64(_))), Some(true));
}

#[test]
fn a_document_with_two_ids_of_an_earlier_version_can_be_replaced_and_removed() {
    // Earlier versions stored such documents. An update that keeps both is refused as an insert of one is; what leaves
    // one or none goes through, or nobody could mend the collection.
    let place = tempfile::tempdir().unwrap();
    let service = make(place.path());
    done(&service, "d", r#"{"insert":"two","documents":[{"_id":1,"x":1},{"_id":2,"x":1}]}"#);
    let state = service.database().collection("d.two").unwrap().unwrap();
    let table = &state.state().table;
    for row in table.range(..) {
        let (key, value) = row.unwrap();
        let mut two = DocumentBuilder::new();
        two.append_all(Document::parse(&value).unwrap()).append("_id", 9);
        table.put(&key, two.finish().as_bytes()).unwrap();
    }
    let kept = r#"{"update":"two","updates":[{"q":{"_id":1},"u":{"$set":{"x":2}}}]}"#;
    let reply = run(&service, "d", kept).unwrap();
    assert!(reply.contains("multiple _id fields"), "{reply}");
    done(&service, "d", r#"{"update":"two","updates":[{"q":{"_id":1},"u":{"_id":1,"x":2}}]}"#);
    done(&service, "d", r#"{"delete":"two","deletes":[{"q":{"_id":2},"limit":1}]}"#);
    let found = done(&service, "d", r#"{"find":"two"}"#);
    assert!(found.contains(r#""firstBatch":[{"_id":1,"x":2}]"#), "{found}");
}
