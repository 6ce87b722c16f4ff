//! Writers that go on while primaries come and go.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use spinney_document::doc;

use super::set::{Members, SOON, Set, writable};

const WRITERS: usize = 4;
const ROUNDS: usize = 5;

/// Inserts and deletes documents on whichever member takes writes; those whose insert was acknowledged and that were
/// not deleted, and those of which nobody knows.
fn write(members: &Members, next: &AtomicI32, ended: &AtomicBool) -> (BTreeSet<i32>, BTreeSet<i32>) {
    let (mut kept, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    while !ended.load(Ordering::Relaxed) {
        let Some(database) = writable(members) else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        let id = next.fetch_add(1, Ordering::Relaxed);
        let collection = if id % 16 == 0 { format!("app.extra{id}") } else { "app.people".to_owned() };
        let inserted = database
            .collection_or_create(&collection)
            .and_then(|people| people.insert_one(doc! {"_id": id, "name": "Ada"}.view()));
        if collection != "app.people" {
            continue;
        }
        match inserted.map_err(|error| error.code().number()) {
            Ok(_) => drop(kept.insert(id)),
            Err(10107) => {}
            Err(_) => drop(unknown.insert(id)),
        }
        if let Some(old) = kept.iter().next().copied().filter(|_| id % 3 == 0) {
            let deleted = database.collection_or_create("app.people").and_then(|people| people.delete_by_id(old));
            match deleted.map_err(|error| error.code().number()) {
                Ok(deleted) => {
                    assert!(deleted, "document {old} was acknowledged");
                    kept.remove(&old);
                }
                Err(10107) => {}
                Err(_) => {
                    kept.remove(&old);
                    unknown.insert(old);
                }
            }
        }
    }
    (kept, unknown)
}

#[test]
fn what_was_acknowledged_is_there_whatever_happened_to_primaries() {
    let mut set = Set::initiated(3);
    let members = Members::default();
    let publish = |set: &Set| {
        let all = set.members.iter().map(|member| member.as_ref().map(|m| (m.node.clone(), m.database.clone())));
        *members.lock().unwrap() = all.collect();
    };
    publish(&set);
    let (next, ended) = (AtomicI32::new(1), AtomicBool::new(false));
    let written = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(|| write(&members, &next, &ended))).collect();
        for round in 0..ROUNDS {
            thread::sleep(Duration::from_millis(300));
            let primary = set.primary();
            let host = set.member(primary).host.clone();
            match round % 3 {
                0 => {
                    set.mesh.cut(&host, true);
                    thread::sleep(Duration::from_secs(2));
                    set.mesh.cut(&host, false);
                }
                1 => {
                    // Nobody may be caught up just now.
                    drop(set.member(primary).node.step_down(Duration::from_secs(1), Duration::from_secs(5), false));
                }
                _ => {
                    set.members[primary].as_ref().unwrap().node.end(Duration::ZERO);
                    members.lock().unwrap()[primary] = None;
                    set.close(primary, Duration::ZERO);
                    thread::sleep(Duration::from_millis(500));
                    set.open(primary);
                    publish(&set);
                }
            }
        }
        set.primary();
        thread::sleep(Duration::from_millis(300));
        ended.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    let primary = set.primary();
    set.member(primary).node.linearizable(SOON).unwrap();
    set.check_equal();
    let people = set.member(primary).database.collection("app.people").unwrap().unwrap();
    for (kept, unknown) in &written {
        assert!(!kept.is_empty());
        for id in kept {
            assert!(people.find_by_id(*id).unwrap().is_some(), "document {id} was acknowledged");
        }
        assert!(unknown.len() < 1000, "few writes are in doubt: {}", unknown.len());
    }
}
