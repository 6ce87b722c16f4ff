//! Two databases of which one commits and the other applies: they hold the same after every statement, also when the
//! one that applies crashes, and when they change their parts in the middle of a statement.

mod member;
mod own;
mod settings;
mod streams;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney_document::bson::DocumentBuf;
use spinney_document::catalog::adopt;
use spinney_document::command::Service;
use spinney_document::expr::Context;
use spinney_document::plan::Query;
use spinney_document::query::Filter;
use spinney_document::{Database, doc};
use spinney_testkit::{Rng, parallel};

use crate::collections::json;
use crate::crash::model::{State, read_beside};
use crate::crash::statement::Statement;
use member::{Agreement, Member};
use streams::command;

/// Statements of a run.
const STATEMENTS: usize = 80;

fn read(db: &Database) -> State {
    read_beside(db, 1).unwrap()
}

/// What queries that may use indexes find.
fn found(db: &Database, state: &State) -> Vec<String> {
    let mut found = Vec::new();
    for name in state.keys() {
        let collection = db.collection(name).unwrap().unwrap();
        for filter in [doc! {"a": 1}, doc! {"a": "x"}, doc! {"b": 2}, doc! {"u": &doc! {"$gt": 20}}] {
            let query = Query::new(Filter::parse(filter.view(), &Context::default()).unwrap());
            let mut ids: Vec<String> =
                collection.find(query).unwrap().map(|row| row.unwrap().view().to_json()).collect();
            ids.sort();
            found.push(format!("{name} {filter:?}: {ids:?}"));
        }
    }
    found
}

/// The entries of a table.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The content of all tables that the members share, by their names, with what each has for itself left out.
fn tables(db: &Database) -> Vec<(String, Entries)> {
    let shared = db.engine().tables().unwrap().into_iter().filter(|table| table.name() != "applied");
    let content = shared.map(|table| {
        let entries = db.engine().snapshot().range(&table, ..).map(|entry| entry.unwrap());
        let entries = entries.map(|(key, value)| (key, value.to_vec()));
        let own = |key: &[u8]| table.name() == "catalog" && (key.starts_with(b"#") && key != b"#");
        (table.name().to_owned(), entries.filter(|(key, _)| !own(key)).collect())
    });
    content.collect()
}

fn assert_same(one: &Member, other: &Member) {
    let [left, right] = [one, other].map(|member| tables(&member.db));
    for (left, right) in left.iter().zip(&right) {
        assert!(left == right, "the members differ in table {} and {}", left.0, right.0);
    }
    assert_eq!(left.len(), right.len());
}

/// Two members.
struct Pair {
    agreement: Arc<Agreement>,
    primary: Member,
    other: Member,
    seed: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let agreement = Arc::<Agreement>::default();
        let primary = Member::open(SimEnv::new(seed), &agreement);
        primary.lead();
        primary.db.create_collection("t.one", doc! {}.view()).unwrap();
        let other = Member::open(SimEnv::new(!seed), &agreement);
        other.follow();
        Self { agreement, primary, other, seed }
    }

    /// The other member crashes, and applies again what it has lost.
    fn crash_other(&mut self, rng: &mut Rng) {
        self.other.machine.power_crash(*rng.pick(&CrashProfile::EVERY));
        let machine = self.other.machine.fork();
        self.other = Member::open(machine, &self.agreement);
    }

    /// The other member is replaced by one that begins with a copy of the primary's database, which
    /// goes on while that is made.
    fn copy_to_other(&mut self, beside: impl FnOnce()) {
        let copying = self.primary.db.catalog().begin_copy().unwrap();
        beside();
        let dir = format!("/copy-{}", self.agreement.len());
        let copied = copying.checkpoint(&dir).unwrap();
        let machine = self.primary.machine.fork();
        let engine = spinney::Database::builder(&dir).env(machine.env()).open().unwrap();
        adopt(&engine, &copied).unwrap();
        engine.close().unwrap();
        self.other = Member::open_at(&dir, machine, &self.agreement);
    }

    fn change_parts(&mut self) {
        self.primary.step_down();
        self.other.lead();
        std::mem::swap(&mut self.primary, &mut self.other);
        self.other.follow();
    }

    /// A statement that the primary is cut off in: the other member goes on, with or without the last entry, which may
    /// be lost. What it holds is a state of the statement.
    fn cut_off(&mut self, statement: &Statement, state: &State, rng: &mut Rng) -> State {
        let before = self.agreement.len();
        self.primary.cut_off_behind(rng.in_range(0..4));
        let done = statement.run(&self.primary.db);
        // Entries that no other member has are lost with it, and it comes back without them: from a copy.
        let kept = before + rng.in_range(0..self.agreement.len() - before + 1);
        self.agreement.lose_behind(kept);
        self.primary.step_down();
        self.other.lead();
        std::mem::swap(&mut self.primary, &mut self.other);
        if self.other.applied() > kept {
            self.other = Member::open(SimEnv::new(self.seed ^ rng.number()), &self.agreement);
        }
        self.other.follow();
        let found = read(&self.primary.db);
        let states = statement.states(state);
        // A statement of several commits may be done in part.
        let many = matches!(statement, Statement::InsertMany(..) | Statement::Expire(_));
        assert!(many || states.contains(&found), "{statement:?}: {done:?}: found {found:#?}\nof {states:#?}");
        found
    }
}

