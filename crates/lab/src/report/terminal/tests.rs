//! Tests of the tables for a terminal.

use super::*;
use crate::driver::{Counters, TableShape};
use crate::report::fixture::{large, report, run, step};
use crate::report::{Cost, Figure, Operation, State, Step};

fn text(report: &Report) -> String {
    let mut out = Vec::new();
    print(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn two_steps_of_one_engine_fit_on_a_screen() {
    let mut steps = vec![step("fillrandom", 223_000.0), step("readrandom", 622_000.0)];
    let shape =
        |entries| TableShape { table: "kv".to_owned(), memtable_entries: Some(entries), ..TableShape::default() };
    steps[0].before = State { size: None, shape: vec![shape(0)] };
    steps[0].after = State { size: None, shape: vec![shape(300_000)] };
    steps[1].before = steps[0].after.clone();
    steps[1].after = steps[0].after.clone();
    let text = text(&report(vec![run("spinney-lsm", 0, steps)]));
    assert!(text.lines().count() <= 25, "{text}");
    assert!(text.contains("fillrandom  kv: empty -> memtable 300,000\n"), "{text}");
    assert!(!text.contains("relative") && !text.contains("readrandom  kv"), "{text}");
}

#[test]
fn no_line_is_too_long_and_no_value_is_not_a_number() {
    let text = text(&large());
    let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(longest.chars().count() <= TABLE_WIDTH, "{longest}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert!(text.contains("--- absolute\n") && text.contains("--- relative to spinney-btree\n"), "{text}");
    assert!(text.contains("missing  wiredtiger: not installed; apt-get install libwiredtiger-dev\n"), "{text}");
    assert!(text.contains("innodb*"), "{text}");
}

#[test]
fn what_is_small_or_unknown_is_not_zero() {
    let mut unknown = step("load", 10.0);
    unknown.cost = Some(Cost { read_kib: None, rss_bytes: None, ..unknown.cost.unwrap() });
    let text = text(&report(vec![run("lsm", 0, vec![unknown])]));
    let row: Vec<&str> = text.lines().find(|line| line.starts_with("load")).unwrap().split_whitespace().collect();
    assert_eq!(row, ["load", "10.0", "-", "3e-4", "-", "1.50", "0.400", "12.5", "8.00+4.50", "-"]);
}

/// What was not counted, or not of this kind of read, is a dash; steps without reads are left out.
#[test]
fn reads_are_shown_by_what_they_ask_of_the_trees() {
    let mut reads = step("readrandom", 10.0);
    let counters = Counters { gets: Some(200), get_trees: Some(300), get_blocks_read: Some(50), ..Counters::default() };
    reads.counters = Counters { get_filters: Some(1400), get_filter_misses: Some(0), seeks: Some(0), ..counters };
    let ours = run("lsm", 0, vec![step("load", 10.0), reads]);
    let theirs = run("other", 0, vec![step("load", 10.0), step("readrandom", 10.0)]);
    let text = text(&report(vec![ours, theirs]));
    let (_, table) = text.split_once("--- of a get and of a range read").unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).take(4).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..6], ["engine", "get.trees", "get.filt", "get.false", "get.blk", "get.read"]);
    assert_eq!(rows[1], ["--", "readrandom"]);
    assert_eq!(rows[2], ["lsm", "1.50", "7.00", "0", "-", "0.250", "-", "-", "-", "-", "-"]);
    assert!(rows[3][0] == "other" && rows[3][1..].iter().all(|cell| *cell == "-"), "{table}");
}

#[test]
fn a_skipped_step_is_dashes_and_a_reason() {
    let skipped = Step::skipped("l.x", "row", "the engine has no indexes".to_owned());
    let text = text(&report(vec![run("lsm", 0, vec![skipped])]));
    let row = text.lines().find(|line| line.starts_with("l.x")).unwrap();
    assert!(row.split_whitespace().skip(1).all(|cell| cell == "-"), "{row}");
    assert!(text.contains("skipped: lsm l.x: the engine has no indexes\n"), "{text}");
}

#[test]
fn repetitions_show_a_median_and_its_range() {
    let runs = [100.0, 300.0, 200.0].into_iter().zip(0..).map(|(rate, n)| run("lsm", n, vec![step("load", rate)]));
    let text = text(&report(runs.collect()));
    assert!(text.contains("medians of 3 runs"), "{text}");
    assert!(text.contains("  200  100..300  "), "{text}");
}

#[test]
fn many_kinds_of_calls_stand_side_by_side() {
    let kinds = ["get", "add", "update", "delete"];
    let busy = || {
        let mut step = step("run", 10.0);
        let operation = step.operations[0].clone();
        step.operations = kinds.map(|name| Operation { name: name.to_owned(), ..operation.clone() }).to_vec();
        step
    };
    let text = text(&report(vec![run("a", 0, vec![busy()]), run("b", 0, vec![busy()])]));
    assert!(text.contains("--- run: p50/p99/max of each call in us\n"), "{text}");
    assert!(kinds.iter().all(|kind| text.lines().any(|line| line.starts_with(kind))), "{text}");
}

/// A heading once read `(MB/s MB/s)`.
#[test]
fn a_unit_that_is_the_title_is_not_said_again() {
    let heading = |figures: Vec<Figure>| {
        let step = Step { figures, ..step("load", 10.0) };
        let text = text(&report(vec![run("a", 0, vec![step])]));
        text.lines().find(|line| line.starts_with("--- of this experiment")).unwrap().to_owned()
    };
    let rate = || Figure::more("MB/s", "MB/s", 1.0);
    assert_eq!(heading(vec![rate()]), "--- of this experiment");
    assert_eq!(heading(vec![Figure::less("bpd", "bytes", 1.0), rate()]), "--- of this experiment (bpd bytes)");
}

#[test]
fn a_report_without_runs_has_a_head_only() {
    let text = text(&report(Vec::new()));
    assert!(text.lines().count() <= 4, "{text}");
}
