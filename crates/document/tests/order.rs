//! Cluster times in the order of commits: threads write, in transactions and without, into several collections that are
//! made, renamed and dropped meanwhile, while others copy what is there as connectors do.
//!
//! A copier takes a time in one of four ways: of a snapshot session, of a reply before it reads everything or reads a
//! snapshot at that time, of an event. Then it reads a stream that starts at that time, or goes on behind a token.
//! Checked are:
//!
//! 1. In every stream cluster times do not go back; events of one commit alone have the same.
//! 2. A stream that starts at a time has exactly the events of the whole stream with that time or a later one.
//! 3. What a snapshot at a time has, and the events behind that time, give the final state: for each document, each
//!    version from the snapshot on, once.
//! 4. The time that was shown before a write began is before the time of the write's event; the time that is shown
//!    after a write was acknowledged is at the time of its event or later.
//!
//! `SPINNEY_ORDER_EVENTS` is about how many events there are (60,000); `SPINNEY_ORDER_SEED` the first seed.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and a long run tells how many events it had"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spinney::Options;
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Timestamp, Value};
use spinney_document::command::{Client, Request, Service, ServiceOptions};
use spinney_document::{Database, doc};

const WRITERS: u64 = 6;
const COPIERS: u64 = 2;
const SNAPSHOT_AT: &str = "a snapshot at the time of a reply";
const SNAPSHOT_TOO_OLD: i32 = 239;
const COLLECTIONS: [&str; 3] = ["a", "b", "c"];

fn size() -> u64 {
    std::env::var("SPINNEY_ORDER_EVENTS").map_or(60_000, |count| count.parse().unwrap())
}