fn run(seed: u64) -> Result<(), String> {
    let (mut rng, mut pair) = (Rng::new(seed), Pair::new(seed));
    let mut state = read(&pair.primary.db);
    for number in 0..STATEMENTS {
        let statement = Statement::draw(&mut rng);
        if rng.chance(6) {
            state = pair.cut_off(&statement, &state, &mut rng);
        } else {
            let after = statement.apply(&state);
            let done = statement.run(&pair.primary.db);
            assert_eq!(read(&pair.primary.db), after, "statement {number}, {statement:?}: {done:?}");
            state = after;
        }
        match rng.in_range(0..12) {
            0 => {
                pair.crash_other(&mut rng);
                pair.other.follow();
            }
            1 => {
                let half = usize::midpoint(pair.other.applied(), pair.agreement.len());
                pair.other.follow_to(half);
                pair.crash_other(&mut rng);
                pair.other.follow();
            }
            2 => pair.change_parts(),
            // It follows later.
            3 | 4 => continue,
            _ => pair.other.follow(),
        }
        assert_eq!(read(&pair.other.db), state, "statement {number}, {statement:?}: the member that follows");
        assert_eq!(found(&pair.primary.db, &state), found(&pair.other.db, &state));
    }
    pair.other.follow();
    assert_same(&pair.primary, &pair.other);
    pair.crash_other(&mut rng);
    pair.other.follow();
    assert_same(&pair.primary, &pair.other);
    assert_eq!(read(&pair.other.db), state);
    Ok(())
}

#[test]
fn the_members_hold_the_same_whatever_happens() {
    let seeds = parallel::count_from_env("SPINNEY_REPLICATED_SEEDS", 40);
    let from = parallel::count_from_env("SPINNEY_REPLICATED_FROM", 0);
    parallel::each(from..from + seeds, |seed| {
        let done = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let done = done.unwrap_or_else(|panic| Err(spinney_testkit::engine::panic_message(&*panic).to_owned()));
        done.map_err(|what| format!("seed {seed}: {what}"))
    })
    .unwrap_or_else(|what| panic!("{what}"));
}

fn ids(db: &Database) -> Vec<i64> {
    let collection = db.collection("t.one").unwrap().unwrap();
    let id = |document: DocumentBuf| document.view().get("_id").and_then(|id| id.as_exact_i64()).unwrap();
    collection.documents().map(|document| id(document.unwrap().view().into())).collect()
}

