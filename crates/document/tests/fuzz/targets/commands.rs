//! Commands on a database of their own: each is answered, and what they leave is valid.

use std::sync::Arc;

use spinney::env::sim::SimEnv;
use spinney_document::Database;
use spinney_document::base::Environment;
use spinney_document::bson::{Checks, Document};
use spinney_document::command::{Client, Request, Service, ServiceOptions};

/// A clock that stands still.
#[derive(Debug)]
struct Still;

impl Environment for Still {
    fn now_ms(&self) -> i64 {
        1_700_000_000_123
    }

    fn random(&self) -> u64 {
        9
    }
}

/// The input: commands, on the database `app` or that of `$db`.
pub(super) fn run(input: &[u8]) -> bool {
    let (commands, all) = super::split(input);
    let machine = SimEnv::new(3);
    let options = spinney::Options::default().memory_bytes(16 << 20).log_segment_bytes(64 << 10);
    let engine =
        spinney::Database::builder("/db").options(options).env(machine.env()).open().expect("an empty machine");
    let database = Database::with_parts(engine, Arc::new(Still)).expect("an empty database");
    let options = ServiceOptions { replica_set: true, ..ServiceOptions::default() };
    let service = Service::with_options(database.clone(), options);
    for command in commands {
        let database = command.get("$db").and_then(|name| name.as_str()).unwrap_or("app");
        let request = Request { database, body: command, sequences: &[], client: &Client::default() };
        let reply = service.run(&request);
        super::check_made(&reply);
        assert!(reply.view().get("ok").is_some(), "{} is answered", command.to_json());
    }
    drop(service);
    check(&database);
    all
}

/// Each index agrees with its collection, and each document is one.
fn check(database: &Database) {
    for name in database.list_databases() {
        for listed in database.list_collections(&name) {
            let listed = listed.view();
            if listed.get("type").and_then(|kind| kind.as_str()) != Some("collection") {
                continue;
            }
            let collection = listed.get("name").and_then(|name| name.as_str()).expect("a collection has a name");
            let namespace = format!("{name}.{collection}");
            let collection = database.collection(&namespace).expect("a collection").expect("it is listed");
            let validation = collection.validate().expect("nothing fails");
            assert!(validation.is_valid(), "{namespace}: {validation:?}");
            for document in collection.documents() {
                let checks = Checks { utf8: false, ..Checks::default() };
                let document = document.expect("nothing fails");
                Document::parse_with(document.view().as_bytes(), checks).expect("what is stored is BSON");
            }
        }
    }
}
