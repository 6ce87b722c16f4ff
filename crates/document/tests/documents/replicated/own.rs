//! What each member has for itself: the profiles of its databases.

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney_document::catalog::adopt;
use spinney_document::{Database, ErrorCode, doc};

use super::{Pair, assert_same};
use crate::replicated::member::Member;

const PROFILE: &str = "t.system.profile";

fn create(db: &Database) -> spinney_document::Result<()> {
    db.create_collection(PROFILE, doc! {"capped": true, "size": 4096}.view())
}

fn insert(db: &Database, id: i32) {
    db.collection(PROFILE).unwrap().unwrap().insert_one(doc! {"_id": id}.view()).unwrap();
}

fn ids(db: &Database) -> Option<Vec<String>> {
    let documents = db.collection(PROFILE).unwrap()?.documents();
    Some(documents.map(|document| document.unwrap().view().to_json()).collect())
}

fn tables_of_its_own(db: &Database) -> Vec<String> {
    let names = db.engine().tables().unwrap().into_iter().map(|table| table.name().to_owned());
    names.filter(|name| name.starts_with("oc-") || name.starts_with("oi-")).collect()
}

#[test]
fn each_member_writes_a_profile_that_the_others_do_not_have() {
    let mut pair = Pair::new(11);
    let agreed = pair.agreement.len();
    create(&pair.other.db).unwrap();
    (1..=3).for_each(|id| insert(&pair.other.db, id));
    assert_eq!((pair.agreement.len(), ids(&pair.primary.db)), (agreed, None), "nobody is asked, and nobody is told");
    create(&pair.primary.db).unwrap();
    insert(&pair.primary.db, 7);
    pair.primary.db.collection("t.one").unwrap().unwrap().insert_one(doc! {"_id": 1}.view()).unwrap();
    pair.other.follow();
    assert_eq!(pair.agreement.len(), agreed + 1);
    assert_eq!(ids(&pair.primary.db).unwrap(), [r#"{"_id":7}"#]);
    assert_eq!(ids(&pair.other.db).unwrap(), [r#"{"_id":1}"#, r#"{"_id":2}"#, r#"{"_id":3}"#]);
    assert_eq!(pair.other.db.collection(PROFILE).unwrap().unwrap().count().unwrap(), 3);
    // It stays when the member leads, and when it is opened again.
    pair.change_parts();
    assert_eq!(ids(&pair.primary.db).unwrap().len(), 3);
    pair.primary.db.engine().sync().unwrap();
    pair.primary.machine.power_crash(CrashProfile::Strict);
    let reopened = Member::open(pair.primary.machine.fork(), &pair.agreement);
    assert_eq!(ids(&reopened.db).unwrap().len(), 3);
    assert_eq!(tables_of_its_own(&reopened.db).len(), 2);
    // The smallest of its options is changed and kept too.
    reopened.db.modify_collection(PROFILE, doc! {"size": 8192}.view()).unwrap();
    assert_eq!(reopened.db.collection(PROFILE).unwrap().unwrap().schema().options.capped.unwrap().bytes_max, 8192);
}

#[test]
fn a_profile_goes_by_itself_and_with_its_database() {
    let pair = Pair::new(12);
    for db in [&pair.primary.db, &pair.other.db] {
        create(db).unwrap();
        insert(db, 1);
    }
    assert!(pair.other.db.drop_collection(PROFILE).unwrap());
    assert_eq!((ids(&pair.other.db), tables_of_its_own(&pair.other.db)), (None, Vec::new()));
    assert!(ids(&pair.primary.db).is_some());
    create(&pair.other.db).unwrap();
    insert(&pair.other.db, 2);
    pair.primary.db.drop_database("t").unwrap();
    pair.other.follow();
    for member in [&pair.primary, &pair.other] {
        assert_eq!((ids(&member.db), tables_of_its_own(&member.db)), (None, Vec::new()));
        assert!(member.db.list_databases().is_empty());
    }
}

#[test]
fn a_copy_has_no_profile_of_the_member_that_it_is_of() {
    let pair = Pair::new(13);
    create(&pair.primary.db).unwrap();
    insert(&pair.primary.db, 1);
    let copied = pair.primary.db.catalog().begin_copy().unwrap().checkpoint("/copy").unwrap();
    let machine = pair.primary.machine.fork();
    let engine = spinney::Database::builder("/copy").env(machine.env()).open().unwrap();
    adopt(&engine, &copied).unwrap();
    engine.close().unwrap();
    let copy = Member::open_at("/copy", machine, &pair.agreement);
    assert_eq!((ids(&copy.db), tables_of_its_own(&copy.db)), (None, Vec::new()));
    create(&copy.db).unwrap();
    insert(&copy.db, 9);
    assert_eq!(ids(&copy.db).unwrap(), [r#"{"_id":9}"#]);
}

#[test]
fn a_profile_of_before_the_database_was_of_a_member_goes_when_it_leads() {
    let machine = SimEnv::new(14);
    {
        let options = spinney::Options::default().log_keep_bytes(8 << 20);
        let engine = spinney::Database::builder("/db").options(options).env(machine.env()).open().unwrap();
        let alone = Database::with_engine(engine).unwrap();
        create(&alone).unwrap();
        insert(&alone, 1);
        assert!(tables_of_its_own(&alone).is_empty());
    }
    let agreement = std::sync::Arc::default();
    let member = Member::open(machine, &agreement);
    assert!(ids(&member.db).is_some());
    member.lead();
    assert_eq!(ids(&member.db), None);
    create(&member.db).unwrap();
    insert(&member.db, 2);
    assert_eq!(tables_of_its_own(&member.db).len(), 2);
}

#[test]
fn what_would_have_to_be_agreed_on_is_refused_for_a_profile() {
    let pair = Pair::new(15);
    let db = &pair.primary.db;
    create(db).unwrap();
    insert(db, 1);
    let code = |done: spinney_document::Result<()>| done.unwrap_err().code();
    let index = [doc! {"key": &doc! {"op": 1}, "name": "op_1"}];
    assert_eq!(code(db.create_indexes(PROFILE, &index).map(drop)), ErrorCode::ILLEGAL_OPERATION);
    assert_eq!(code(db.rename_collection(PROFILE, "t.two", false)), ErrorCode::ILLEGAL_OPERATION);
    assert_eq!(code(db.rename_collection("t.one", "u.system.profile", false)), ErrorCode::ILLEGAL_OPERATION);
    assert_eq!(code(db.convert_to_capped(PROFILE, 4096)), ErrorCode::ILLEGAL_OPERATION);
    assert_eq!(code(db.create_collection("u.system.profile", doc! {}.view())), ErrorCode::INVALID_OPTIONS);
    let other = db.collection("t.one").unwrap().unwrap();
    let mixed = db.collection(PROFILE).unwrap().unwrap().transact(Default::default(), |txn| {
        txn.insert(db.collection(PROFILE).unwrap().unwrap().state(), doc! {"_id": 5}.view())?;
        txn.insert(other.state(), doc! {"_id": 5}.view())
    });
    assert_eq!(code(mixed), ErrorCode::ILLEGAL_OPERATION);
    assert_eq!(ids(db).unwrap(), [r#"{"_id":1}"#]);
    pair.other.follow();
    // But for what is not shared.
    assert!(db.drop_collection(PROFILE).unwrap());
    assert_same_but_own(&pair);
}

/// The table of the rows of own collections is there where there was one.
fn assert_same_but_own(pair: &Pair) {
    pair.other.db.engine().open_or_create_table("catalog-own", spinney::TableOptions::default()).unwrap();
    assert_same(&pair.primary, &pair.other);
}
