//! Tests of the tables for a terminal.

use super::*;
use crate::driver::{Counters, TableShape};
use crate::measure::{BUCKETS_US, Bucket, SystemUse};
use crate::report::fixture::{large, report, run, step};
use crate::report::{Cost, Figure, Operation, State, Step};

fn text(report: &Report) -> String {
    text_in(report, View { width: 120, histograms: false, levels: false, explain: false })
}

fn text_in(report: &Report, view: View) -> String {
    let mut out = Vec::new();
    print(report, view, &mut out).unwrap();
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
    for width in [60, 80, 100, 120, 200] {
        let text = text_in(&large(), View { width, histograms: true, levels: true, explain: true });
        let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= width, "{width}: {longest}");
    }
    let text = text(&large());
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
    // What nobody measured is no column.
    assert_eq!(row, ["load", "10.0", "3e-4", "1.50", "0.400", "12.5", "8.00+4.50"]);
}

/// What was not counted is a dash, or no column if nobody counted it; steps and engines without reads are left out.
#[test]
fn reads_are_shown_by_what_they_ask_of_the_trees() {
    let mut reads = step("readrandom", 10.0);
    let counters = Counters { gets: Some(200), get_trees: Some(300), get_blocks_read: Some(50), ..Counters::default() };
    reads.counters = Counters { get_filters: Some(1400), get_filter_misses: Some(0), seeks: Some(0), ..counters };
    let mut fewer = step("readrandom", 10.0);
    fewer.counters = Counters { gets: Some(200), get_trees: Some(200), ..Counters::default() };
    let ours = run("lsm", 0, vec![step("load", 10.0), reads]);
    let theirs = run("other", 0, vec![step("load", 10.0), fewer]);
    let text = text(&report(vec![ours, theirs, run("mute", 0, vec![step("load", 10.0), step("readrandom", 10.0)])]));
    let (_, table) = text.split_once("of a get and of a range read").unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).take(5).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["engine", "get.trees", "get.filt", "get.read"]);
    assert_eq!(rows[1], ["--", "readrandom"]);
    assert_eq!(rows[2], ["lsm", "1.50", "7.00", "0.250"]);
    assert_eq!(rows[3], ["other", "1.00", "-", "-"]);
    assert_eq!(rows[4].join(" "), "0 in all rows: get.false");
}

#[test]
fn a_skipped_step_is_a_reason_and_no_row() {
    let skipped = Step::skipped("l.x", "row", "the engine has no indexes".to_owned());
    let text = text(&report(vec![run("lsm", 0, vec![skipped, step("load", 10.0)])]));
    assert!(!text.lines().any(|line| line.starts_with("l.x")), "{text}");
    assert!(text.contains("skipped: lsm l.x: the engine has no indexes\n"), "{text}");
}

/// A step like `levelstats` costs nothing and has no figures: it once showed 53,510 operations per second.
#[test]
fn a_step_that_shows_the_shape_is_a_line_of_shapes_and_nothing_else() {
    let shape = TableShape { table: "kv".to_owned(), memtable_entries: Some(5), ..TableShape::default() };
    let state = State { size: None, shape: vec![shape] };
    let shown = Step { name: "levelstats".to_owned(), before: state.clone(), after: state, ..Step::default() };
    let text = text(&report(vec![run("lsm", 0, vec![step("load", 10.0), shown])]));
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("levelstats")).collect();
    assert_eq!(lines, ["levelstats  kv: memtable 5"], "{text}");
}

