//! Hand-made histories of every anomaly, and of what snapshot isolation allows.

use super::Step::{Append, Put, Read};
use super::{End, Seen, Step, Txn, check};
use spinney::Isolation;

const X: u64 = 1;
const Y: u64 = 2;

/// A transaction from `begun` to `ended`.
fn txn(begun: u64, ended: u64, end: End, steps: &[Step]) -> Txn {
    Txn { begun, ended, steps: steps.to_vec(), end }
}

/// Transactions at the same time, and a last one that reads.
fn together(txns: &[&[Step]], last: &[Step]) -> Vec<Txn> {
    let mut history: Vec<_> = txns.iter().map(|steps| txn(0, 10, End::Committed, steps)).collect();
    history.push(txn(20, 21, End::Committed, last));
    history
}

#[track_caller]
fn is(history: &[Txn], name: &str) {
    let found = check(history, Isolation::Snapshot).expect_err(name);
    assert!(found.name.starts_with(name), "{found}");
}

#[test]
fn g0_is_found() {
    let last = [Read(X, vec![1, 2]), Read(Y, vec![4, 3])];
    is(&together(&[&[Append(X, 1), Append(Y, 3)], &[Append(X, 2), Append(Y, 4)]], &last), "G0");
}

#[test]
fn g1a_is_found() {
    let mut history = together(&[&[Append(X, 1)], &[Read(X, vec![1])]], &[Read(X, vec![])]);
    history[0].end = End::Aborted;
    is(&history, "G1a");
}

#[test]
fn g1b_is_found() {
    let last = [Read(X, vec![1, 2])];
    is(&together(&[&[Append(X, 1), Append(X, 2)], &[Read(X, vec![1])]], &last), "G1b");
    is(&together(&[&[Put(X, 1), Put(X, 2)], &[Read(X, vec![1])]], &[Read(X, vec![2])]), "G1b");
}

#[test]
fn g1c_is_found() {
    let last = [Read(X, vec![1]), Read(Y, vec![2])];
    is(&together(&[&[Append(X, 1), Read(Y, vec![2])], &[Append(Y, 2), Read(X, vec![1])]], &last), "G1c, circular");
}

#[test]
fn g_single_is_found_in_lists_and_registers() {
    let reader = [Read(X, vec![]), Read(Y, vec![2])];
    is(&together(&[&[Append(X, 1), Append(Y, 2)], &reader], &[Read(X, vec![1]), Read(Y, vec![2])]), "G-single, or");
    let writer = [Read(X, vec![]), Put(X, 1), Read(Y, vec![]), Put(Y, 2)];
    is(&together(&[&writer, &reader], &[Read(X, vec![1]), Read(Y, vec![2])]), "G-single, or");
}

#[test]
fn a_lost_update_is_found_in_lists_and_registers() {
    let last = [Read(X, vec![1, 2])];
    is(&together(&[&[Read(X, vec![]), Append(X, 1)], &[Read(X, vec![]), Append(X, 2)]], &last), "G-single, or");
    is(&together(&[&[Read(X, vec![]), Put(X, 1)], &[Read(X, vec![]), Put(X, 2)]], &[Read(X, vec![2])]), "P4");
}

#[test]
fn a_long_fork_is_found() {
    // Two readers see two writers in different orders: the rw edges are not next to each other.
    let writers: [&[Step]; 2] = [&[Append(X, 1)], &[Append(Y, 2)]];
    let readers: [&[Step]; 2] = [&[Read(X, vec![1]), Read(Y, vec![])], &[Read(X, vec![]), Read(Y, vec![2])]];
    let last = [Read(X, vec![1]), Read(Y, vec![2])];
    is(&together(&[writers, readers].concat(), &last), "G-single, or");
}

#[test]
fn a_write_skew_is_seen_and_allowed() {
    let last = [Read(X, vec![1]), Read(Y, vec![2])];
    let skew: [&[Step]; 2] =
        [&[Read(X, vec![]), Read(Y, vec![]), Append(X, 1)], &[Read(X, vec![]), Read(Y, vec![]), Append(Y, 2)]];
    let seen = check(&together(&skew, &last), Isolation::Snapshot);
    assert!(matches!(seen, Ok(Seen { committed: 3, skews: 1, .. })), "{seen:?}");
    let anomaly = check(&together(&skew, &last), Isolation::Serializable).expect_err("a skew");
    assert_eq!(anomaly.name, "G2, write skew");
}

#[test]
fn a_read_of_the_past_is_found() {
    let mut history = together(&[&[Append(X, 1)]], &[Read(X, vec![1])]);
    history.insert(1, txn(15, 16, End::Committed, &[Read(X, vec![])]));
    is(&history, "G-single with real time");
    // While they overlap it is none.
    history[1].begun = 5;
    assert!(check(&history, Isolation::Snapshot).is_ok());
}

#[test]
fn a_read_of_the_future_is_found() {
    let mut history = together(&[&[Append(X, 1)]], &[Read(X, vec![1])]);
    history[0].begun = 8;
    history.insert(0, txn(1, 5, End::Committed, &[Read(X, vec![1])]));
    is(&history, "G1c with real time");
}

#[test]
fn own_writes_that_are_not_read_are_found() {
    is(&together(&[&[Append(X, 1), Read(X, vec![])]], &[Read(X, vec![1])]), "internal");
    is(&together(&[&[Read(X, vec![]), Append(X, 1), Read(X, vec![])]], &[Read(X, vec![1])]), "internal");
    is(&together(&[&[Put(X, 1), Read(X, vec![])]], &[Read(X, vec![1])]), "internal");
    is(&together(&[&[Append(X, 1)], &[Read(X, vec![]), Read(X, vec![1])]], &[Read(X, vec![1])]), "internal");
}

#[test]
fn lost_forked_and_invented_writes_are_found() {
    is(&together(&[&[Append(X, 1)]], &[Read(X, vec![])]), "a committed write that is lost");
    is(&together(&[&[Append(X, 1)]], &[Read(X, vec![7])]), "a value that nobody wrote");
    let forks: [&[Step]; 3] = [&[Append(X, 1)], &[Append(X, 2)], &[Read(X, vec![2, 1])]];
    is(&together(&forks, &[Read(X, vec![1, 2])]), "two orders");
}

#[test]
fn an_unknown_commit_is_in_or_out_but_whole() {
    let unknown = |last: &[Step]| {
        let mut history = together(&[&[Append(X, 1), Append(Y, 2)]], last);
        history[0].end = End::Unknown;
        check(&history, Isolation::Snapshot)
    };
    let all = unknown(&[Read(X, vec![1]), Read(Y, vec![2])]);
    assert!(matches!(all, Ok(Seen { committed: 2, unknown_committed: 1, .. })), "{all:?}");
    assert!(matches!(unknown(&[Read(X, vec![]), Read(Y, vec![])]), Ok(Seen { committed: 1, .. })));
    let half = unknown(&[Read(X, vec![1]), Read(Y, vec![])]).expect_err("half of it");
    assert_eq!(half.name, "a committed write that is lost");
}
