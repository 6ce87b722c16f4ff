//! Directories that are not what a member left: older copies of them, checkpoints, those of other members, none.

use std::path::Path;
use std::time::{Duration, Instant};

use spinney_replica::{Error, Role};

use super::set::{SOON, Set, host, member};

/// For how long it is looked whether something happens that must not.
const WHILE: Duration = Duration::from_secs(4);

/// Copies a directory of a member that does not run, file by file.
fn copy(from: &Path, to: &Path) {
    if to.exists() {
        std::fs::remove_dir_all(to).unwrap();
    }
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A set whose member 1 has an older copy of its directory in `older`, made by `make`. What was written later,
/// documents 10 to 29, is known to it and to the primary, 0, alone: member 2 was cut off. The first two run no more.
fn with_older_copy(older: &str, make: impl Fn(&Path, &Path)) -> Set {
    let mut set = Set::new(3);
    let mut members: Vec<_> = (0..3).map(member).collect();
    members[0].priority_thousandths = 5000;
    set.member(0).node.initiate(members).unwrap();
    let begun = Instant::now();
    while set.primary() != 0 {
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(50));
    }
    (0..10).for_each(|id| set.insert(0, id).unwrap());
    set.check_equal();
    set.close(1, Duration::ZERO);
    make(&set.path(1), &set.path(1).with_file_name(older));
    set.open(1);
    set.mesh.cut(&host(2), true);
    for id in 10..30 {
        set.insert_by_primary(id);
    }
    set.close(0, Duration::ZERO);
    set.close(1, Duration::ZERO);
    copy(&set.path(1).with_file_name(older), &set.path(1));
    set
}

