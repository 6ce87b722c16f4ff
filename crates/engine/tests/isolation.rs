//! What snapshot isolation prevents and what it does not: a script per anomaly, told by the engine as in
//! `testdata/isolation/`.
//!
//! The names are those of Adya (Weak Consistency, 1999) and of the Hermitage collection.

use spinney::Layout;
use spinney::env::sim::SimEnv;
use spinney_testkit::ops::{Change, Op, Span, View, Write};
use spinney_testkit::{Config, Engine, Model, golden, history};
use std::ops::Bound;
use std::path::Path;

fn put(key: &str, value: &str) -> Change {
    Change { table: 0, key: key.into(), write: Write::Put(value.into()) }
}

/// The transaction in a slot writes.
fn write(slot: usize, key: &str, value: &str) -> Op {
    Op::Change(slot, put(key, value))
}

fn delete(slot: usize, key: &str) -> Op {
    Op::Change(slot, Change { write: Write::Delete, ..put(key, "") })
}

fn read(slot: usize, key: &str) -> Op {
    Op::Get(View::Transaction(slot), 0, key.into())
}

/// The transaction in a slot reads all keys from `from` on: a read by predicate.
fn read_from(slot: usize, from: &str) -> Op {
    let span = Span { table: 0, from: Bound::Included(from.into()), to: Bound::Unbounded, reverse: false };
    Op::Range(View::Transaction(slot), span, usize::MAX)
}

/// The transaction in a slot deletes all keys from `from` on: a write by predicate.
fn delete_from(slot: usize, from: &str) -> Op {
    Op::Change(slot, Change { write: Write::Erase(None), ..put(from, "") })
}

fn begin(slot: usize) -> Op {
    Op::Begin(slot)
}

fn commit(slot: usize) -> Op {
    Op::Commit(slot, None)
}

/// Every script begins with x = 10 and y = 20, and ends with a look at all that is there.
fn golden_script(name: &str, about: &str, script: &[Op]) {
    let start = Op::Write(vec![put("x", "10"), put("y", "20")], None);
    let end = Op::Range(
        View::Now,
        Span { table: 0, from: Bound::Unbounded, to: Bound::Unbounded, reverse: false },
        usize::MAX,
    );
    let ops = [&[start], script, &[end]].concat();
    for layout in [Layout::BTree, Layout::Lsm, Layout::LsmTiered] {
        let config = Config::named(layout, "plain");
        let (mut model, env) = (Model::new(1), SimEnv::new(1).env());
        let mut engine = Engine::open(Path::new("/db"), env, &config, 1).expect("an empty machine");
        let told = history::compare(&ops, &mut model, &mut engine).unwrap_or_else(|divergence| panic!("{divergence}"));
        golden::check(&format!("isolation/{name}"), &format!("{about}\n\n{told}"));
    }
}

#[test]
fn golden_dirty_write() {
    let about = "G0, dirty write: writes of two transactions do not mix; the second to commit is refused.";
    let script = [
        begin(0),
        begin(1),
        write(0, "x", "11"),
        write(1, "x", "12"),
        write(0, "y", "21"),
        commit(0),
        write(1, "y", "22"),
        commit(1),
    ];
    golden_script("dirty-write", about, &script);
}

#[test]
fn golden_aborted_read() {
    let about = "G1a, aborted read: what was rolled back is never read.";
    let script = [begin(0), begin(1), write(0, "x", "101"), read(1, "x"), Op::Rollback(0), read(1, "x"), commit(1)];
    golden_script("aborted-read", about, &script);
}

#[test]
fn golden_intermediate_read() {
    let about = "G1b, intermediate read: what a transaction wrote over before it committed is never read.";
    let script = [
        begin(0),
        begin(1),
        write(0, "x", "101"),
        read(1, "x"),
        write(0, "x", "11"),
        commit(0),
        read(1, "x"),
        commit(1),
        begin(2),
        read(2, "x"),
    ];
    golden_script("intermediate-read", about, &script);
}

#[test]
fn golden_circular_information_flow() {
    let about = "G1c, circular information flow: two transactions do not read each other's writes.";
    let script = [
        begin(0),
        begin(1),
        write(0, "x", "11"),
        write(1, "y", "22"),
        read(0, "y"),
        read(1, "x"),
        commit(0),
        commit(1),
    ];
    golden_script("circular-information-flow", about, &script);
}

#[test]
fn golden_observed_transaction_vanishes() {
    let about = "OTV, observed transaction vanishes: a reader sees both writes of a transaction, or none, all along.";
    let script = [
        begin(0),
        write(0, "x", "11"),
        write(0, "y", "19"),
        begin(1),
        write(1, "x", "12"),
        commit(0),
        begin(2),
        read(2, "x"),
        write(1, "y", "18"),
        read(2, "y"),
        commit(1),
        read(2, "x"),
        read(2, "y"),
        commit(2),
    ];
    golden_script("observed-transaction-vanishes", about, &script);
}

