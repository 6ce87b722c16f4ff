//! What is kept in the database and held in memory: a member acts on what another one has changed.

use spinney_document::bson::DocumentBuf;
use spinney_document::command::{Client, Request, Service};
use spinney_document::{Database, doc};

use super::Pair;

fn run(service: &Service, database: &str, command: &str) -> DocumentBuf {
    let body = DocumentBuf::from_json(command).unwrap();
    service.run(&Request { database, body: body.view(), sequences: &[], client: &Client::default() })
}

fn code(reply: &DocumentBuf) -> i64 {
    reply.view().get("code").and_then(|code| code.as_exact_i64()).unwrap_or_default()
}

fn services(pair: &Pair) -> [Service; 2] {
    [&pair.primary.db, &pair.other.db].map(|db: &Database| Service::new(db.clone()))
}

#[test]
fn query_settings_are_those_of_the_set() {
    let pair = Pair::new(21);
    pair.primary.db.collection("t.one").unwrap().unwrap().insert_one(doc! {"_id": 1, "a": 1}.view()).unwrap();
    pair.other.follow();
    let [primary, other] = services(&pair);
    let find = r#"{"find": "one", "filter": {"a": 1}}"#;
    // Read by both before there are any.
    assert_eq!((code(&run(&primary, "t", find)), code(&run(&other, "t", find))), (0, 0));
    let set = r#"{"setQuerySettings": {"find": "one", "filter": {"a": 9}, "$db": "t"}, "settings": {"reject": true}}"#;
    assert_eq!(code(&run(&primary, "admin", set)), 0);
    assert_eq!((code(&run(&primary, "t", find)), code(&run(&other, "t", find))), (411, 0));
    pair.other.follow();
    assert_eq!(code(&run(&other, "t", find)), 411);
    // They outlive the process.
    assert_eq!(code(&run(&Service::new(pair.primary.db.clone()), "t", find)), 411);
    let remove = r#"{"removeQuerySettings": {"find": "one", "filter": {"a": 0}, "$db": "t"}}"#;
    assert_eq!(code(&run(&primary, "admin", remove)), 0);
    pair.other.follow();
    assert_eq!((code(&run(&primary, "t", find)), code(&run(&other, "t", find))), (0, 0));
}

#[test]
fn cluster_parameters_are_those_of_the_set() {
    // A member read them once, and went by what it had read until it was started again.
    let pair = Pair::new(22);
    let [primary, other] = services(&pair);
    let limits = || {
        [&primary, &other].map(|service| {
            let state = service.state();
            state.parameters.read_ms(&state.database).unwrap()
        })
    };
    assert_eq!(limits(), [0, 0]);
    let set = r#"{"setClusterParameter": {"defaultMaxTimeMS": {"readOperations": 5000}}}"#;
    assert_eq!(code(&run(&primary, "admin", set)), 0);
    pair.other.follow();
    assert_eq!(limits(), [5000, 5000]);
}
