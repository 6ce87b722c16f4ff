//! Writes of a set whose primary changes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spinney_document::bson::DocumentBuf;
use spinney_document::command::{Client, Request, Service};
use spinney_document::doc;
use spinney_replica::{Acknowledgement, Role};

use super::set::{SOON, Set};

#[test]
fn a_set_of_three_has_one_primary_and_all_members_have_its_writes() {
    let set = Set::initiated(3);
    let primary = set.primary();
    for id in 0..50 {
        set.insert(primary, id).unwrap();
    }
    let node = &set.member(primary).node;
    node.linearizable(SOON).unwrap();
    node.wait_replicated(node.status().applied, Acknowledgement::Count(3), SOON).unwrap();
    set.check_equal();
    let status = node.status();
    assert_eq!((status.role, status.writable, status.me), (Role::Primary, true, status.primary));
    let config = status.config.unwrap();
    assert_eq!((config.version, config.members.len()), (1, 3));
    for (at, member) in set.running().filter(|(at, _)| *at != primary) {
        let error = set.insert(at, 1000).unwrap_err();
        assert_eq!(error.code().number(), 10107, "{error}");
        assert_eq!(member.node.status().primary_host(), Some(&*set.member(primary).host));
        assert!(member.node.linearizable(SOON).is_err());
    }
}

#[test]
fn writes_go_on_when_the_primary_is_gone_and_it_catches_up_when_it_is_back() {
    let mut set = Set::initiated(3);
    let first = set.primary();
    for id in 0..20 {
        set.insert(first, id).unwrap();
    }
    set.close(first, Duration::ZERO);
    let second = set.primary();
    for id in 20..40 {
        set.insert(second, id).unwrap();
    }
    set.open(first);
    set.check_equal();
    // The other two lack a majority without the third.
    let third = 3 - first - second;
    set.close(third, Duration::from_secs(5));
    let primary = set.primary();
    for id in 40..50 {
        set.insert(primary, id).unwrap();
    }
    set.check_equal();
}

#[test]
fn a_primary_that_is_cut_off_acknowledges_nothing_and_follows_later() {
    let set = Set::initiated(3);
    let first = set.primary();
    set.insert(first, 1).unwrap();
    set.mesh.cut(&set.member(first).host, true);
    let error = set.insert(first, 2).unwrap_err();
    assert!([10107, 11602].contains(&error.code().number()), "{error}");
    let second = set.primary();
    assert_ne!(first, second);
    set.insert(second, 3).unwrap();
    set.mesh.cut(&set.member(first).host, false);
    set.check_equal();
    let status = set.member(first).node.status();
    assert_eq!(status.role, Role::Secondary, "{status:?}");
}

#[test]
fn a_write_without_an_answer_is_done_once_when_it_is_sent_again() {
    let set = Set::initiated(3);
    let services: Vec<Service> = set.running().map(|(_, member)| Service::new(member.database.clone())).collect();
    let run = |at: usize, command: &str| {
        let (body, client) = (DocumentBuf::from_json(command).unwrap(), Client::default());
        let request = Request { database: "app", body: body.view(), sequences: &[], client: &client };
        services[at].run(&request).view().to_json()
    };
    run(set.primary(), r#"{"insert":"c","documents":[{"_id":1,"n":0}]}"#);
    for number in 1..=3 {
        let first = set.primary();
        let others = || (0..3).filter(|at| *at != first).map(|at| &set.member(at).host);
        others().for_each(|host| set.mesh.cut(host, true));
        let session = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}}"#;
        let update = format!(
            r#"{{"update":"c","updates":[{{"q":{{"_id":1}},"u":{{"$inc":{{"n":1}}}}}}],{session},"txnNumber":{{"$numberLong":"{number}"}}}}"#
        );
        let reply = run(first, &update);
        assert!(reply.contains("11602") || reply.contains("10107"), "{reply}");
        others().for_each(|host| set.mesh.cut(host, false));
        let reply = run(set.primary(), &update);
        assert!(reply.contains(r#""n":1,"#), "{reply}");
        let found = run(set.primary(), r#"{"find":"c"}"#);
        assert!(found.contains(&format!(r#"{{"_id":1,"n":{number}}}"#)), "{found}");
    }
}

#[test]
fn a_primary_hands_over_when_it_is_asked_to() {
    let set = Set::initiated(3);
    let first = set.primary();
    set.insert(first, 1).unwrap();
    set.member(first).node.step_down(Duration::from_secs(20), SOON, false).unwrap();
    let second = set.primary();
    assert_ne!(first, second);
    set.insert(second, 2).unwrap();
    set.check_equal();
}

#[test]
fn what_was_under_way_when_a_primary_lost_its_majority_ends_and_all_can_be_written_again() {
    const DOCUMENTS: i32 = 16;
    let set = Set::initiated(3);
    let first = set.primary();
    (0..DOCUMENTS).for_each(|id| set.insert(first, id).unwrap());
    for cut in [1600, 2100, 3100].map(Duration::from_millis) {
        let first = set.primary();
        let database = &set.member(first).database;
        let others = || set.running().filter(|(at, _)| *at != first).map(|(_, member)| &member.host);
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            for id in 0..DOCUMENTS {
                let (people, ended) = (database.collection("app.people").unwrap().unwrap(), &ended);
                scope.spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        // It is refused when there is no majority.
                        drop(people.replace_by_id(id, doc! {"name": "Grace"}.view()));
                    }
                });
            }
            let ended = &ended;
            scope.spawn(move || {
                let mut number = 0;
                while !ended.load(Ordering::Relaxed) {
                    number += 1;
                    drop(database.collection_or_create(&format!("app.of{cut:?}{number}")));
                }
            });
            thread::sleep(Duration::from_millis(200));
            others().for_each(|host| set.mesh.cut(host, true));
            thread::sleep(cut);
            ended.store(true, Ordering::Relaxed);
            others().for_each(|host| set.mesh.cut(host, false));
            // Each thread has its answer, or the scope does not end.
        });
        let healed = Instant::now();
        let primary = set.primary();
        let people = set.member(primary).database.collection("app.people").unwrap().unwrap();
        for id in 0..DOCUMENTS {
            people.replace_by_id(id, doc! {"name": "Ada"}.view()).unwrap();
        }
        set.member(primary).database.create_collection(&format!("app.behind{cut:?}"), doc! {}.view()).unwrap();
        assert!(healed.elapsed() < Duration::from_secs(20), "{:?}", healed.elapsed());
        set.check_equal();
    }
}