fn seed() -> u64 {
    std::env::var("SPINNEY_ORDER_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// Random numbers of a thread (xorshift64).
struct Random(u64);

impl Random {
    fn new(thread: u64) -> Self {
        Self((seed() * 1000 + thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// An event, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time: u64,
    token: String,
    /// What happened, the collection, the document and its version.
    text: String,
    write: Option<u64>,
    commit: String,
}

struct Server {
    service: Service,
    /// What each write was shown: before it began, and after it was acknowledged.
    shown: Mutex<BTreeMap<u64, (u64, u64)>>,
    next_write: AtomicU64,
    written: AtomicU64,
    ended: AtomicBool,
}

impl Server {
    fn run(&self, command: &DocumentBuf) -> DocumentBuf {
        let client = Client::default();
        self.service.run(&Request { database: "app", body: command.view(), sequences: &[], client: &client })
    }

    /// The time that a reply would show.
    fn now(&self) -> u64 {
        shown_time(self.service.database())
    }

    fn session(&self, number: u64) -> DocumentBuf {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        doc! {"id": Value::Binary(4, &id)}
    }

    /// Writes a document by one statement; its number is its version too.
    fn write(&self, random: &mut Random, thread: u64, of_transaction: Option<(&DocumentBuf, i64, bool)>) -> bool {
        let number = self.next_write.fetch_add(1, Ordering::Relaxed);
        let before = self.now();
        let collection = COLLECTIONS[usize::try_from(random.below(3)).unwrap()];
        let id = i64::try_from(thread * 1000 + random.below(40)).unwrap();
        let version = i64::try_from(number).unwrap();
        let query = doc! {"_id": id};
        let set = doc! {"$set": &doc! {"w": version}};
        let update = doc! {"q": &query, "u": &set, "upsert": true};
        let mut command = DocumentBuilder::new();
        command.append("update", collection);
        command.open_array("updates").push(&update).close();
        if of_transaction.is_none() && random.below(64) == 0 {
            // It holds those back that are ordered behind it.
            command.append("writeConcern", &doc! {"j": true});
        }
        if let Some((lsid, txn, first)) = of_transaction {
            command.append("lsid", lsid).append("txnNumber", txn).append("autocommit", false);
            if first {
                command.append("startTransaction", true);
            }
        }
        let reply = self.run(&command.finish());
        let done = reply.view().get("ok") == Some(Value::Double(1.0));
        if of_transaction.is_none() && done {
            let after = self.now();
            self.shown.lock().unwrap().insert(number, (before, after));
        }
        done
    }

    fn write_all(&self, thread: u64) {
        let mut random = Random::new(thread);
        let session = self.session(thread);
        let mut txn = 0_i64;
        while self.written.load(Ordering::Relaxed) < size() {
            match random.below(8) {
                0 => {
                    txn += 1;
                    let count = 1 + random.below(4);
                    let done = (0..count).all(|at| self.write(&mut random, thread, Some((&session, txn, at == 0))));
                    let end = if done { "commitTransaction" } else { "abortTransaction" };
                    let mut command = DocumentBuilder::new();
                    command.append(end, 1).append("lsid", &session).append("txnNumber", txn);
                    command.append("autocommit", false);
                    let end = command.finish();
                    let client = Client::default();
                    let request = Request { database: "admin", body: end.view(), sequences: &[], client: &client };
                    drop(self.service.run(&request));
                    self.written.fetch_add(count, Ordering::Relaxed);
                }
                1 if thread == 0 && random.below(20) == 0 => {
                    let name = format!("t{}", random.below(3));
                    let (created, other) = (doc! {"create": name.as_str()}, format!("app.{name}2"));
                    drop(self.run(&created));
                    let from = format!("app.{name}");
                    let rename = doc! {"renameCollection": from.as_str(), "to": other.as_str(), "dropTarget": true};
                    let client = Client::default();
                    let request = Request { database: "admin", body: rename.view(), sequences: &[], client: &client };
                    drop(self.service.run(&request));
                    drop(self.run(&doc! {"drop": format!("{name}2").as_str()}));
                    self.written.fetch_add(3, Ordering::Relaxed);
                }
                _ => {
                    self.write(&mut random, thread, None);
                    self.written.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// The events of a stream over the database, with these options, until it has none when the writers have ended.
    fn read(&self, options: &DocumentBuf, batches: usize) -> Vec<Event> {
        let stage = doc! {"$changeStream": options};
        let mut command = DocumentBuilder::new();
        command.append("aggregate", 1).open_array("pipeline").push(&stage).close();
        command.append("cursor", &doc! {"batchSize": 1000});
        let mut reply = self.run(&command.finish());
        let (mut events, mut name) = (Vec::new(), "firstBatch");
        let mut left = batches;
        loop {
            let cursor = reply.view().get("cursor").and_then(|cursor| cursor.as_document());
            let cursor = cursor.unwrap_or_else(|| panic!("{options:?}: {reply:?}"));
            let batch = cursor.get(name).unwrap().as_array().unwrap();
            let before = events.len();
            events.extend(batch.values().map(|event| event_of(event.as_document().unwrap())));
            let id = cursor.get("id").unwrap().as_exact_i64().unwrap();
            left = left.saturating_sub(1);
            if left == 0 || batches == usize::MAX && events.len() == before && self.ended.load(Ordering::Acquire) {
                drop(self.run(&doc! {"killCursors": "$cmd.aggregate", "cursors": id}));
                return events;
            }
            name = "nextBatch";
            reply =
                self.run(&doc! {"getMore": id, "collection": "$cmd.aggregate", "batchSize": 1000, "maxTimeMS": 100});
        }
    }

    /// The documents of the collections: by collection and `_id` their versions. Read at a time, or now. Nothing when
    /// the server has no snapshot of the time, as there are later commits.
    fn copy_at(&self, snapshot: bool, mut at: Option<u64>) -> Option<(BTreeMap<String, i64>, Option<u64>)> {
        let mut found = BTreeMap::new();
        for collection in COLLECTIONS {
            let mut command = DocumentBuilder::new();
            command.append("find", collection).append("batchSize", 100_000).append("singleBatch", true);
            if snapshot {
                let concern = match at {
                    None => doc! {"level": "snapshot"},
                    Some(at) => doc! {"level": "snapshot", "atClusterTime": Value::Timestamp(Timestamp::from_bits(at))},
                };
                command.append("readConcern", &concern);
            }
            let reply = self.run(&command.finish());
            let cursor = reply.view().get("cursor").and_then(|cursor| cursor.as_document());
            if found.is_empty() && at.is_some() && reply.view().get("code") == Some(Value::Int32(SNAPSHOT_TOO_OLD)) {
                return None;
            }
            let cursor = cursor.unwrap_or_else(|| panic!("{reply:?}"));
            if let Some(Value::Timestamp(time)) = cursor.get("atClusterTime") {
                at = Some(time.bits());
            }
            for document in cursor.get("firstBatch").unwrap().as_array().unwrap().values() {
                let document = document.as_document().unwrap();
                let number = |name| document.get(name).unwrap().as_exact_i64().unwrap();
                found.insert(format!("{collection} {}", number("_id")), number("w"));
            }
        }
        Some((found, at))
    }

    fn copy(&self, snapshot: bool) -> (BTreeMap<String, i64>, Option<u64>) {
        self.copy_at(snapshot, None).unwrap()
    }
}

fn shown_time(database: &Database) -> u64 {
    database.catalog().recorder().clock().visible(database.engine()).0.bits()
}

fn event_of(event: Document<'_>) -> Event {
    let text = |document: Document<'_>, name: &str| {
        document.get(name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let Some(Value::Timestamp(time)) = event.get("clusterTime") else { panic!("{event}") };
    let token = text(event.get("_id").unwrap().as_document().unwrap(), "_data");
    let id = event.get("documentKey").and_then(|key| key.as_document()).and_then(|key| key.get("_id"));
    let id = id.and_then(|id| id.as_exact_i64());
    let whole = event.get("fullDocument").and_then(|document| document.as_document());
    let updated = event.get("updateDescription").and_then(|document| document.as_document());
    let updated = updated.and_then(|updated| updated.get("updatedFields")).and_then(|fields| fields.as_document());
    let version = whole.or(updated).and_then(|document| document.get("w")).and_then(|version| version.as_exact_i64());
    let collection = event.get("ns").and_then(|ns| ns.as_document()).map(|ns| text(ns, "coll")).unwrap_or_default();
    let what = match id {
        Some(id) => format!("{collection} {id}"),
        None => format!("{} {collection}", text(event, "operationType")),
    };
    Event {
        time: time.bits(),
        commit: token[..16].to_owned(),
        token,
        text: what,
        write: version.map(|version| u64::try_from(version).unwrap()),
    }
}

/// Where a copier began, and what it had.
enum Copy {
    /// A snapshot, or a read of everything behind a time that was shown.
    Documents { what: &'static str, at: u64, documents: BTreeMap<String, i64> },
    /// A stream from the time of an event, as far as it was read.
    Stream { options: String, at: Begin, events: Vec<Event> },
}

enum Begin {
    Time(u64),
    Token(String),
}

fn copy_all(server: &Server, number: u64) -> Vec<Copy> {
    let (mut random, mut copies) = (Random::new(100 + number), Vec::new());
    let mut known: Vec<Event> = Vec::new();
    while !server.ended.load(Ordering::Acquire) && copies.len() < 400 {
        match random.below(5) {
            4 => {
                let at = server.now();
                if let Some((documents, _)) = server.copy_at(true, Some(at)) {
                    copies.push(Copy::Documents { what: SNAPSHOT_AT, at, documents });
                }
            }
            0 => {
                let (documents, at) = server.copy(true);
                copies.push(Copy::Documents { what: "a snapshot session", at: at.unwrap(), documents });
            }
            1 => {
                let at = server.now();
                let documents = server.copy(false).0;
                copies.push(Copy::Documents { what: "a read behind the time of a reply", at, documents });
            }
            2 if !known.is_empty() => {
                let from = &known[usize::try_from(random.below(known.len() as u64)).unwrap()];
                let (options, at) = match random.below(2) {
                    0 => {
                        let time = Value::Timestamp(Timestamp::from_bits(from.time));
                        (doc! {"startAtOperationTime": time}, Begin::Time(from.time))
                    }
                    _ => {
                        let token = doc! {"_data": from.token.as_str()};
                        (doc! {"resumeAfter": &token}, Begin::Token(from.token.clone()))
                    }
                };
                let events = server.read(&options, 2);
                copies.push(Copy::Stream { options: format!("{options:?}"), at, events });
            }
            _ => {
                let at = server.now();
                let options = doc! {"startAtOperationTime": Value::Timestamp(Timestamp::from_bits(at))};
                known = server.read(&options, 2);
                copies.push(Copy::Stream {
                    options: format!("{options:?}"),
                    at: Begin::Time(at),
                    events: known.clone(),
                });
            }
        }
    }
    copies
}

/// What does not hold, by kind: how often, and the first.
#[derive(Default)]
struct Faults(BTreeMap<&'static str, (usize, String)>);

impl Faults {
    fn add(&mut self, kind: &'static str, what: impl FnOnce() -> String) {
        let (count, _) = self.0.entry(kind).or_insert_with(|| (0, what()));
        *count += 1;
    }
}

fn check_order(events: &[Event], faults: &mut Faults) {
    for pair in events.windows(2) {
        if pair[0].time > pair[1].time {
            faults.add("times that go back in a stream", || format!("{pair:?}"));
        } else if pair[0].time == pair[1].time && pair[0].commit != pair[1].commit {
            faults.add("two commits with one time", || format!("{pair:?}"));
        }
    }
}

fn check_copy(copy: &Copy, all: &[Event], last: &BTreeMap<String, i64>, faults: &mut Faults) {
    match copy {
        Copy::Documents { what, at, documents } => {
            let mut state = documents.clone();
            for event in all.iter().filter(|event| event.time > *at) {
                if let Some(write) = event.write {
                    state.insert(event.text.clone(), i64::try_from(write).unwrap());
                }
            }
            if state != *last {
                let wrong = last.iter().filter(|(id, version)| state.get(*id) != Some(version)).count();
                faults.add("documents that a copy and the stream behind it lack", || {
                    format!("{wrong} documents by {what} at {}", Timestamp::from_bits(*at).time)
                });
            }
            // A snapshot has nothing that is later than its time.
            let later: BTreeSet<_> =
                all.iter().filter(|event| event.time > *at).filter_map(|event| event.write).collect();
            let early = documents.values().filter(|version| later.contains(&u64::try_from(**version).unwrap())).count();
            if ["a snapshot session", SNAPSHOT_AT].contains(what) && early > 0 {
                faults.add("documents of a snapshot that are later than its time", || format!("{early} documents"));
            }
        }
        Copy::Stream { options, at, events } => {
            check_order(events, faults);
            let is_in = |event: &&Event| match at {
                Begin::Time(time) => event.time >= *time,
                Begin::Token(token) => event.token > *token,
            };
            let wanted: Vec<&Event> = all.iter().filter(is_in).take(events.len()).collect();
            if wanted != events.iter().collect::<Vec<_>>() {
                let lost = wanted.iter().filter(|event| !events.contains(event)).count();
                faults.add("events that a stream lacks", || format!("{lost} of {} by {options}", wanted.len()));
            }
        }
    }
}

fn open(dir: &std::path::Path) -> Server {
    let options = Options::default().memory_bytes(64 << 20).log_keep_bytes(1 << 30);
    let options = options.durability(spinney::Durability::Buffered);
    let database = Database::open(dir.join("db"), options).unwrap();
    let service = Service::with_options(database, ServiceOptions { replica_set: true, ..ServiceOptions::default() });
    Server {
        service,
        shown: Mutex::default(),
        next_write: AtomicU64::new(1),
        written: AtomicU64::new(0),
        ended: AtomicBool::new(false),
    }
}

/// Two writers took their times before the log ordered them: a connector that copied a snapshot, and read the stream
/// behind its time, lost up to six documents in 12 of 15 tries.
#[test]
fn times_are_in_the_order_of_commits_and_what_was_shown_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let server = open(dir.path());
    COLLECTIONS.iter().for_each(|name| drop(server.run(&doc! {"create": *name})));
    let begin = server.now();
    let copies: Vec<Copy> = std::thread::scope(|scope| {
        let server = &server;
        let copiers: Vec<_> = (0..COPIERS).map(|number| scope.spawn(move || copy_all(server, number))).collect();
        let writers: Vec<_> = (0..WRITERS).map(|thread| scope.spawn(move || server.write_all(thread))).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        server.ended.store(true, Ordering::Release);
        copiers.into_iter().flat_map(|copier| copier.join().unwrap()).collect()
    });
    let options = doc! {"startAtOperationTime": Value::Timestamp(Timestamp::from_bits(begin))};
    // Streams show what is durable.
    server.service.database().engine().sync().unwrap();
    let (all, (last, _)) = (server.read(&options, usize::MAX), server.copy(false));
    let mut faults = Faults::default();
    check_order(&all, &mut faults);
    copies.iter().for_each(|copy| check_copy(copy, &all, &last, &mut faults));
    let shown = server.shown.lock().unwrap();
    for event in &all {
        let Some((before, after)) = event.write.and_then(|write| shown.get(&write)) else { continue };
        if event.time <= *before {
            faults.add("events at or below a time that was shown before them", || format!("{event:?} {before}"));
        }
        if event.time > *after {
            faults.add("writes that are later than the time of a reply behind them", || format!("{event:?} {after}"));
        }
    }
    println!("{} events, {} copies and streams, seed {}", all.len(), copies.len(), seed());
    let told: Vec<String> =
        faults.0.iter().map(|(kind, (count, first))| format!("{count} {kind}; first: {first}")).collect();
    assert!(
        told.is_empty(),
        "SPINNEY_ORDER_SEED={} SPINNEY_ORDER_EVENTS={} cargo test -p spinney-document --test order\n{}",
        seed(),
        size(),
        told.join("\n")
    );
    assert!(all.len() as u64 >= size() / 2, "{} events", all.len());
}

/// The database of `testdata/cluster-time-ahead`, which a server has made whose clients moved its cluster time to 2106.
/// Zeros at the ends of its files are not kept.
fn ahead(dir: &std::path::Path) -> std::path::PathBuf {
    let from = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cluster-time-ahead");
    let to = dir.join("ahead");
    std::fs::create_dir_all(to.join("log")).unwrap();
    for (name, bytes) in [
        ("CURRENT", 43),
        ("000003.manifest", 65_674),
        ("000003.manifest-copy", 138),
        ("log/0000000000000001.log", 1 << 20),
    ] {
        let mut content = std::fs::read(from.join(name)).unwrap();
        content.resize(bytes, 0);
        std::fs::write(to.join(name), content).unwrap();
    }
    to
}

fn serve(path: &std::path::Path) -> Service {
    let options = Options::default().memory_bytes(64 << 20).log_keep_bytes(64 << 20);
    let database = Database::open(path, options).unwrap();
    Service::with_options(database, ServiceOptions { replica_set: true, ..ServiceOptions::default() })
}

fn run(service: &Service, text: &str) -> String {
    let (client, body) = (Client::default(), DocumentBuf::from_json(text).unwrap());
    service.run(&Request { database: "app", body: body.view(), sequences: &[], client: &client }).view().to_json()
}

/// By 80 finds with `$clusterTime`, each a year later, the cluster time went to the year 2106 for good.
#[test]
fn a_cluster_time_far_ahead_is_set_back_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = ahead(dir.path());
    let mut last = 0;
    for start in 0..3 {
        let service = serve(&path);
        let recorder = service.database().catalog().recorder();
        match recorder.ahead() {
            Some(ahead) => assert!(start == 0 && ahead.is_set_back && ahead.time.time > 4_200_000_000, "{ahead:?}"),
            None => assert!(start > 0),
        }
        let now = shown_time(service.database());
        let (wall, is_cut) = (recorder.clock().wall(), recorder.since().unwrap().is_cut);
        assert!(is_cut && now > last && Timestamp::from_bits(now).time <= wall.time, "{start}");
        let count = run(&service, r#"{"count": "people"}"#);
        assert!(count.contains(&format!(r#""n":{}"#, 2 + start)), "{count}");
        // A token and times of before are lost: one of the time when all was well, and those of far ahead.
        let stream = |option: &str| {
            let stage = format!(r#"{{"$changeStream": {{{option}}}}}"#);
            run(&service, &format!(r#"{{"aggregate": "people", "pipeline": [{stage}], "cursor": {{}}}}"#))
        };
        let at = |t: u32| format!(r#""startAtOperationTime": {{"$timestamp": {{"t": {t}, "i": 1}}}}"#);
        let token = r#""resumeAfter": {"_data": "000000000000405900000000006B0B39AC6F576B02"}"#;
        for lost in [token, &at(1_795_897_772), &at(4_275_000_000)] {
            assert!(stream(lost).contains(r#""code":286,"#), "{lost}: {}", stream(lost));
        }
        // Those of now on are in order.
        let insert = format!(r#"{{"insert": "people", "documents": [{{"_id": {}}}]}}"#, 10 + start);
        assert!(run(&service, &insert).contains(r#""ok":1.0"#));
        let begin = Timestamp::from_bits(now);
        let option =
            format!(r#""startAtOperationTime": {{"$timestamp": {{"t": {}, "i": {}}}}}"#, begin.time, begin.increment);
        let events = stream(&option);
        assert_eq!(events.matches("clusterTime").count(), 1, "{events}");
        last = shown_time(service.database());
        assert!(last > now);
    }
}
