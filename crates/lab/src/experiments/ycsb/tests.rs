//! Small runs of all workloads on our engines.

use super::*;
use crate::driver::{Engine, engines};
use crate::experiments::Experiment;
use crate::experiments::tests::run_on;
use crate::random::chi_square::assert_fits;
use crate::report::Run;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    ycsb: Ycsb,
    #[command(flatten)]
    common: Common,
}

/// The runs of our engines with these arguments.
fn run(arguments: &str) -> Vec<Run> {
    let line = Line::try_parse_from(std::iter::once("ycsb").chain(arguments.split_whitespace())).unwrap();
    let run = |engine: Box<dyn Engine>| run_on(&*engine, Experiment::Ycsb(line.ycsb.clone()), line.common.clone());
    engines().into_iter().map(run).collect()
}

#[test]
fn every_workload_has_its_mix_on_every_engine() {
    for run in run("--records 500 --operations 3000 --memory 16MiB") {
        assert_eq!(run.error, None, "{}", run.engine.name);
        let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["load", "A", "B", "C", "F", "D", "load E", "E"]);
        for step in &run.steps {
            let operations = step.cost.unwrap().operations;
            if step.name.starts_with("load") {
                assert_eq!((operations, step.operation("INSERT").unwrap().calls), (500, 500));
                continue;
            }
            assert_eq!(operations, 3000);
            let workload = Workload::from_str(&step.name, true).unwrap();
            let shares = workload.shares().map(|share| share as f64 / 100.0);
            let calls: Vec<u64> =
                KINDS.iter().map(|kind| step.operation(kind).map_or(0, |operation| operation.calls)).collect();
            if workload == Workload::C {
                assert_eq!(calls, [3000, 0, 0, 0, 0]);
            } else {
                assert_fits(&calls, &shares);
            }
        }
        let scans = run.steps[7].figures.iter().find(|figure| figure.column.name == "records/scan").unwrap();
        let mean = scans.value.unwrap();
        // Lengths from 1 to 100, some cut by the end of the table.
        assert!((40.0..52.0).contains(&mean), "{mean}");
    }
}

#[test]
fn several_clients_insert_and_read_only_what_is_there() {
    for run in run("--records 300 --operations 4000 --threads 4 --memory 16MiB --workloads d,e,f") {
        assert_eq!(run.error, None, "{}", run.engine.name);
        let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["load", "D", "load E", "E", "load F", "F"]);
    }
}

/// One engine's cache holds what a load wrote and another's does not: reads of cached data come after a warming.
#[test]
fn after_warm_reads_come_from_memory() {
    for run in run("--records 20000 --operations 2000 --memory 128MiB --workloads c,e,c --warm") {
        assert_eq!(run.error, None, "{}", run.engine.name);
        let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["load", "warm", "C", "E", "load C", "warm C", "C"]);
        let warm = run.steps[1].cost.unwrap();
        assert_eq!((warm.operations, run.steps[1].operation("READ").unwrap().calls), (20_000, 20_000));
        // Counted by the engine: other processes read from the device too.
        let counters = &run.steps[2].counters;
        assert_eq!((counters.gets, counters.get_blocks_read), (Some(2000), Some(0)), "{}", run.engine.name);
    }
}

#[test]
fn two_engines_do_the_same_operations() {
    let calls = |run: &Run| -> Vec<(String, u64)> {
        let operations = run.steps.iter().flat_map(|step| &step.operations);
        operations.map(|operation| (operation.name.clone(), operation.calls)).collect()
    };
    let runs = run("--records 200 --operations 500 --memory 16MiB --distribution hotspot");
    assert!(runs.iter().all(|run| run.error.is_none() && calls(run) == calls(&runs[0])));
}
