//! Every experiment runs at the smallest value of each of its options, and at the next one, on all our layouts; what it
//! cannot run at is refused with the option's name.

use super::tests::job;
use crate::clock::Clock;
use crate::command::{RunArgs, run_job};
use crate::driver::{Engine, document_engines, engines};
use crate::stop::Stop;
use clap::{ArgAction, Command, FromArgMatches as _, Subcommand as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Arguments that make each experiment short.
const SHORT: [&str; 11] = [
    "insert --rows 60 --more-rows 60 --rates 1000 --seconds 0.02 --memory 4x",
    "shape --values 40 --reads 20 --ranges 10 --run-values 20 --fanout 8 --memory 4MiB",
    "commit --rows 10 --device-writes 3 --memory 4MiB --clients 1,2",
    "journal --items 20 --memory 4MiB --logs plain,logdir",
    "link --nodes 40 --phases 1 --requests 30 --memory 4MiB",
    "kv --num 60 --memory 4MiB",
    "ycsb --records 40 --operations 30 --memory 4MiB --workloads a,d,e,f",
    "documents --documents 60 --singles 20 --reads 10 --updates 5 --scans 1 --memory 4MiB",
    "insert-documents --rows 60 --more-rows 60 --rates 1000 --seconds 0.02 --memory 4x",
    "link-documents --nodes 40 --phases 1 --requests 30 --memory 4MiB",
    "commit --documents --rows 10 --device-writes 3 --memory 4MiB --clients 1,2",
];

fn command() -> Command {
    RunArgs::augment_subcommands(Command::new("bench"))
}

/// What the arguments are, or why they are refused.
fn parse(arguments: &str) -> Result<RunArgs, String> {
    let matches = command().try_get_matches_from(["bench"].into_iter().chain(arguments.split(' ')));
    RunArgs::from_arg_matches(&matches.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

/// The arguments with this value of an option instead of the one that they have.
fn with(arguments: &str, option: &str, value: &str) -> String {
    let words: Vec<&str> = arguments.split(' ').collect();
    let kept = words.iter().enumerate().filter(|&(at, word)| *word != option && (at == 0 || words[at - 1] != option));
    let kept: Vec<&str> = kept.map(|(_, word)| *word).collect();
    format!("{} {option}={value}", kept.join(" "))
}

/// The smallest whole numbers between which an option's values begin or end to be refused: `low` is refused and `high`
/// taken, or the other way round.
fn edge(takes: &dyn Fn(u64) -> bool, mut low: u64, mut high: u64) -> u64 {
    let upper = takes(high);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if takes(middle) == upper { high = middle } else { low = middle }
    }
    if upper { high } else { low }
}

/// The options of an experiment that take a number, with their smallest and largest values.
fn numeric_options(arguments: &str) -> Vec<(String, u64, u64)> {
    let name = arguments.split(' ').next().unwrap();
    let command = command();
    let experiment = command.find_subcommand(name).unwrap();
    let options =
        experiment.get_arguments().filter(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append));
    let mut found = Vec::new();
    for option in options.filter_map(|arg| arg.get_long()) {
        let option = format!("--{option}");
        let takes = |value: u64| parse(&with(arguments, &option, &value.to_string())).is_ok();
        // Files and engines take any text, choices none that is a number.
        if parse(&with(arguments, &option, "any-text")).is_ok() {
            continue;
        }
        let taken = (0..64).map(|bits| 1_u64 << bits).find(|&value| takes(value));
        if let Some(taken) = taken {
            let smallest = if takes(0) { 0 } else { edge(&takes, 0, taken) };
            let largest = if takes(u64::MAX) { u64::MAX } else { edge(&takes, taken, u64::MAX) };
            found.push((option, smallest, largest));
        }
    }
    found
}

/// Our own engines, of tables and of documents.
fn all_engines() -> Vec<Box<dyn Engine>> {
    let mut engines = engines();
    engines.extend(document_engines());
    engines
}

/// Runs an experiment on each of our layouts.
fn run(arguments: &str, option: &str) {
    for engine in all_engines() {
        let dir = tempfile::tempdir().unwrap();
        let job = job(arguments, engine.name(), dir.path());
        if !job.experiment.by_default(&*engine) {
            continue;
        }
        let run = catch_unwind(AssertUnwindSafe(|| run_job(&job, &*engine, Clock::real(), &Stop::default())));
        let Ok(run) = run else { panic!("`{arguments}` on {} panics", engine.name()) };
        if let Some(error) = &run.error {
            assert!(error.contains(option), "`{arguments}` on {}: {error}", engine.name());
        }
        let columns = job.experiment.columns();
        for figure in run.steps.iter().flat_map(|step| &step.figures) {
            let name = &figure.column.name;
            assert!(columns.iter().any(|(title, _)| title == name), "`{arguments}`: column {name} is not explained");
        }
        serde_json::from_str::<crate::report::Run>(&serde_json::to_string(&run).unwrap()).unwrap_or_else(|error| {
            panic!("`{arguments}` on {}: what is handed over is not read: {error}", engine.name())
        });
    }
}

/// Runs an experiment with each option at its smallest value and at the next, one option at a time.
fn run_smallest(name: &str) {
    let begins = |arguments: &&str| arguments.strip_prefix(name).is_some_and(|rest| rest.starts_with(" --"));
    let arguments = SHORT.into_iter().find(begins).unwrap();
    run(arguments, "(no option)");
    let options = numeric_options(arguments);
    assert!(options.len() > 10, "{options:?}");
    for (option, smallest, _) in &options {
        // Seconds are the only options whose values lie below 1.
        let fraction = with(arguments, option, "0.001");
        if parse(&fraction).is_ok() {
            run(&fraction, option);
        } else if option != "--repeat" && option != "--memory-limit" {
            run(&with(arguments, option, &smallest.to_string()), option);
            let next = with(arguments, option, &(smallest + 1).to_string());
            match parse(&next) {
                Ok(_) => run(&next, option),
                Err(refused) => assert!(refused.contains(option.as_str()), "`{next}`: {refused}"),
            }
        }
    }
}

/// Each in a test of its own, so that they run at the same time.
macro_rules! each_smallest {
    ($($test:ident $name:literal)*) => { $(
        #[test]
        fn $test() {
            run_smallest($name);
        }
    )* };
}

each_smallest! {
    the_smallest_values_of_insert_run "insert"
    the_smallest_values_of_shape_run "shape"
    the_smallest_values_of_commit_run "commit"
    the_smallest_values_of_journal_run "journal"
    the_smallest_values_of_link_run "link"
    the_smallest_values_of_kv_run "kv"
    the_smallest_values_of_ycsb_run "ycsb"
    the_smallest_values_of_documents_run "documents"
    the_smallest_values_of_insert_documents_run "insert-documents"
    the_smallest_values_of_link_documents_run "link-documents"
    the_smallest_values_of_commit_of_documents_run "commit --documents"
}

#[test]
fn all_smallest_values_together_run() {
    for arguments in SHORT {
        let mut all = arguments.to_owned();
        for (option, smallest, _) in numeric_options(arguments) {
            let fraction = with(&all, &option, "0.02");
            if parse(&fraction).is_ok() {
                all = fraction;
            } else if !["--repeat", "--memory-limit", "--seconds", "--block"].contains(&option.as_str()) {
                all = with(&all, &option, &smallest.to_string());
            }
        }
        run(&all, "(no option)");
        for clients in ["--clients", "--threads", "--loaders", "--requesters"] {
            if all.contains(&format!("{clients}=")) {
                run(&with(&all.replace(&format!("{clients}=1"), ""), clients, "3").replace("  ", " "), "(no option)");
            }
        }
    }
}

#[test]
fn the_largest_values_are_described_and_need_more_space_than_there_is() {
    for arguments in SHORT {
        for (option, _, largest) in numeric_options(arguments) {
            let arguments = with(arguments, &option, &largest.to_string());
            let (experiment, _, _) = parse(&arguments).unwrap().split();
            let described = catch_unwind(|| (experiment.parameters(), experiment.disk_bytes()));
            assert!(described.is_ok(), "`{arguments}` panics");
        }
    }
}

#[test]
fn counts_take_units_in_all_experiments() {
    let counts = [
        "insert --rows 100K --more-rows 1M --batch 1K",
        "commit --rows 1M --warm-rows 1K --device-writes 1K",
        "journal --items 1M --warm-items 1K",
        "link --nodes 100K --requests 1M",
        "kv --num 100K --reads 1M --deletes 10K --value-bytes 1KiB",
        "ycsb --records 1M --operations 100K",
        "shape --values 1M,2M --reads 1K",
        "documents --documents 1M --reads 10K --updates 1K",
    ];
    for arguments in counts {
        assert!(parse(arguments).is_ok(), "{:?}", parse(arguments).err());
    }
}
