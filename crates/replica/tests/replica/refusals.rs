//! Commits that a set refuses.

use spinney_document::bson::{DocumentBuf, DocumentBuilder};
use spinney_document::command::{Client, Request, Service};
use spinney_document::doc;

use super::set::Set;

#[test]
fn a_transaction_that_is_too_large_is_refused_and_known_not_to_be_committed() {
    let set = Set::initiated(3);
    let primary = set.primary();
    let service = Service::new(set.member(primary).database.clone());
    let client = Client::default();
    let run = |database: &str, body: &DocumentBuf| {
        let request = Request { database, body: body.view(), sequences: &[], client: &client };
        service.run(&request).view().to_json()
    };
    let session = r#"{"lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000002"}},"txnNumber":{"$numberLong":"1"},"autocommit":false}"#;
    let session = DocumentBuf::from_json(session).unwrap();
    run("app", &doc! {"create": "c"});
    let part = "x".repeat(15 << 20);
    for id in 0..3 {
        let mut body = DocumentBuilder::new();
        body.append("insert", "c").open_array("documents");
        body.push_document().append("_id", id).append("part", &*part).close().close();
        body.append_all(session.view());
        if id == 0 {
            body.append("startTransaction", true);
        }
        let reply = run("app", &body.finish());
        assert!(reply.contains(r#""n":1"#), "{reply}");
    }
    let mut commit = DocumentBuilder::new();
    commit.append("commitTransaction", 1).append_all(session.view());
    let reply = run("admin", &commit.finish());
    assert!(reply.contains(r#""code":257"#) && !reply.contains("UnknownTransactionCommitResult"), "{reply}");
    let reply = run("app", &doc! {"count": "c"});
    assert!(reply.contains(r#""n":0"#), "{reply}");
    set.insert(primary, 1).unwrap();
    set.check_equal();
}

#[test]
fn a_program_without_the_set_does_not_change_the_database_of_a_member() {
    let mut set = Set::initiated(1);
    set.insert(0, 1).unwrap();
    set.close(0, std::time::Duration::ZERO);
    let refused = spinney_document::Database::open(set.path(0), spinney::Options::default()).unwrap_err();
    assert_eq!(refused.code().number(), 20, "{refused}");
    // It may read.
    let engine = spinney::Database::open_read_only(set.path(0)).unwrap();
    let database = spinney_document::Database::with_engine(engine).unwrap();
    assert_eq!(database.collection("app.people").unwrap().unwrap().count().unwrap(), 1);
    drop(database);
    set.open(0);
    set.primary();
    set.insert(0, 2).unwrap();
}