#[test]
fn what_was_given_up_keeps_its_locks_until_it_is_known_what_became_of_it() {
    let pair = Pair::new(1);
    let one = pair.primary.db.collection("t.one").unwrap().unwrap();
    one.insert_one(doc! {"_id": 1, "a": 1}.view()).unwrap();
    for applies in [true, false] {
        let before = (one.count().unwrap(), pair.agreement.len());
        pair.primary.give_up(true);
        let refused = one.insert_one(doc! {"_id": 2 + i64::from(applies)}.view()).unwrap_err();
        assert_eq!(refused.code().number(), 11602);
        pair.primary.give_up(false);
        assert_eq!(one.count().unwrap(), before.0);
        // Nobody writes the same document meanwhile, or changes the collection.
        let document = doc! {"_id": 2 + i64::from(applies)};
        let write = || {
            let mut txn = pair.primary.db.begin();
            txn.insert(one.state(), document.view()).and_then(|()| txn.commit()).map_err(|error| error.code().number())
        };
        assert_eq!(write(), Err(112));
        assert!(one.state().change(Duration::ZERO, |schema| Ok((schema.clone(), ()))).is_err());
        pair.primary.end_given_up(applies);
        if !applies {
            pair.agreement.lose_behind(before.1);
        }
        assert_eq!(write(), if applies { Err(11000) } else { Ok(()) });
        assert_eq!(one.count().unwrap(), before.0 + 1);
    }
    assert_eq!(ids(&pair.primary.db), [1, 2, 3]);
    pair.other.follow();
    assert_same(&pair.primary, &pair.other);
}