/// Waits until a member is in its set again, with a copy if it gets one.
fn come_back(set: &mut Set, at: usize) {
    let begun = Instant::now();
    loop {
        let status = set.member(at).node.status();
        if status.copy_received {
            set.take_copy(at);
        }
        if status.role == Role::Secondary && status.primary.is_some() && status.stalled.is_none() {
            return;
        }
        assert!(begun.elapsed() < SOON, "{status:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// It elected a primary with a member that lagged behind, and what both lacked was lost.
#[test]
fn a_checkpoint_in_the_place_of_a_member_does_not_vote_and_gets_a_copy() {
    let mut set = with_older_copy("older", |from, to| {
        let database = spinney::Database::open(from, spinney::Options::default()).unwrap();
        database.checkpoint(to).unwrap();
        database.close().unwrap();
    });
    set.open(1);
    set.mesh.cut(&host(2), false);
    let status = set.status_when(1, |status| status.stalled.is_some());
    assert!(status.stalled.unwrap().why.contains("checkpoint"));
    let begun = Instant::now();
    while begun.elapsed() < WHILE {
        assert!(set.running().all(|(_, member)| !member.node.status().writable), "what was acknowledged is lost");
        std::thread::sleep(Duration::from_millis(20));
    }
    let refused = set.member(1).node.initiate(vec![member(1)]).unwrap_err();
    assert!(matches!(refused, Error::InvalidConfig(_)), "{refused}");
    set.open(0);
    set.primary();
    come_back(&mut set, 1);
    set.insert_by_primary(30);
    set.check_equal();
    assert_eq!(set.member(1).database.collection("app.people").unwrap().unwrap().count().unwrap(), 31);
    // It is a member like any other.
    set.close(2, Duration::ZERO);
    set.insert_by_primary(31);
    set.check_equal();
    set.close(1, Duration::ZERO);
    set.open(1);
    set.insert_by_primary(32);
}

/// The member that had them gave up entries that it had applied, kept what they had written, and said nothing.
#[test]
fn a_member_does_not_give_up_what_is_committed_and_gets_a_copy() {
    let mut set = with_older_copy("older", copy);
    set.open(1);
    set.mesh.cut(&host(2), false);
    // Nobody is there who could know better.
    set.insert_by_primary(100);
    set.open(0);
    let status = set.status_when(0, |status| status.stalled.is_some() || status.copy_received);
    if let Some(stalled) = status.stalled {
        let both = ["the log of the primary has entry", "this member knows that its own up to entry"];
        assert!(stalled.needs_copy && both.iter().all(|side| stalled.why.contains(side)), "{}", stalled.why);
    }
    come_back(&mut set, 0);
    set.insert_by_primary(101);
    set.check_equal();
    assert_eq!(set.member(0).database.collection("app.people").unwrap().unwrap().count().unwrap(), 12);
}

#[test]
fn a_member_that_lost_what_it_had_acknowledged_is_filled_again_by_the_primary() {
    let mut set = Set::initiated(3);
    let primary = set.insert_by_primary(0);
    let (older, other) = ((primary + 1) % 3, (primary + 2) % 3);
    set.check_equal();
    let copied = set.path(older).with_file_name("older");
    set.close(older, Duration::ZERO);
    copy(&set.path(older), &copied);
    set.open(older);
    set.mesh.cut(&host(other), true);
    (1..30).for_each(|id| set.insert(primary, id).unwrap());
    set.close(older, Duration::ZERO);
    copy(&copied, &set.path(older));
    set.open(older);
    let last = set.member(primary).node.status().last;
    set.status_when(older, |status| status.applied >= last);
    set.mesh.cut(&host(other), false);
    set.insert_by_primary(30);
    set.check_equal();
    assert_eq!(set.member(older).database.collection("app.people").unwrap().unwrap().count().unwrap(), 31);
}

#[test]
fn the_directory_of_another_member_is_refused_and_a_second_process_with_one_takes_no_part() {
    let mut set = Set::initiated(3);
    let primary = set.insert_by_primary(0);
    let (copied, other) = ((primary + 1) % 3, (primary + 2) % 3);
    set.check_equal();
    set.close(copied, Duration::ZERO);
    let dir = set.path(copied).with_file_name("copied");
    copy(&set.path(copied), &dir);
    for address in [host(other), host(7)] {
        let refused = set.start(&dir, &address).err().unwrap();
        let both = refused.to_string().contains(&host(copied)) && refused.to_string().contains(&address);
        assert!(matches!(refused, Error::InvalidConfig(_)) && both, "{refused}");
    }
    set.open(copied);
    let second = set.start(&dir, &host(copied)).unwrap();
    let begun = Instant::now();
    while second.node.status().role != Role::Removed {
        assert!(begun.elapsed() < SOON, "{:#?}", second.node.status());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(second.node.status().problem.unwrap().contains("another process"));
    set.insert_by_primary(1);
    set.check_equal();
    assert_eq!(set.member(copied).node.status().problem, None);
    second.node.end(Duration::ZERO);
}

/// A set that began with member 0 and got two others, of which one leads; member 0 has lost its files and is cut off.
fn grown_from_one() -> Set {
    let mut set = Set::new(1);
    set.member(0).node.initiate(vec![member(0)]).unwrap();
    set.insert_by_primary(0);
    for at in 1..3 {
        set.members.push(None);
        set.open(at);
        let mut config = set.member(0).node.status().config.unwrap();
        config.version += 1;
        config.members.push(member(at));
        set.member(0).node.change_members(config, SOON).unwrap();
    }
    set.check_equal();
    set.close(0, Duration::ZERO);
    std::fs::remove_dir_all(set.path(0)).unwrap();
    set.mesh.cut(&host(0), true);
    set.open(0);
    set.primary();
    set
}

#[test]
fn a_member_that_a_set_counts_on_founds_none() {
    let set = grown_from_one();
    set.mesh.cut(&host(0), false);
    let begun = Instant::now();
    while set.member(0).node.status().role != Role::Secondary {
        let named = begun.elapsed() > Duration::from_secs(3);
        if named {
            let refused = set.member(0).node.initiate(vec![member(0)]).unwrap_err();
            assert!(matches!(refused, Error::InvalidConfig(_) | Error::AlreadyInitiated), "{refused}");
        }
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(20));
    }
    set.insert_by_primary(1);
    set.check_equal();
}

/// A client with the addresses of all wrote to the empty one.
#[test]
fn the_younger_of_two_sets_with_one_name_takes_no_writes_when_they_meet() {
    let mut set = grown_from_one();
    set.member(0).node.initiate(vec![member(0)]).unwrap();
    set.status_when(0, |status| status.writable);
    set.insert(0, 100).unwrap();
    set.mesh.cut(&host(0), false);
    let status = set.status_when(0, |status| !status.writable);
    let problem = status.problem.unwrap();
    assert!(problem.contains("another replica set") && problem.contains("empty directory"), "{problem}");
    set.insert(0, 101).unwrap_err();
    let primary = (1..3).find(|at| set.member(*at).node.status().writable).unwrap();
    set.insert(primary, 1).unwrap();
    let begun = Instant::now();
    let refused = || set.member(primary).node.status().members.into_iter().find_map(|member| member.refused);
    while !refused().is_some_and(|why| why.contains("another replica set")) {
        assert!(begun.elapsed() < SOON, "{:#?}", set.member(primary).node.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    // It knows so at the next start, too.
    set.close(0, Duration::ZERO);
    set.open(0);
    set.status_when(0, |status| status.role == Role::Primary);
    set.insert(0, 102).unwrap_err();
    // What it says helps.
    set.close(0, Duration::ZERO);
    std::fs::remove_dir_all(set.path(0)).unwrap();
    set.open(0);
    set.insert_by_primary(2);
    come_back(&mut set, 0);
    set.check_equal();
}

#[test]
fn a_member_that_was_removed_while_it_was_cut_off_learns_it_when_it_meets_the_others() {
    let mut set = Set::initiated(4);
    let primary = set.insert_by_primary(0);
    let removed = (primary + 1) % 4;
    set.check_equal();
    set.mesh.cut(&host(removed), true);
    let mut config = set.member(primary).node.status().config.unwrap();
    config.version += 1;
    config.members.retain(|member| member.host != host(removed));
    set.member(primary).node.change_members(config, SOON).unwrap();
    let status = set.status_when(removed, |status| status.primary.is_none());
    assert_eq!(status.role, Role::Secondary, "it cannot know it yet");
    set.mesh.cut(&host(removed), false);
    let status = set.status_when(removed, |status| status.role == Role::Removed);
    assert!(status.problem.unwrap().contains("removed"));
    set.close(removed, Duration::ZERO);
    set.open(removed);
    assert_eq!(set.member(removed).node.status().role, Role::Removed);
    set.insert_by_primary(1);
    set.close(removed, Duration::ZERO);
    set.check_equal();
}

#[test]
fn a_primary_that_is_cut_off_refuses_linearizable_reads_as_soon_as_it_knows() {
    let set = Set::initiated(3);
    let primary = set.insert_by_primary(0);
    set.member(primary).node.linearizable(SOON).unwrap();
    set.mesh.cut(&host(primary), true);
    let begun = Instant::now();
    let refused = set.member(primary).node.linearizable(SOON).unwrap_err();
    assert!(matches!(refused, Error::NotPrimary(_)) && begun.elapsed() < SOON / 2, "{refused}");
}
