//! The databases under `testdata/faults`, which have faults of earlier versions: each opens, its fault is named, and
//! what the guide says mends it.

use std::path::{Path, PathBuf};

use spinney_document::Database;
use spinney_document::collection::Validation;
use spinney_document::command::Service;
use tempfile::TempDir;

use crate::damage::copy;
use crate::made::{documents, done, options};

/// A copy of a database, open.
fn open(name: &str) -> (TempDir, Service) {
    let place = tempfile::tempdir().unwrap();
    let kept: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/faults").join(name);
    copy(&kept, place.path());
    let service = Service::new(Database::open(place.path(), options()).unwrap());
    (place, service)
}

fn validate(service: &Service) -> Validation {
    service.database().collection("shop.p").unwrap().unwrap().validate().unwrap()
}

#[test]
fn a_document_with_two_ids_is_named_and_can_be_replaced() {
    let (_place, service) = open("two-ids");
    let found = validate(&service);
    assert!(found.problems[0].contains("_id 1 has 2 fields _id"), "{found:?}");
    assert_eq!((found.problem_count, found.malformed_documents), (1, 1));
    done(&service, r#"{"update": "p", "updates": [{"q": {"_id": 1}, "u": {"_id": 1, "x": 1}}]}"#);
    assert!(validate(&service).is_valid());
}

#[test]
fn a_time_to_live_of_zero_is_a_warning() {
    let (_place, service) = open("zero-expiry");
    let found = validate(&service);
    assert!(found.is_valid() && found.warnings[0].contains("index d_1: expireAfterSeconds is 0"), "{found:?}");
    done(&service, r#"{"collMod": "p", "index": {"name": "d_1", "expireAfterSeconds": 86400}}"#);
    assert_eq!(validate(&service).warnings, <[String; 0]>::default());
}

#[test]
fn indexes_that_disagree_are_named_and_built_again() {
    // A salvage copied 348 of 400 documents, and all entries of their indexes.
    let mends = [r#"{"reIndex": "p"}"#, r#"{"validate": "p", "repair": true}"#];
    for command in mends {
        let (_place, service) = open("disagreeing");
        let found = validate(&service);
        assert_eq!(found.damaged_indexes, ["k_1", "code_1"]);
        assert_eq!((found.documents, found.extra_entries), (348, 104));
        assert_eq!(validate(&service), found, "a check changes nothing");
        let reply = done(&service, r#"{"validate": "p"}"#);
        assert!(reply.view().to_json().contains("reIndex"), "{}", reply.view().to_json());
        done(&service, command);
        assert!(validate(&service).is_valid(), "{command}: {:?}", validate(&service));
        let count = done(&service, r#"{"count": "p"}"#);
        assert_eq!(count.view().get("n").and_then(|n| n.as_exact_i64()), Some(348));
        assert_eq!(documents(&service, "p").len(), 348);
    }
}

#[test]
fn users_come_back() {
    let (_place, service) = open("users");
    let users = service.database().collection("admin.system.users").unwrap().unwrap();
    assert!(users.validate().unwrap().is_valid());
    assert_eq!(users.count().unwrap(), 1);
}
