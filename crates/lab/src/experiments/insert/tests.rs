//! The insert benchmark at small sizes, on our own engines.

use super::params::{parse_memory, parse_rates};
use super::{Insert, InsertDocuments, Memory, Rates};
use crate::command::Common;
use crate::driver::{document_engines, engines};
use crate::experiments::{
    Experiment,
    connect::Connect,
    tests::{common, run_on},
};
use crate::report::{Run, Step};

fn small() -> Insert {
    Insert {
        rows: 2_000,
        more_rows: Some(1_000),
        batch: 100,
        clients: 1,
        indexes: 3,
        row_bytes: 10,
        deletes: true,
        memory: vec![Memory::Times(4.0)],
        rates: Rates(vec![500]),
        seconds: 0.1,
        load_seconds: 60.0,
        age: 0,
    }
}

fn run(insert: Insert, engine: usize) -> Run {
    let run = run_on(&*engines()[engine], Experiment::Insert(insert), common());
    assert_eq!(run.error, None);
    run
}

fn step<'r>(run: &'r Run, name: &str) -> &'r Step {
    run.steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no step {name}"))
}

#[test]
fn every_step_does_all_its_rows() {
    for engine in 0..3 {
        let run = run(small(), engine);
        let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["l.i0 4x", "l.x 4x", "l.i1 4x", "l.i2 4x", "wait 4x", "qr500 4x", "qp500 4x"]);
        let operations = |name: &str| step(&run, name).cost.unwrap().operations;
        assert_eq!([operations("l.i0 4x"), operations("l.x 4x")], [2_000, 2_000]);
        assert_eq!([operations("l.i1 4x"), operations("l.i2 4x")], [1_000, 100]);
        assert!(operations("qr500 4x") > 0 && operations("qp500 4x") > 0);
        let deletes = |name: &str| step(&run, name).operation("delete").unwrap().operations;
        assert_eq!([deletes("l.i1 4x"), deletes("l.i2 4x")], [1_000, 100]);
    }
}

/// In each round as many rows come and go, and the reads are of what they left.
#[test]
fn a_database_that_ages_is_read_after_each_round() {
    let run = run(Insert { age: 2, rates: Rates(vec![500]), ..small() }, 1);
    let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
    let round = ["l.i1 4x", "l.i2 4x", "wait 4x", "qr500 4x", "qp500 4x"];
    assert_eq!((&names[..2], &names[2..7]), (&["l.i0 4x", "l.x 4x"][..], &round[..]));
    for age in 1..=2 {
        let wanted = round.map(|name| format!("{name} age {age}"));
        assert_eq!(names[2 + 5 * age..7 + 5 * age], wanted);
        let operations = |name: &str| step(&run, &format!("{name} 4x age {age}")).cost.unwrap().operations;
        assert_eq!([operations("l.i1"), operations("l.i2")], [1_000, 100]);
        assert!(operations("qr500") > 0 && operations("qp500") > 0);
    }
}

#[test]
fn without_deletes_and_queries_rows_only_come() {
    let insert = Insert { deletes: false, rates: Rates::default(), clients: 2, ..small() };
    let run = run(insert, 1);
    assert_eq!(run.steps.len(), 5);
    let step = step(&run, "l.i1 4x");
    assert!(step.operation("delete").is_none());
    assert_eq!(step.cost.unwrap().operations, 1_000);
}

#[test]
fn memory_and_rates_are_read_from_words() {
    assert_eq!(parse_memory("0.5x"), Ok(Memory::Times(0.5)));
    assert_eq!(parse_memory("64MiB"), Ok(Memory::Bytes(64 << 20)));
    for wrong in ["x", "-1x", "infx", "0x", "much"] {
        assert!(parse_memory(wrong).is_err(), "{wrong}");
    }
    assert_eq!(parse_rates("100,500"), Ok(Rates(vec![100, 500])));
    assert_eq!(parse_rates("none"), Ok(Rates::default()));
    assert!(parse_rates("0").is_err() && parse_rates("fast").is_err());
}

/// A read of a row that is not there is an error of the run: verification must see every row where it should be.
#[test]
fn a_verified_run_finds_nothing_wrong() {
    let common = Common { verify: true, ..common() };
    let run = run_on(&*engines()[1], Experiment::Insert(small()), common);
    assert_eq!(run.error, None);
    assert!(run.operations_hash.is_some());
}

/// A client that was behind when a step ended had left a gap in the keys, and the next step counted past it.
#[test]
fn many_clients_leave_no_gap_between_rows() {
    let rates = Rates(vec![20_000; 4]);
    for _ in 0..3 {
        run(Insert { rows: 300, more_rows: Some(300), clients: 8, seconds: 0.02, rates: rates.clone(), ..small() }, 0);
    }
}

#[test]
fn every_step_does_all_its_documents() {
    let insert_documents = |engine: usize, deletes: bool| {
        let insert = Insert { deletes, clients: if deletes { 1 } else { 2 }, ..small() };
        let insert = InsertDocuments { insert, connect: Connect::default() };
        let run = run_on(&*document_engines()[engine], Experiment::InsertDocuments(insert), common());
        assert_eq!(run.error, None);
        run
    };
    for engine in 0..2 {
        let run = insert_documents(engine, true);
        let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["l.i0 4x", "l.x 4x", "l.i1 4x", "l.i2 4x", "wait 4x", "qr500 4x", "qp500 4x"]);
        let operations = |name: &str| step(&run, name).cost.unwrap().operations;
        assert_eq!([operations("l.i0 4x"), operations("l.x 4x")], [2_000, 2_000]);
        assert_eq!([operations("l.i1 4x"), operations("l.i2 4x")], [1_000, 100]);
        assert!(operations("qr500 4x") > 0 && operations("qp500 4x") > 0);
        let deletes = |name: &str| step(&run, name).operation("delete").unwrap().operations;
        assert_eq!([deletes("l.i1 4x"), deletes("l.i2 4x")], [1_000, 100]);
    }
    insert_documents(0, false);
}
