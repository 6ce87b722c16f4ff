//! Members whose data disagrees with what the set agrees on.

use std::time::{Duration, Instant};

use spinney_replica::{Role, Status};

use super::set::{SOON, Set};

/// Lets a member lose the table of the documents, behind the back of its database.
fn lose_documents(set: &Set, at: usize) {
    let engine = set.member(at).database.engine();
    let table = engine.tables().unwrap().into_iter().find(|table| table.name().starts_with("c-")).unwrap();
    engine.drop_table(table.name()).unwrap();
}

/// Such a member ended, and ended again at each start.
#[test]
fn a_member_whose_data_disagrees_gets_two_copies_in_an_hour_and_serves_no_reads_meanwhile() {
    let mut set = Set::initiated(3);
    let lost = (set.insert_by_primary(0) + 1) % 3;
    for id in 1..3 {
        set.check_equal();
        lose_documents(&set, lost);
        set.insert_by_primary(id);
        let status = set.status_when(lost, |status| status.stalled.is_some());
        let stalled = status.stalled.clone().unwrap();
        assert!(stalled.needs_copy && status.apply_failures > 0, "{status:?}");
        let both = ["the set agreed on a commit to 'c-", "this member says: DataCorruptionDetected (374)"];
        assert!(both.iter().all(|side| stalled.why.contains(side)), "{}", stalled.why);
        set.status_when(lost, |status| status.role == Role::Recovering);
        set.take_copy(lost);
        set.insert_by_primary(10 * id);
    }
    set.check_equal();
    lose_documents(&set, lost);
    set.insert_by_primary(3);
    let denied = |status: &Status| {
        let why = status.stalled.as_ref().and_then(|stalled| stalled.denied.clone());
        why.is_some_and(|why| why == "it had 2 copies within an hour")
    };
    let status = set.status_when(lost, denied);
    assert_eq!((status.role, status.copy_received), (Role::Recovering, false));
    // Its log goes on, and counts: one of the others may fail.
    let primary = set.primary();
    let other = 3 - primary - lost;
    set.close(other, Duration::ZERO);
    set.insert_by_primary(4);
}

#[test]
fn two_members_whose_data_disagrees_get_copies_one_after_the_other_while_writes_go_on() {
    let mut set = Set::initiated(3);
    let primary = set.insert_by_primary(0);
    set.check_equal();
    let mut lost: Vec<usize> = (0..3).filter(|at| *at != primary).collect();
    lost.iter().for_each(|at| lose_documents(&set, *at));
    let (mut id, begun) = (1, Instant::now());
    while !lost.is_empty() {
        assert!(begun.elapsed() < SOON, "{lost:?}: {:#?}", set.member(lost[0]).node.status());
        assert_eq!(set.insert_by_primary(id), primary, "it stays");
        id += 1;
        if let Some(at) = lost.iter().position(|at| set.member(*at).node.status().copy_received) {
            set.take_copy(lost.remove(at));
        }
    }
    set.insert_by_primary(id);
    set.check_equal();
}

#[test]
fn a_primary_whose_data_disagrees_gives_the_lead_away_and_gets_a_copy() {
    let mut set = Set::initiated(3);
    let primary = set.insert_by_primary(0);
    set.check_equal();
    // It proposes a commit, and loses the table before it hears that the others have it.
    set.mesh.cut(&set.member(primary).host, true);
    std::thread::scope(|scope| {
        let before = set.member(primary).node.status().last;
        scope.spawn(|| set.insert(primary, 1));
        set.status_when(primary, |status| status.last > before);
        lose_documents(&set, primary);
        set.mesh.cut(&set.member(primary).host, false);
        set.status_when(primary, |status| status.role == Role::Recovering);
        set.insert_by_primary(2);
        set.status_when(primary, |status| status.copy_received);
        // Its client hears that the fate of the commit is not known.
        set.member(primary).node.end(Duration::ZERO);
    });
    set.take_copy(primary);
    set.insert_by_primary(3);
    set.check_equal();
}