#[test]
fn a_change_of_the_catalog_that_was_given_up_is_known_where_it_was_made_when_it_is_applied() {
    let pair = Pair::new(3);
    let [here, there] = [&pair.primary, &pair.other].map(|member| Service::new(member.db.clone()));
    let shown = |service: &Service| {
        let names = ["one", "two", "view"].map(|name| format!(r#"{{"listIndexes":"{name}"}}"#));
        let lists = names.iter().map(String::as_str).chain([r#"{"listCollections":1}"#]);
        lists.map(|list| command(service, "t", &json(list)).view().to_json()).collect::<Vec<_>>().join("\n")
    };
    let changes = [
        r#"{"insert":"one","documents":[{"_id":1,"a":1}]}"#,
        r#"{"create":"two","capped":true,"size":4096}"#,
        r#"{"create":"view","viewOn":"one","pipeline":[]}"#,
        r#"{"createIndexes":"one","indexes":[{"key":{"a":1},"name":"a"},{"key":{"b":1},"name":"b"}]}"#,
        r#"{"collMod":"one","index":{"name":"a","hidden":true}}"#,
        r#"{"collMod":"view","viewOn":"two","pipeline":[]}"#,
        r#"{"dropIndexes":"one","index":"b"}"#,
        r#"{"convertToCapped":"one","size":8192}"#,
        r#"{"drop":"two"}"#,
        r#"{"drop":"view"}"#,
    ];
    for change in changes {
        // Each commit of the change is given up once; in the end none is.
        for waited_for in 0.. {
            let before = shown(&here);
            pair.primary.give_up_behind(waited_for);
            let reply = command(&here, "t", &json(change)).view().to_json();
            pair.primary.give_up(false);
            pair.other.follow();
            let given_up = reply.contains(r#""code":11602"#);
            assert!(given_up || reply.contains(r#""ok":1.0"#) || waited_for > 0, "{change}: {reply}");
            assert!(
                !given_up || waited_for > 0 || shown(&here) == before,
                "{change}: nothing is known before it is applied"
            );
            pair.primary.end_given_up(true);
            assert_eq!(shown(&here), shown(&there), "{change}, when {waited_for} commits were waited for: {reply}");
            // As a primary does before others may write.
            pair.primary.lead();
            pair.other.follow();
            assert_eq!(shown(&here), shown(&there), "{change}, cleaned up");
            if !given_up {
                break;
            }
        }
    }
    assert_same(&pair.primary, &pair.other);
    let rename = json(r#"{"renameCollection":"t.one","to":"t.two"}"#);
    pair.primary.give_up(true);
    assert!(command(&here, "admin", &rename).view().to_json().contains(r#""code":11602"#));
    pair.primary.give_up(false);
    pair.primary.end_given_up(true);
    pair.other.follow();
    assert_eq!(shown(&here), shown(&there));
    assert!(command(&here, "t", &json(r#"{"find":"two"}"#)).view().to_json().contains(r#"{"_id":1,"a":1}"#));
}

#[test]
fn a_transaction_of_before_another_member_led_does_not_commit_over_its_changes() {
    let mut pair = Pair::new(2);
    let one = pair.primary.db.collection("t.one").unwrap().unwrap();
    one.insert_one(doc! {"_id": 1, "a": 1}.view()).unwrap();
    let mut of_key = pair.primary.db.begin();
    let old = of_key.find_by_id(one.state(), &1.into()).unwrap().unwrap();
    of_key.replace(one.state(), old.view(), doc! {"_id": 1, "a": 2}.view()).unwrap();
    let mut of_schema = pair.primary.db.begin();
    of_schema.insert(one.state(), doc! {"_id": 7, "a": 2}.view()).unwrap();
    pair.other.follow();
    pair.change_parts();
    let there = pair.primary.db.collection("t.one").unwrap().unwrap();
    there.replace_by_id(1, doc! {"a": 5}.view()).unwrap();
    pair.primary.db.create_indexes("t.one", &[doc! {"key": &doc! {"a": 1}, "name": "a"}]).unwrap();
    pair.other.follow();
    pair.change_parts();
    for late in [of_key, of_schema] {
        assert_eq!(late.commit().unwrap_err().code().number(), 112);
    }
    assert!(one.validate().unwrap().is_valid());
    assert_eq!(one.find_by_id(1).unwrap().unwrap().view().to_json(), r#"{"_id":1,"a":5}"#);
    assert_eq!(one.schema().indexes.len(), 1);
    // What changes nothing needs no agreement, and no primary.
    let agreed = pair.agreement.len();
    let there = pair.other.db.collection("t.one").unwrap().unwrap();
    assert!(!there.delete_by_id(99).unwrap());
    assert_eq!(there.update_many(doc! {"a": 77}.view(), doc! {"$set": &doc! {"a": 1}}.view()).unwrap().matched, 0);
    pair.other.db.begin().commit().unwrap();
    assert_eq!(pair.agreement.len(), agreed);
    // A member that does not lead changes nothing.
    let refused = pair.other.db.collection("t.one").unwrap().unwrap().insert_one(doc! {"_id": 9}.view());
    assert_eq!(refused.unwrap_err().code().number(), 10107);
    assert_eq!(pair.other.db.create_collection("t.x", doc! {}.view()).unwrap_err().code().number(), 10107);
}

#[test]
fn what_was_applied_is_durable_before_a_table_is_dropped() {
    let mut pair = Pair::new(3);
    pair.primary.db.create_collection("t.gone", doc! {}.view()).unwrap();
    let gone = pair.primary.db.collection("t.gone").unwrap().unwrap();
    gone.insert_one(doc! {"_id": 1}.view()).unwrap();
    let table = gone.state().table.name().to_owned();
    pair.other.follow();
    // Not synced yet, and the table is dropped then.
    gone.insert_one(doc! {"_id": 2}.view()).unwrap();
    pair.other.follow();
    pair.other.db.catalog().apply_drop_tables(&[&table]).unwrap();
    pair.other.machine.power_crash(CrashProfile::Strict);
    let engine = spinney::Database::builder("/db").env(pair.other.machine.fork().env()).open().unwrap();
    assert!(engine.table(&table).unwrap().is_none());
    let applied = engine.table("applied").unwrap().unwrap().get("at").unwrap().unwrap();
    let applied = u64::from_le_bytes(*applied.first_chunk().unwrap());
    assert_eq!(
        applied,
        u64::try_from(pair.agreement.len()).unwrap(),
        "the insert is not applied again without its table"
    );
    pair.other = Member::open(SimEnv::new(4), &pair.agreement);
    pair.other.follow();
    assert_same(&pair.primary, &pair.other);
}