#[test]
fn percentiles_of_too_few_calls_are_dashes() {
    let with = |name: &str, calls: u64| {
        let mut step = step(name, 10.0);
        step.operations[0].calls = calls;
        step
    };
    let steps = [("one", 1), ("few", 9), ("many", 1_000)].map(|(name, calls)| with(name, calls));
    let text = text(&report(vec![run("lsm", 0, steps.to_vec())]));
    let (_, table) = text.split_once("--- latency").unwrap();
    let row = |name: &str| -> Vec<&str> {
        table.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().skip(2).take(6).collect()
    };
    assert_eq!(row("step"), ["calls", "p50", "p90", "p99", "p99.9", "max"]);
    assert_eq!(row("one")[..5], ["1", "-", "-", "-", "-"]);
    assert!(row("few")[0] == "9" && row("few")[1] != "-" && row("few")[2..5] == ["-", "-", "-"], "{table}");
    assert!(row("many").iter().all(|cell| *cell != "-"), "{table}");
}

#[test]
fn calls_are_counted_by_their_time_where_that_is_asked_for() {
    let mut slow = step("load", 10.0);
    let counts = [0, 0, 0, 990, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0];
    let bounds = BUCKETS_US.iter().copied().map(Some).chain([None]);
    slow.operations[0].histogram = bounds.zip(counts).map(|(most_us, calls)| Bucket { most_us, calls }).collect();
    slow.operations[0].over_limit = Some(10);
    let report = report(vec![run("lsm", 0, vec![slow.clone()]), run("lsm", 1, vec![slow])]);
    let line = |text: &str, start: &str| -> Vec<String> {
        let found = text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        found.split_whitespace().map(str::to_owned).collect()
    };
    let text = text_in(&report, View { width: 200, histograms: true, levels: false, explain: false });
    let (latencies, histograms) = text.split_once("--- calls by response time").unwrap();
    let (_, latencies) = latencies.split_once("--- latency").unwrap();
    assert_eq!(line(latencies, "step")[..9], ["step", "call", "calls", "p50", "p90", "p99", "p99.9", "max", "over"]);
    assert_eq!(line(latencies, "load")[8], "10");
    // Of both repetitions; columns without a call are named below.
    assert_eq!(line(histograms, "step"), ["step", "call", "64us", "4ms", "1s"]);
    assert_eq!(line(histograms, "load"), ["load", "insert", "1,980", "16", "4"]);
    assert!(!self::text(&report).contains("by response time"));
}

#[test]
fn disturbed_steps_are_marked_where_they_and_their_ratios_stand() {
    let busy = |others: f64| {
        let system = Some(SystemUse { user: 0.9, others: Some(others), ..SystemUse::default() });
        Step { system, ..step("load", 10.0) }
    };
    let runs = vec![run("lsm", 0, vec![busy(0.61)]), run("btree", 0, vec![busy(0.02)])];
    let text = text(&report(runs));
    let labels = |part: &str| -> Vec<String> {
        let (_, table) = text.split_once(part).unwrap();
        let rows = table.lines().skip(3).take_while(|line| !line.is_empty());
        rows.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    assert_eq!(labels("--- absolute"), ["lsm~", "btree"], "{text}");
    assert!(text.contains("\nload~ "), "a ratio to what was disturbed: {text}");
    let said = "more than a tenth of the processors: lsm: load 61 %";
    assert!(text.replace("\n  ", " ").contains(said), "{text}");
}

#[test]
fn columns_are_explained_where_that_is_asked_for_and_their_page_is_named() {
    let own = Step { figures: vec![Figure::more("ips", "rows/s", 5.0)], ..step("load", 10.0) };
    let report = report(vec![run("lsm", 0, vec![own])]);
    let short = text(&report);
    assert!(short.contains("columns  docs/lab/reports.md and docs/lab/insert.md"), "{short}");
    assert!(!short.contains("context switches per operation"), "{short}");
    let long = text_in(&report, View { width: 80, histograms: false, levels: false, explain: true });
    for meaning in ["context switches per operation", "rows per second", "needs 100 calls"] {
        assert!(long.contains(meaning), "{meaning}\n{long}");
    }
    assert!(!long.contains("r-amp"), "only what is shown: {long}");
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
    assert!(text.contains("--- run: calls: p50/p99/max of each call in us\n"), "{text}");
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
    assert!(text.lines().count() <= 7, "{text}");
}
