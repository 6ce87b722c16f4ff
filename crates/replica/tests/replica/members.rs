//! Members that are added, removed, preferred, and get copies of the database.

use std::time::{Duration, Instant};

use spinney_document::doc;
use spinney_replica::{Config, Error, Member, Role};

use super::set::{SOON, Set, host, member};

/// The configuration in force, with the next version.
fn next(set: &Set, at: usize) -> Config {
    let mut config = set.member(at).node.status().config.unwrap();
    config.version += 1;
    config
}

#[test]
fn a_member_that_is_cut_off_knows_no_primary() {
    let set = Set::initiated(3);
    let primary = set.primary();
    let cut = (primary + 1) % 3;
    let known = set.member(primary).node.status().me;
    set.status_when(cut, |status| status.primary == known);
    set.mesh.cut(&set.member(cut).host, true);
    set.status_when(cut, |status| status.primary.is_none());
    set.mesh.cut(&set.member(cut).host, false);
    set.status_when(cut, |status| status.primary == known);
}

#[test]
fn a_member_is_added_and_another_one_removed() {
    let mut set = Set::initiated(3);
    let primary = set.primary();
    (0..30).for_each(|id| set.insert(primary, id).unwrap());
    set.members.push(None);
    set.open(3);
    let mut config = next(&set, primary);
    config.members.push(member(3));
    set.member(primary).node.change_members(config.clone(), SOON).unwrap();
    assert_eq!(set.member(primary).node.status().config.unwrap(), config);
    set.insert(primary, 30).unwrap();
    set.check_equal();

    let gone = (0..3).find(|at| *at != primary).unwrap();
    let mut config = next(&set, primary);
    config.members.retain(|member| member.host != host(gone));
    set.member(primary).node.change_members(config, SOON).unwrap();
    let status = set.status_when(gone, |status| status.role == Role::Removed);
    assert_eq!((status.primary, status.me), (None, None), "it knows that it is removed");
    assert_eq!(status.config.unwrap().members.len(), 3);
    set.close(gone, Duration::ZERO);
    set.open(gone);
    set.status_when(gone, |status| status.role == Role::Removed);
    set.close(gone, Duration::ZERO);
    set.insert(primary, 31).unwrap();
    set.check_equal();

    let mut config = next(&set, primary);
    config.members.retain(|member| member.host == host(primary));
    let error = set.member(primary).node.change_members(config, SOON).unwrap_err();
    assert!(matches!(error, Error::InvalidConfig(_)), "two voters are removed at a time: {error}");
    let second = set.running().find(|(at, _)| *at != primary).unwrap().0;
    let error = set.member(second).node.change_members(next(&set, second), SOON).unwrap_err();
    assert!(matches!(error, Error::NotPrimary(_)), "{error}");
}

#[test]
fn a_member_that_is_added_is_no_secondary_before_it_has_what_was_written() {
    const DOCUMENTS: i32 = 2000;
    let mut set = Set::initiated(3);
    let primary = set.primary();
    (0..DOCUMENTS).for_each(|id| set.insert(primary, id).unwrap());
    set.members.push(None);
    set.open(3);
    let mut config = next(&set, primary);
    config.members.push(member(3));
    let (adding, added) = (&set.member(primary).node, set.member(3));
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| adding.change_members(config, SOON).unwrap());
        set.status_when(3, |status| status.role == Role::Secondary);
        added.database.collection("app.people").unwrap().map_or(0, |people| people.count().unwrap())
    });
    assert_eq!(seen, u64::try_from(DOCUMENTS).unwrap());
}

#[test]
fn the_member_with_the_highest_priority_becomes_primary() {
    let set = Set::initiated(3);
    let primary = set.primary();
    set.insert(primary, 1).unwrap();
    let wanted = (primary + 1) % 3;
    let mut config = next(&set, primary);
    config.members[wanted].priority_thousandths = 2000;
    config.members[(primary + 2) % 3].priority_thousandths = 0;
    set.member(primary).node.change_members(config, SOON).unwrap();
    let begun = Instant::now();
    while set.primary() != wanted {
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(50));
    }
    set.insert(wanted, 2).unwrap();
    set.check_equal();
}

