//! Cluster times of a set whose primaries come and go: the same on each member, in the order of the set's commits, and
//! complete when they were shown.
//!
//! `SPINNEY_ORDER_EVENTS` is about how many events there are (2,000).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use spinney_document::bson::{Document, DocumentBuf, Timestamp, Value};
use spinney_document::command::{Client, Request, Service, ServiceOptions};
use spinney_document::{Database, doc};

use super::set::{Members, SOON, Set, writable};

const WRITERS: usize = 4;

fn shown(database: &Database) -> u64 {
    database.catalog().recorder().clock().visible(database.engine()).0.bits()
}

/// Inserts documents on whichever member takes writes; by their ids the times that it showed before each and after it
/// was acknowledged.
fn write(members: &Members, next: &AtomicI32, ended: &AtomicBool) -> BTreeMap<i64, (u64, u64)> {
    let mut written = BTreeMap::new();
    while !ended.load(Ordering::Relaxed) {
        let Some(database) = writable(members) else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        let id = next.fetch_add(1, Ordering::Relaxed);
        let before = shown(&database);
        let collection = if id % 2 == 0 { "app.even" } else { "app.odd" };
        let inserted =
            database.collection_or_create(collection).and_then(|all| all.insert_one(doc! {"_id": id}.view()));
        if inserted.is_ok() {
            written.insert(i64::from(id), (before, shown(&database)));
        }
    }
    written
}

/// The events of a member: times, and the ids of documents.
fn events(database: &Database, from: u64) -> Vec<(u64, Option<i64>)> {
    let options = ServiceOptions { replica_set: true, ..ServiceOptions::default() };
    let service = Service::with_options(database.clone(), options);
    let run = |body: &DocumentBuf| {
        let client = Client::default();
        service.run(&Request { database: "app", body: body.view(), sequences: &[], client: &client })
    };
    let options =
        doc! {"startAtOperationTime": Value::Timestamp(Timestamp::from_bits(from)), "showExpandedEvents": true};
    let stage = doc! {"$changeStream": &options};
    let mut command = spinney_document::bson::DocumentBuilder::new();
    command.append("aggregate", 1).open_array("pipeline").push(&stage).close();
    command.append("cursor", &doc! {"batchSize": 1000});
    let (mut reply, mut name, mut all) = (run(&command.finish()), "firstBatch", Vec::new());
    loop {
        let cursor = reply.view().get("cursor").and_then(|cursor| cursor.as_document());
        let cursor = cursor.unwrap_or_else(|| panic!("{reply:?}"));
        let before = all.len();
        for event in cursor.get(name).unwrap().as_array().unwrap().values().filter_map(|event| event.as_document()) {
            let Some(Value::Timestamp(time)) = event.get("clusterTime") else { panic!("{event}") };
            let id = event.get("documentKey").and_then(|key| key.as_document()).and_then(id_of);
            all.push((time.bits(), id));
        }
        if all.len() == before && name == "nextBatch" {
            return all;
        }
        name = "nextBatch";
        let id = cursor.get("id").unwrap().as_exact_i64().unwrap();
        reply = run(&doc! {"getMore": id, "collection": "$cmd.aggregate", "batchSize": 1000, "maxTimeMS": 200});
    }
}

fn id_of(key: Document<'_>) -> Option<i64> {
    key.get("_id")?.as_exact_i64()
}

/// A commit of a set had the time of the thread that prepared it, and its place in the order of the proposals.
#[test]
fn times_of_a_set_are_in_the_order_of_its_commits_whichever_member_is_primary() {
    let size = std::env::var("SPINNEY_ORDER_EVENTS").map_or(2_000, |count| count.parse().unwrap());
    let mut set = Set::keeping(3, 1 << 30);
    set.member(0).node.initiate((0..3).map(super::set::member).collect()).unwrap();
    set.insert_by_primary(0);
    let begin = shown(&set.member(set.primary()).database);
    let members = Members::default();
    let publish = |set: &Set| {
        let all = set.members.iter().map(|member| member.as_ref().map(|m| (m.node.clone(), m.database.clone())));
        *members.lock().unwrap() = all.collect();
    };
    publish(&set);
    let (next, ended) = (AtomicI32::new(1), AtomicBool::new(false));
    let written = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(|| write(&members, &next, &ended))).collect();
        for round in 1..=4 {
            while next.load(Ordering::Relaxed) < size * round / 5 {
                thread::sleep(Duration::from_millis(5));
            }
            let primary = set.primary();
            if round % 2 == 1 {
                // Nobody may be caught up just now.
                drop(set.member(primary).node.step_down(Duration::from_secs(1), Duration::from_secs(5), false));
                continue;
            }
            set.members[primary].as_ref().unwrap().node.end(Duration::ZERO);
            members.lock().unwrap()[primary] = None;
            set.close(primary, Duration::ZERO);
            set.open(primary);
            publish(&set);
        }
        while next.load(Ordering::Relaxed) < size {
            thread::sleep(Duration::from_millis(5));
        }
        ended.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<BTreeMap<_, _>>()
    });
    let primary = set.primary();
    set.member(primary).node.linearizable(SOON).unwrap();
    set.check_equal();
    let all = events(&set.member(primary).database, begin + 1);
    for pair in all.windows(2) {
        assert!(pair[0].0 < pair[1].0, "times go back, or two commits have one: {pair:?}");
    }
    let times: BTreeMap<i64, u64> = all.iter().filter_map(|(time, id)| Some(((*id)?, *time))).collect();
    assert!(written.len() > 100, "{}", written.len());
    for (id, (before, after)) in &written {
        let time = times.get(id).unwrap_or_else(|| panic!("the event of document {id} is lost"));
        assert!(before < time && time <= after, "document {id}: shown {before} and {after}, and its time is {time}");
    }
    for (at, member) in set.running() {
        let own = events(&member.database, begin + 1);
        assert_eq!(own, all, "member {at} has the events of member {primary}");
        let from = all[all.len() / 2].0;
        assert_eq!(events(&member.database, from), all[all.len() / 2..], "member {at} from the middle");
    }
}
