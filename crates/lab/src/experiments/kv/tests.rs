//! Small runs of all workloads on our engines.

use super::*;
use crate::driver::{Engine, engines};
use crate::experiments::Experiment;
use crate::experiments::tests::run_on;
use crate::report::{Run, Step};
use clap::{Parser, ValueEnum};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    kv: Kv,
    #[command(flatten)]
    common: Common,
}

/// The runs of our engines with these arguments.
fn run(arguments: &str) -> Vec<Run> {
    engines().iter().map(|engine| run_one(&**engine, arguments)).collect()
}

fn run_one(engine: &dyn Engine, arguments: &str) -> Run {
    let line = Line::try_parse_from(std::iter::once("kv").chain(arguments.split_whitespace())).unwrap();
    run_on(engine, Experiment::Kv(line.kv), line.common)
}

fn figure(step: &Step, name: &str) -> Option<f64> {
    step.figures.iter().find(|figure| figure.column.name == name).unwrap().value
}

fn all_names() -> String {
    Workload::value_variants().iter().map(|workload| workload.name()).collect::<Vec<_>>().join(",")
}

#[test]
fn every_workload_does_what_was_asked_on_every_engine() {
    let arguments = "--num 3000 --reads 1500 --deletes 500 --threads 2 --memory 16MiB --write-rate-limit 0 --settle false --workloads";
    for run in run(&format!("{arguments} {}", all_names())) {
        assert_eq!(run.error, None, "{}", run.engine.name);
        let names: Vec<String> = run.steps.iter().map(|step| step.name.clone()).collect();
        assert_eq!(names.join(","), all_names());
        for (step, workload) in run.steps.iter().zip(Workload::value_variants()) {
            if *workload == Workload::Levelstats {
                assert!(step.cost.is_none() && step.skipped.is_none() && !step.after.shape.is_empty());
                continue;
            }
            let operations = step.cost.expect("not skipped").operations;
            let expected = match workload.unit() {
                "put" if step.name == "fillsync" => 3,
                "put" => 3000,
                "get" if step.name == "warm" => 3000,
                "get" | "entry" | "seek" => 1500,
                "delete" => 500,
                _ => 1,
            };
            assert_eq!((operations, step.unit.as_str()), (expected, workload.unit()), "{}", step.name);
            let found = (!step.figures.is_empty()).then(|| figure(step, "found")).flatten();
            match workload {
                Workload::Readmissing => assert_eq!(found, Some(0.0)),
                _ if ["get", "seek"].contains(&workload.unit()) => assert_eq!(found, Some(1.0), "{}", step.name),
                _ => assert_eq!(found, None),
            }
            // So few reads may be over before the writer's first put.
            assert!(step.operation("put").is_none() || workload.has_writer() || workload.unit() == "put");
        }
    }
}

#[test]
fn reads_in_order_see_every_entry_once_in_both_directions() {
    for run in run("--num 2500 --memory 16MiB --workloads fillrandom,readseq,readreverse,deleteseq,readseq") {
        assert_eq!(run.error, None);
        let operations: Vec<u64> = run.steps.iter().map(|step| step.cost.unwrap().operations).collect();
        assert_eq!(operations, [2500, 1, 2500, 2500, 2500, 1, 0]);
    }
}

/// With a million keys and the memory for them, reads once were of memtables alone.
#[test]
fn what_was_written_is_in_the_trees_before_it_is_read() {
    let names = |run: &Run| run.steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>().join(",");
    let arguments = "--num 2000 --reads 100 --memory 16MiB --write-rate-limit 0 --workloads";
    let workloads = "fillrandom,overwrite,levelstats,readrandom,readwhilewriting,readseq,deleteseq";
    for run in run(&format!("{arguments} {workloads}")) {
        assert_eq!(run.error, None);
        let settled = workloads.replace("overwrite", "overwrite,settle");
        assert_eq!(names(&run), settled);
        let entries = |at: usize| run.steps[at].after.shape[0].memtable_entries;
        // Both versions of each key, and then none.
        assert_eq!((entries(1), entries(2)), (Some(4000), Some(0)), "{}", run.engine.name);
        assert!(run.steps[2].cost.unwrap().seconds > 0.0);
    }
    for workloads in ["fillseq,flush,readrandom", "fillrandom,fillsync,compact,readseq", "fillseq,deleteseq"] {
        let run = &run(&format!("{arguments} {workloads}"))[0];
        assert_eq!((run.error.as_deref(), names(run)), (None, workloads.to_owned()));
    }
}

/// After `compact` one engine's cache was cold and another's was not: an experiment on cached data warms it, for all
/// alike.
#[test]
fn after_warm_reads_come_from_memory() {
    let arguments = "--num 20000 --reads 500 --duration 0.01 --memory 64MiB --settle false --workloads";
    for run in run(&format!("{arguments} fillrandom,compact,warm,readrandom")) {
        assert_eq!(run.error, None);
        let [warm, reads] = &run.steps[2..] else { panic!("{:?}", run.steps) };
        // Every key once, whatever the time.
        assert_eq!((warm.cost.unwrap().operations, figure(warm, "found")), (20_000, Some(1.0)));
        let misses = |step: &Step| step.counters.get_blocks_read.unwrap();
        assert!(misses(reads) == 0, "{}: {} after {}", run.engine.name, misses(reads), misses(warm));
    }
}

