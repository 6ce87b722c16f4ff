//! Unique keys under threads: documents are inserted, changed, renamed, upserted, replaced and deleted, by statements
//! and in transactions, while indexes are built, dropped and made unique. While an index is unique no two documents
//! share a key, and a key that only one thread uses is refused exactly when a document has it.
//!
//! It would not see that a key that several threads use is refused without a reason. `SPINNEY_CONSTRAINTS` says how
//! many rounds are played, `SPINNEY_CONSTRAINTS_FROM` the first: it decides what each thread does, not how they take
//! turns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use spinney::Options;
use spinney_document::Database;
use spinney_document::bson::{DocumentBuf, Value};
use spinney_document::command::Service;
use spinney_testkit::parallel::count_from_env;
use spinney_testkit::rng::Rng;

use super::service::json;

const WRITERS: u64 = 3;
const STEPS: usize = 150;
/// Keys that all threads use, and those that each has for itself.
const SHARED: usize = 12;
const OWN: usize = 8;

const DUPLICATE_KEY: i64 = 11_000;

/// The unique indexes that come and go, on fields whose keys threads share.
const INDEXES: [(&str, &str); 4] = [
    ("k", r#"{"key": {"k": 1}, "name": "k", "sparse": true"#),
    ("s", r#"{"key": {"s": 1}, "name": "s", "sparse": true, "collation": {"locale": "en", "strength": 1}"#),
    ("m", r#"{"key": {"m": 1}, "name": "m", "sparse": true"#),
    ("c", r#"{"key": {"c": 1, "k": -1}, "name": "c", "partialFilterExpression": {"c": {"$exists": true}}"#),
];

/// The code of the error of a command or its only statement, and the first field of the key that was refused.
fn refused(reply: &DocumentBuf) -> Option<(i64, String)> {
    let errors = reply.view().get("writeErrors").and_then(|errors| errors.as_array());
    let error = errors.and_then(|errors| errors.values().next()).and_then(|error| error.as_document());
    let error = error.unwrap_or(reply.view());
    let code = error.get("code")?.as_exact_i64()?;
    let pattern = error.get("keyPattern").and_then(|pattern| pattern.as_document());
    let field = pattern.and_then(|pattern| pattern.first()).map(|field| field.name.to_str_lossy().into_owned());
    Some((code, field.unwrap_or_default()))
}

/// A thread that writes, and the keys of its own that its documents have.
struct Writer<'s> {
    service: &'s Service,
    number: u64,
    random: Rng,
    documents: BTreeMap<u64, Option<u64>>,
    next: u64,
    transactions: u64,
}

impl Writer<'_> {
    /// Fields with keys that other threads use as well; half of them are strings or arrays.
    fn shared(&mut self) -> String {
        let value = self.random.in_range(0..SHARED);
        let text = ["x", "X", "é", "E", "y", "z", "ä", "a", "b", "c", "d", "ö"][value];
        match self.random.in_range(0..4) {
            0 => format!(r#""k": {value}"#),
            1 => format!(r#""s": "{text}""#),
            2 => format!(r#""m": [{value}, {}, {value}]"#, value + 100 * (1 + usize::try_from(self.number).unwrap())),
            _ => format!(r#""c": {}, "k": {value}"#, value % 3),
        }
    }

    fn own(&mut self) -> u64 {
        1000 * (self.number + 1) + u64::try_from(self.random.in_range(0..OWN)).unwrap()
    }

    fn has(&self, key: u64) -> bool {
        self.documents.values().any(|known| *known == Some(key))
    }

    /// Some document of the thread.
    fn any(&mut self) -> Option<u64> {
        let at = self.random.in_range(0..self.documents.len().max(1));
        self.documents.keys().nth(at).copied()
    }

    /// Checks what became of a statement that gives the document `id` the key `own`; whether it was done.
    fn judged(&self, command: &str, reply: &DocumentBuf, id: u64, own: Option<u64>) -> bool {
        let is_taken = own.is_some_and(|own| self.documents.iter().any(|(of, key)| *of != id && *key == Some(own)));
        match refused(reply) {
            None => {
                assert!(!is_taken, "{command}: done, although a document of the thread has the key: {reply:?}");
                true
            }
            Some((DUPLICATE_KEY, field)) if field == "p" => {
                assert!(is_taken, "{command}: refused, although no document has the key: {reply:?}");
                false
            }
            // Another thread's document has a shared key, or changes it at this moment.
            Some((DUPLICATE_KEY | 112, _)) => false,
            Some(other) => panic!("{command}: {other:?}, {reply:?}"),
        }
    }

    fn step(&mut self) {
        let (shared, own) = (self.shared(), self.own());
        let Some(id) = self.any().filter(|_| self.random.chance(80)) else { return self.insert(&shared, own) };
        let whole = |text: &str| format!(r#"{{"update": "c", "updates": [{{"q": {{"_id": {id}}}, "u": {text}}}]}}"#);
        let before = self.documents[&id];
        let (command, after) = match self.random.in_range(0..9) {
            0 => (whole(&format!(r#"{{"$set": {{"p": {own}}}}}"#)), Some(own)),
            1 => (whole(&format!(r#"{{"$set": {{{shared}}}}}"#)), before),
            2 => (whole(&format!(r#"{{"$set": {{"p": {own}, {shared}}}}}"#)), Some(own)),
            3 => (whole(r#"{"$unset": {"p": 1, "k": 1, "s": 1, "m": 1, "c": 1}}"#), None),
            4 => (whole(&format!(r#"{{"p": {own}, {shared}}}"#)), Some(own)),
            5 => {
                let reply = json(self.service, &whole(&format!(r#"{{"$set": {{"q": {own}}}, "$unset": {{"p": 1}}}}"#)));
                assert!(self.judged("a value to rename", &reply, id, None));
                self.documents.insert(id, None);
                (whole(r#"{"$rename": {"q": "p"}}"#), Some(own))
            }
            6 => {
                let update = format!(r#"[{{"$set": {{"p": {{"$add": [{own}, 0]}}, "z": "$p"}}}}]"#);
                (format!(r#"{{"findAndModify": "c", "query": {{"_id": {id}}}, "update": {update}}}"#), Some(own))
            }
            7 => {
                json(self.service, &format!(r#"{{"delete": "c", "deletes": [{{"q": {{"_id": {id}}}, "limit": 1}}]}}"#));
                self.documents.remove(&id);
                return;
            }
            _ => return self.swap(id),
        };
        let reply = json(self.service, &command);
        // What has the key already is not changed.
        if self.judged(&command, &reply, id, after) {
            self.documents.insert(id, after);
        }
    }

    /// An insert, or an upsert by the key.
    fn insert(&mut self, shared: &str, own: u64) {
        let id = 1_000_000 * (self.number + 1) + self.next;
        self.next += 1;
        let is_upsert = self.random.chance(50) && !self.has(own);
        let command = if is_upsert {
            let update = format!(r#"{{"$setOnInsert": {{"_id": {id}, {shared}}}}}"#);
            format!(r#"{{"update": "c", "updates": [{{"q": {{"p": {own}}}, "u": {update}, "upsert": true}}]}}"#)
        } else {
            format!(r#"{{"insert": "c", "documents": [{{"_id": {id}, "p": {own}, {shared}}}]}}"#)
        };
        let reply = json(self.service, &command);
        if self.judged(&command, &reply, id, Some(own)) {
            self.documents.insert(id, Some(own));
        }
    }

    /// Exchanges the keys of two documents in a transaction: in between one of them has none.
    fn swap(&mut self, first: u64) {
        let Some(second) = self.any().filter(|second| *second != first) else { return };
        self.transactions += 1;
        let session = format!(
            r#""lsid": {{"id": {{"$uuid": "00000000-0000-4000-8000-0000000000{:02x}"}}}},
                "txnNumber": {{"$numberLong": "{}"}}, "autocommit": false"#,
            self.number, self.transactions
        );
        let (keys, mut starts) = ((self.documents[&first], self.documents[&second]), r#", "startTransaction": true"#);
        let set = |key: Option<u64>| match key {
            Some(key) => format!(r#"{{"$set": {{"p": {key}}}}}"#),
            None => r#"{"$unset": {"p": 1}}"#.to_owned(),
        };
        for (id, update) in [(first, set(None)), (second, set(keys.0)), (first, set(keys.1))] {
            let updates = format!(r#""updates": [{{"q": {{"_id": {id}}}, "u": {update}}}]"#);
            let reply = json(self.service, &format!(r#"{{"update": "c", {updates}, {session}{starts}}}"#));
            starts = "";
            if let Some((code, _)) = refused(&reply) {
                // A change of an index came between, or waits.
                assert!([112, 24, 251].contains(&code), "{reply:?}");
                json(self.service, &format!(r#"{{"abortTransaction": 1, {session}}}"#));
                return;
            }
        }
        let reply = json(self.service, &format!(r#"{{"commitTransaction": 1, {session}}}"#));
        match refused(&reply) {
            None => {
                self.documents.insert(first, keys.1);
                self.documents.insert(second, keys.0);
            }
            Some((code, _)) => assert!([112, 24, 251].contains(&code), "{reply:?}"),
        }
    }
}

/// How many keys of an index two documents share, in one state.
fn shared_keys(service: &Service, field: &str) -> i64 {
    let (prepare, key) = match field {
        "m" => (
            r#"{"$match": {"m": {"$exists": true}}}, {"$set": {"m": {"$setUnion": ["$m", []]}}}, {"$unwind": "$m"},"#,
            r#""$m""#,
        ),
        "s" => (r#"{"$match": {"s": {"$exists": true}}},"#, r#""$s""#),
        "c" => (r#"{"$match": {"c": {"$exists": true}}},"#, r#"{"c": "$c", "k": "$k"}"#),
        "p" => (r#"{"$match": {"p": {"$exists": true}}},"#, r#""$p""#),
        _ => (r#"{"$match": {"k": {"$exists": true}}},"#, r#""$k""#),
    };
    let collation = if field == "s" { r#", "collation": {"locale": "en", "strength": 1}"# } else { "" };
    let reply = json(
        service,
        &format!(
            r#"{{"aggregate": "c", "pipeline": [{prepare} {{"$group": {{"_id": {key}, "n": {{"$sum": 1}}}}}},
                {{"$match": {{"n": {{"$gt": 1}}}}}}, {{"$count": "n"}}], "cursor": {{}}{collation}}}"#
        ),
    );
    let cursor = reply.view().get("cursor").unwrap_or_else(|| panic!("{reply:?}")).as_document().unwrap();
    let batch = cursor.get("firstBatch").unwrap().as_array().unwrap();
    let first = batch.values().next().and_then(|first| first.as_document());
    first.map_or(0, |first| first.get("n").and_then(|n| n.as_exact_i64()).unwrap())
}

/// Makes indexes unique, in one step or by `prepareUnique`, looks for shared keys while they are, and drops them.
fn change_indexes(service: &Service, seed: u64, ended: &AtomicBool) -> usize {
    let (mut random, mut made) = (Rng::new(seed), 0);
    while !ended.load(Ordering::Relaxed) {
        let (field, spec) = *random.pick(&INDEXES);
        let create = |more: &str| json(service, &format!(r#"{{"createIndexes": "c", "indexes": [{spec}{more}}}]}}"#));
        let modify = |what: &str| {
            json(service, &format!(r#"{{"collMod": "c", "index": {{"name": "{field}", "{what}": true}}}}"#))
        };
        let clear = || {
            let unset = r#"{"$unset": {"k": 1, "s": 1, "m": 1, "c": 1}}"#;
            json(service, &format!(r#"{{"update": "c", "updates": [{{"q": {{}}, "u": {unset}, "multi": true}}]}}"#));
        };
        let is_prepared = random.chance(50);
        let made_unique = if is_prepared {
            assert_eq!(refused(&create("")), None);
            assert_eq!(refused(&modify("prepareUnique")), None);
            // From here on nothing new is shared, so that when the older keys are gone it can be made unique.
            clear();
            refused(&modify("unique"))
        } else {
            refused(&create(r#", "unique": true"#))
        };
        match made_unique {
            None => {
                made += 1;
                for _ in 0..3 {
                    assert_eq!(shared_keys(service, field), 0, "keys of {field}, which is unique");
                }
            }
            Some((code, _)) => assert!(!is_prepared && code == DUPLICATE_KEY, "{code} of {field}"),
        }
        json(service, &format!(r#"{{"dropIndexes": "c", "index": "{field}"}}"#));
        // So that a later one can be made.
        clear();
    }
    made
}

fn play(seed: u64) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let engine = spinney::Database::open(directory.path().join("db"), Options::default()).unwrap();
    let service = Service::new(Database::with_engine(engine).unwrap());
    json(
        &service,
        r#"{"createIndexes": "c", "indexes": [{"key": {"p": 1}, "name": "p", "unique": true, "sparse": true}]}"#,
    );
    let ended = AtomicBool::new(false);
    let made = scope(|threads| {
        let changes = threads.spawn(|| change_indexes(&service, seed, &ended));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (service, random) = (&service, Rng::new(seed.wrapping_mul(WRITERS).wrapping_add(number)));
                threads.spawn(move || {
                    let (documents, next, transactions) = (BTreeMap::new(), 0, 0);
                    let mut writer = Writer { service, number, random, documents, next, transactions };
                    (0..STEPS).for_each(|_| writer.step());
                    writer.documents
                })
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        ended.store(true, Ordering::Relaxed);
        let made = changes.join().unwrap();
        let expected: BTreeMap<u64, Option<u64>> = written.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(found(&service), expected, "seed {seed}: the documents and their keys");
        made
    });
    assert_eq!(shared_keys(&service, "p"), 0, "seed {seed}");
    let valid = json(&service, r#"{"validate": "c"}"#);
    assert_eq!(valid.view().get("valid"), Some(Value::Bool(true)), "seed {seed}: {valid:?}");
    made
}

/// The documents, and the keys that only one thread uses.
fn found(service: &Service) -> BTreeMap<u64, Option<u64>> {
    let reply = json(service, r#"{"find": "c", "projection": {"p": 1}, "batchSize": 100000}"#);
    let cursor = reply.view().get("cursor").unwrap().as_document().unwrap();
    let whole = |value: Value<'_>| u64::try_from(value.as_exact_i64().unwrap()).unwrap();
    let documents = cursor.get("firstBatch").unwrap().as_array().unwrap();
    let documents = documents.values().filter_map(|document| document.as_document());
    documents.map(|document| (whole(document.get("_id").unwrap()), document.get("p").map(whole))).collect()
}

#[test]
fn no_two_documents_share_a_unique_key_whatever_happens_beside() {
    let first = count_from_env("SPINNEY_CONSTRAINTS_FROM", 1);
    let rounds = count_from_env("SPINNEY_CONSTRAINTS", 20);
    let made: usize = (first..first + rounds).map(play).sum();
    assert!(made >= usize::try_from(rounds).unwrap(), "indexes were made unique {made} times");
}