#[test]
fn a_member_that_lacks_more_than_the_log_holds_gets_a_copy() {
    let mut set = Set::keeping(3, 0);
    set.member(0).node.initiate((0..3).map(member).collect()).unwrap();
    let primary = set.primary();
    let behind = (primary + 1) % 3;
    set.insert(primary, 0).unwrap();
    set.close(behind, Duration::ZERO);
    let before = set.member(primary).node.status().last;
    let things = set.member(primary).database.collection_or_create("app.things").unwrap();
    let filler = "x".repeat(64 << 10);
    for id in 1..40 {
        things.insert_one(doc! {"_id": id, "filler": &*filler}.view()).unwrap();
        set.insert(primary, id).unwrap();
    }
    let begun = Instant::now();
    while set.member(primary).node.status().first <= before + 1 {
        assert!(begun.elapsed() < SOON, "{:#?}", set.member(primary).node.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    set.open(behind);
    set.take_copy(behind);
    let copied = &set.member(behind).database;
    let (seeks, things) = (|| copied.engine().stats().reads.seeks, copied.collection("app.things").unwrap().unwrap());
    let before = seeks();
    assert_eq!((things.count().unwrap(), seeks()), (39, before), "no document is read for the count");
    set.insert(primary, 40).unwrap();
    set.check_equal();
}

/// It ended when it got entries that its primary had gathered with more memory.
#[test]
fn a_member_with_the_least_memory_gets_what_it_missed_and_what_is_larger_than_its_memory() {
    let mut set = Set::initiated(3);
    let primary = set.insert_by_primary(0);
    let behind = (primary + 1) % 3;
    set.check_equal();
    set.close(behind, Duration::ZERO);
    let insert = |set: &Set, id: i32, bytes: usize| {
        let filler = "x".repeat(bytes);
        // A slow machine may have another primary meanwhile.
        while set.insert_thing(set.primary(), id, &filler).is_err() {}
    };
    (0..24).for_each(|id| insert(&set, id, 1 << 20));
    insert(&set, 24, 15 << 20);
    set.memory_bytes = 1 << 20;
    set.open(behind);
    set.insert_by_primary(1);
    set.check_equal();
    insert(&set, 25, 15 << 20);
    set.insert_by_primary(2);
    set.check_equal();
    let copied = set.member(behind).database.collection("app.things").unwrap().unwrap();
    assert!(copied.validate().unwrap().is_valid() && copied.count().unwrap() == 26);
    assert_eq!(set.member(behind).node.status().apply_failures, 0);
}

#[test]
fn a_set_begins_with_the_data_of_its_first_member() {
    let mut set = Set::empty(64 << 20);
    let database = spinney_document::Database::open(set.path(0), spinney::Options::default()).unwrap();
    let people = database.collection_or_create("app.people").unwrap();
    people.insert_one(doc! {"_id": -1, "name": "before"}.view()).unwrap();
    database.engine().clone().close().unwrap();
    drop((people, database));
    for at in 0..2 {
        set.members.push(None);
        set.open(at);
    }
    set.member(0).node.initiate(vec![member(0), member(1)]).unwrap();
    assert_eq!(set.primary(), 0);
    set.insert(0, 1).unwrap();
    set.take_copy(1);
    let begun = Instant::now();
    while set.member(0).node.status().config.unwrap().members.len() < 2 {
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(50));
    }
    set.insert(0, 2).unwrap();
    set.check_equal();
    let error = set.member(1).node.initiate(vec![Member::new(5, host(1))]).unwrap_err();
    assert!(matches!(error, Error::AlreadyInitiated), "{error}");
}

#[test]
fn a_member_whose_files_are_gone_is_filled_again() {
    let mut set = Set::initiated(3);
    let primary = set.primary();
    (0..30).for_each(|id| set.insert(primary, id).unwrap());
    let lost = (primary + 1) % 3;
    set.close(lost, Duration::ZERO);
    std::fs::remove_dir_all(set.path(lost)).unwrap();
    set.open(lost);
    let primary = set.insert_by_primary(30);
    set.check_equal();
    let begun = Instant::now();
    while set.member(primary).node.status().members.iter().any(|member| member.matched.is_none()) {
        assert!(begun.elapsed() < SOON, "{:#?}", set.member(primary).node.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    // It counts for a majority again.
    set.close((primary + 2) % 3, Duration::ZERO);
    set.insert_by_primary(31);
    set.check_equal();
}

#[test]
fn a_member_whose_program_is_newer_is_not_added_and_every_member_tells_which_programs_run() {
    let mut set = Set::initiated(3);
    let primary = set.primary();
    let begun = Instant::now();
    for at in 0..3 {
        while set.member(at).node.status().members.iter().any(|member| member.program.is_none()) {
            assert!(begun.elapsed() < SOON, "{:#?}", set.member(at).node.status());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(set.member(primary).node.status().members.iter().all(|member| member.refused.is_none()));
    set.mesh.say_newer(&host(3));
    set.members.push(None);
    set.open(3);
    let mut config = next(&set, primary);
    config.members.push(member(3));
    let error = set.member(primary).node.change_members(config, SOON).unwrap_err();
    assert!(matches!(&error, Error::InvalidConfig(why) if why.contains("newer format")), "{error}");
    set.insert(primary, 1).unwrap();

    // One of the set comes back with a newer program.
    let restarted = (primary + 1) % 3;
    set.close(restarted, Duration::ZERO);
    set.mesh.say_newer(&host(restarted));
    set.open(restarted);
    let begun = Instant::now();
    let refused = || {
        let status = set.member(primary).node.status();
        status.members.into_iter().find(|member| member.id == restarted as u64).unwrap().refused
    };
    while refused().is_none() {
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(50));
    }
}