/// Each round puts all keys anew, in an order of its own, before the reads.
#[test]
fn a_database_that_ages_is_read_after_each_round() {
    let arguments =
        "--num 2000 --reads 100 --memory 16MiB --age 2 --workloads fillseq,waitforcompaction,warm,readrandom";
    for run in run(arguments) {
        assert_eq!(run.error, None);
        let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
        let first = ["fillseq", "settle", "waitforcompaction", "warm", "readrandom"];
        assert_eq!(names[..5].iter().collect::<std::collections::BTreeSet<_>>(), first.iter().collect());
        for age in 1..=2 {
            let round = ["overwrite", "settle", "warm", "readrandom"].map(|name| format!("{name} age {age}"));
            assert_eq!(names[1 + 4 * age..5 + 4 * age], round);
        }
        let puts: Vec<u64> = run.steps.iter().filter_map(|step| Some(step.operation("put")?.operations)).collect();
        assert_eq!(puts, [2000; 3]);
    }
}

#[test]
fn keys_drawn_with_replacement_leave_some_out() {
    for run in run("--num 5000 --memory 16MiB --with-replacement --workloads fillrandom,readrandom,readseq") {
        assert_eq!(run.error, None);
        let found = figure(&run.steps[2], "found").unwrap();
        assert!((0.60..0.66).contains(&found), "{found}");
        let entries = run.steps[3].cost.unwrap().operations;
        assert!((3_050..3_270).contains(&entries), "{entries}");
    }
}

#[test]
fn a_batch_counts_its_keys_and_the_last_is_short() {
    for run in
        run("--num 1005 --settle false --batch 10 --read-batch 4 --memory 16MiB --workloads fillrandom,multireadrandom")
    {
        assert_eq!(run.error, None);
        let calls: Vec<(u64, u64)> =
            run.steps.iter().map(|step| (step.operations[0].calls, step.operations[0].operations)).collect();
        assert_eq!(calls, [(101, 1005), (252, 1005)]);
    }
}

/// While one writer waited for room in memory all others lined up behind it, also when there was room again: sixteen
/// writers made a fourteenth of the commits of four. The bound is generous, because other tests run beside this one.
#[test]
fn many_more_writers_than_processors_commit_as_much_as_a_few() {
    let engine = engines().into_iter().find(|engine| engine.name().contains("lsm")).expect("one of the layouts");
    let rate = |threads: u16| {
        let arguments = "--num 150000 --value-bytes 400 --memory 16MiB --workloads fillrandom --threads";
        let run = run_one(&*engine, &format!("{arguments} {threads}"));
        assert_eq!(run.error, None);
        run.steps[0].cost.unwrap().rate
    };
    let rounds: Vec<_> = (0..3).map(|_| [4, 16, 64].map(rate)).collect();
    let best = |at: usize| rounds.iter().map(|rates| rates[at]).fold(0.0, f64::max);
    assert!(best(1).min(best(2)) > best(0) / 4.0, "{rounds:?}");
}

#[test]
fn durable_puts_are_compared_with_the_raw_device() {
    for run in run("--num 20000 --memory 16MiB --workloads fillsync") {
        assert_eq!(run.error, None);
        let step = &run.steps[0];
        assert!(figure(step, "x floor").unwrap() > 0.0);
        assert_eq!(step.operation("raw device").unwrap().calls, 40);
        assert_eq!(run.engine.durability, "sync");
    }
}

#[test]
fn a_workload_without_a_fill_says_what_is_missing() {
    for run in run("--workloads fillsync,readrandom --num 1000") {
        let error = run.error.unwrap();
        assert!(error.contains("begin with a fill"), "{error}");
    }
}

#[test]
fn time_may_end_reads_but_no_fill() {
    for run in run(
        "--num 500 --settle false --duration 0.05 --memory 16MiB --workloads fillseq,readrandom,readseq,multireadrandom",
    ) {
        assert_eq!(run.error, None);
        assert_eq!(run.steps[0].cost.unwrap().operations, 500);
        assert!(run.steps[1..].iter().all(|step| step.cost.unwrap().operations > 500));
    }
}

#[test]
fn the_writer_beside_readers_keeps_to_its_rate() {
    let arguments = "--num 1000 --settle false --duration 0.2 --memory 16MiB --write-rate-limit 144000";
    for run in run(&format!("{arguments} --workloads fillseq,readwhilewriting,seekrandomwhilewriting")) {
        assert_eq!(run.error, None);
        for step in &run.steps[1..] {
            let puts = step.operation("put").unwrap();
            assert_eq!(puts.wanted_rate, Some(1000.0));
            // The first put is due at once, and none before its time.
            let most = step.cost.unwrap().seconds * 1000.0 + 1.0;
            assert!(puts.calls > 0 && puts.calls as f64 <= most, "{} of {most}", puts.calls);
        }
    }
}
