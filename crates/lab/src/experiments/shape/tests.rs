//! The shapes are as wanted, on engines with levels and without, and every read finds its key.

use super::case::short;
use super::stages::{Reads, Stage};
use crate::clock::Clock;
use crate::command::{BenchArgs, BenchCommand, Job, run_job};
use crate::driver::{TableShape, engines};
use crate::report::{Run, Step};
use crate::stop::Stop;
use crate::text::parse_count;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

/// Twenty thousand values, with runs of 500; with a fanout of 3 they take two levels of few files.
fn run(engine: &str, more: &[&str]) -> Run {
    let sizes = "bench shape --values 20K --reads 300 --ranges 100 --run-values 500 --level1 448KiB --memory 32MiB";
    let cli = Cli::try_parse_from(sizes.split(' ').chain(more.iter().copied())).unwrap();
    let BenchCommand::Run(run) = cli.bench.command else { panic!("an experiment was asked for") };
    let (experiment, common, _) = run.split();
    let engine = engines().into_iter().find(|one| one.name() == engine).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let job = Job {
        experiment,
        common,
        engine: engine.name().to_owned(),
        dir: dir.path().to_owned(),
        progress: None,
        repetition: 0,
    };
    let run = run_job(&job, &*engine, Clock::real(), &Stop::default());
    assert_eq!(run.error, None);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "databases are removed when they were read");
    run
}

fn step<'r>(run: &'r Run, name: &str) -> &'r Step {
    run.steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no step {name}"))
}

/// Memtable entries, runs of L0 and levels below, of the shape that a step read.
fn shape(step: &Step) -> (u64, u64, usize) {
    let [table]: &[TableShape; 1] = step.before.shape.as_slice().try_into().unwrap();
    let below = table.levels.iter().filter(|level| level.level > 0).count();
    (
        table.memtable_entries.unwrap(),
        table.levels.iter().filter(|level| level.level == 0).map(|l0| l0.sorted_runs).sum(),
        below,
    )
}

fn figure(step: &Step, name: &str) -> Option<f64> {
    step.figures.iter().find(|figure| figure.column.name == name).unwrap().value
}

#[test]
fn a_leveled_tree_takes_the_five_shapes() {
    let run = run("spinney-lsm", &["--fanout", "3"]);
    for reads in Reads::ALL {
        let shapes = Stage::ALL.map(|stage| shape(step(&run, &format!("{} {}", stage.name(), reads.name()))));
        assert_eq!(shapes, [(400, 6, 2), (0, 7, 2), (0, 0, 2), (0, 0, 1), (0, 0, 1)]);
        for stage in Stage::ALL {
            let step = step(&run, &format!("{} {}", stage.name(), reads.name()));
            assert_eq!(step.before, step.after, "reading changes nothing");
            assert_eq!(step.cost.unwrap().operations, if reads == Reads::Range { 100 } else { 300 });
        }
    }
    let (first, last) = (step(&run, "pre_flush point"), step(&run, "compact_all point"));
    assert_eq!([first, last].map(|step| figure(step, "trees")), [Some(9.0), Some(1.0)]);
    assert_eq!(figure(last, "relative"), Some(1.0));
    assert!(figure(first, "relative").is_some_and(|relative| relative > 0.0));
    let note = run.notes.iter().find(|note| note.starts_with("shape pre_flush: memtable 400 | L0 6 runs ")).unwrap();
    assert!(note.contains(" | L1 ") && note.contains(" | L2 "), "{note}");
}

#[test]
fn a_tiered_tree_gives_up_its_runs_and_reads_may_be_given_a_time() {
    let run = run("spinney-lsm-tiered", &["--fanout", "3", "--seconds", "0.01"]);
    let (first, l0, last) =
        (step(&run, "pre_flush range"), step(&run, "compact_l0 range"), step(&run, "compact_all range"));
    assert_eq!((shape(first).0, shape(first).1), (400, 6));
    assert_eq!((shape(l0).0, shape(l0).1), (0, 0));
    assert_eq!(shape(last), (0, 0, 1));
    assert!(last.cost.unwrap().seconds >= 0.01);
}

#[test]
fn a_btree_runs_the_stages_that_it_has() {
    let run = run("spinney-btree", &["--fanout", "8,10"]);
    for reads in Reads::ALL {
        for stage in Stage::ALL {
            let name = format!("{} {}", stage.name(), reads.name());
            let skipped = |fanout: &str| step(&run, &format!("20K f{fanout} {name}")).skipped.clone();
            let has_levels = matches!(stage, Stage::CompactL0 | Stage::CompactL1);
            assert_eq!(skipped("8").is_some(), has_levels, "{name}");
            assert!(skipped("10").unwrap().contains("see fanout 8"));
        }
    }
    // What was overwritten is parked over the tree.
    let at = |stage: &str, column: &str| figure(step(&run, &format!("20K f8 {stage} point")), column);
    assert_eq!((at("pre_flush", "trees"), at("pre_flush", "L0")), (Some(8.0), Some(6.0)));
    assert_eq!((at("compact_all", "trees"), at("compact_all", "L0")), (Some(1.0), None));
}

#[test]
fn counts_are_read_as_they_are_written() {
    for (text, value) in [("1M", 1_000_000), ("200M", 200_000_000), ("48K", 48_000), ("7", 7)] {
        assert_eq!((parse_count(text), short(value)), (Ok(value), text.to_owned()));
    }
}