#[test]
fn golden_predicate_many_preceders() {
    let about = "PMP, predicate many preceders: a range read twice gives the same entries twice.";
    let script = [
        begin(0),
        begin(1),
        read_from(0, "x"),
        write(1, "z", "30"),
        delete(1, "x"),
        commit(1),
        read_from(0, "x"),
        commit(0),
    ];
    golden_script("predicate-many-preceders", about, &script);
}

#[test]
fn golden_predicate_many_preceders_for_writes() {
    let about = "PMP for a write by predicate: a range that another transaction has changed since cannot be deleted.";
    let script = [
        begin(0),
        begin(1),
        read_from(1, "x"),
        write(0, "x", "20"),
        write(0, "y", "30"),
        commit(0),
        delete_from(1, "x"),
        commit(1),
    ];
    golden_script("predicate-many-preceders-write", about, &script);
}

#[test]
fn golden_lost_update() {
    let about = "P4, lost update: of two that read and write the same key the second is refused.";
    let script = [
        begin(0),
        begin(1),
        read(0, "x"),
        read(1, "x"),
        write(0, "x", "11"),
        write(1, "x", "11"),
        commit(0),
        commit(1),
    ];
    golden_script("lost-update", about, &script);
}

#[test]
fn golden_read_skew() {
    let about = "G-single, read skew: all reads of a transaction are of one moment.";
    let script = [
        begin(0),
        begin(1),
        read(0, "x"),
        read(1, "x"),
        read(1, "y"),
        write(1, "x", "12"),
        write(1, "y", "18"),
        commit(1),
        read(0, "y"),
        commit(0),
    ];
    golden_script("read-skew", about, &script);
}

#[test]
fn golden_read_skew_by_predicate() {
    let about =
        "G-single by predicates: what a range holds goes with what was read before another transaction changed both.";
    let script = [
        begin(0),
        begin(1),
        read_from(0, "x"),
        read_from(1, "x"),
        write(1, "x", "12"),
        write(1, "z", "18"),
        commit(1),
        read_from(0, "z"),
        commit(0),
    ];
    golden_script("read-skew-predicate", about, &script);
}

#[test]
fn golden_read_skew_and_a_write_by_predicate() {
    let about =
        "G-single with a write by predicate: what was read before is deleted only if nobody has changed it since.";
    let script = [
        begin(0),
        begin(1),
        read(0, "x"),
        read_from(1, "x"),
        write(1, "x", "12"),
        write(1, "y", "18"),
        commit(1),
        delete_from(0, "y"),
        commit(0),
    ];
    golden_script("read-skew-predicate-write", about, &script);
}

#[test]
fn golden_read_skew_and_a_write_by_predicate_before() {
    let about = "G-single with a write by predicate that comes first: who changes what it deleted is refused.";
    let script = [
        begin(0),
        begin(1),
        read(0, "x"),
        read_from(1, "x"),
        write(1, "x", "12"),
        delete_from(0, "y"),
        write(1, "y", "18"),
        commit(0),
        commit(1),
    ];
    golden_script("read-skew-predicate-write-first", about, &script);
}

#[test]
fn golden_write_skew_by_predicate() {
    let about =
        "G2, write skew by predicate: both look for something that is not there and put it, under different keys.";
    let script = [
        begin(0),
        begin(1),
        read_from(0, "z"),
        read_from(1, "z"),
        write(0, "z1", "30"),
        write(1, "z2", "42"),
        commit(0),
        commit(1),
    ];
    golden_script("write-skew-predicate", about, &script);
}

#[test]
fn golden_two_edges() {
    let about = "G2 with two anti-dependencies (Fekete, O'Neil, O'Neil: a read-only transaction anomaly): a transaction that only reads \
                 sees a state that goes with no serial order, which snapshot isolation allows.";
    let script = [
        begin(0),
        read_from(0, "x"),
        begin(1),
        read(1, "y"),
        write(1, "y", "25"),
        commit(1),
        begin(2),
        read(2, "x"),
        read(2, "y"),
        commit(2),
        write(0, "x", "0"),
        commit(0),
    ];
    golden_script("read-only-anomaly", about, &script);
}

#[test]
fn golden_write_skew() {
    let about = "G2-item, write skew: snapshot isolation lets both commit, because they write different keys.";
    let script = [
        begin(0),
        begin(1),
        read(0, "x"),
        read(0, "y"),
        read(1, "x"),
        read(1, "y"),
        write(0, "x", "11"),
        write(1, "y", "21"),
        commit(0),
        commit(1),
    ];
    golden_script("write-skew", about, &script);
}

#[test]
fn golden_own_writes() {
    let about = "A transaction reads its own writes and deletes, over its snapshot.";
    let script = [
        begin(0),
        write(0, "x", "11"),
        delete(0, "y"),
        write(0, "z", "30"),
        begin(1),
        write(1, "w", "1"),
        commit(1),
        read(0, "y"),
        read_from(0, "a"),
        commit(0),
    ];
    golden_script("own-writes", about, &script);
}

#[test]
fn golden_blind_write() {
    let about = "A batch is a commit like any other: a transaction that began before it and writes its key is refused.";
    let script = [begin(0), Op::Write(vec![put("x", "12")], None), write(0, "x", "11"), commit(0)];
    golden_script("blind-write", about, &script);
}
