//! What the tests of all experiments need.

use super::Experiment;
use crate::command::{Common, Job, RunArgs, run_job};
use crate::driver::{Compression, Engine};
use crate::report::Run;
use crate::{Clock, Stop};
use clap::{FromArgMatches as _, Subcommand as _};
use std::path::Path;

/// The arguments that all experiments take, as they are unless asked otherwise.
pub(super) fn common() -> Common {
    Common {
        engines: Vec::new(),
        durability: None,
        interval: 100,
        compression: Compression::None,
        large_values: None,
        block: None,
        direct_io: true,
        poll_reads: false,
        serializable: false,
        background_threads: 2,
        memory_limit: None,
        sla_ms: None,
        seed: 1,
        verify: false,
    }
}

/// One run of an experiment, in this process and a directory of its own.
pub(super) fn run_on(engine: &dyn Engine, experiment: Experiment, common: Common) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let (engine_name, dir_path) = (engine.name().to_owned(), dir.path().to_owned());
    let job = Job { experiment, common, engine: engine_name, dir: dir_path, progress: None, repetition: 0 };
    run_job(&job, engine, Clock::real(), &Stop::default())
}

/// A job with arguments as a user gives them, the experiment's name first.
pub(crate) fn job(arguments: &str, engine: &str, dir: &Path) -> Job {
    let command = RunArgs::augment_subcommands(clap::Command::new("bench"));
    let matches = command.try_get_matches_from(["bench"].into_iter().chain(arguments.split(' '))).unwrap();
    let (experiment, common, _) = RunArgs::from_arg_matches(&matches).unwrap().split();
    Job { experiment, common, engine: engine.to_owned(), dir: dir.to_owned(), progress: None, repetition: 0 }
}
