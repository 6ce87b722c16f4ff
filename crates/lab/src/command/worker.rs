//! One run of one engine, in a process of its own: memory, threads and crashes of one engine are none of another's.

use super::handover::Sayer;
use super::host::Host;
use super::job::Job;
use crate::clock::Clock;
use crate::driver::{Checked, Engine};
use crate::measure::MemoryLimit;
use crate::report::Run;
use crate::run::{Bench, Watch};
use crate::stop::{Interrupted, Stop};
use crate::text::count;
use anyhow::{Context as _, Result};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::io::{Read as _, Write};

/// Reads a [`Job`] from stdin, and hands its [`Run`] over to `out` step by step.
pub(super) fn run(host: &Host, stop: &Stop, out: &mut dyn Write) -> Result<()> {
    // Nobody waits for the result of a worker whose parent is gone.
    set_pdeathsig(Signal::SIGTERM).context("cannot ask for a signal")?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the job")?;
    let job: Job = serde_json::from_str(&text).context("this is a part of `bench`, not a command of its own")?;
    let engine = host.engines.iter().find(|engine| engine.name() == job.engine);
    let engine = engine.with_context(|| format!("there is no engine `{}`", job.engine))?;
    let limit = job.common.memory_limit.map(MemoryLimit::enter).transpose();
    let unlimited = limit.as_ref().err().map(|error| format!("memory was not limited: {error:#}"));
    let mut sayer = Sayer::new(out);
    let mut run = run_watched(&job, &**engine, Clock::real(), stop, &mut |run, begins| sayer.say(run, begins));
    run.notes.extend(unlimited);
    sayer.over(&run)
}

/// Runs a job in this process. A failure of the engine is part of the result.
#[must_use]
pub fn run_job(job: &Job, engine: &dyn Engine, clock: Clock, stop: &Stop) -> Run {
    run_watched(job, engine, clock, stop, &mut |_run, _begins| Ok(()))
}

/// The same, telling `watch` how far it is.
fn run_watched(job: &Job, engine: &dyn Engine, clock: Clock, stop: &Stop, watch: &mut Watch<'_>) -> Run {
    let checked = job.common.verify.then(|| Checked::new(engine));
    let engine = checked.as_ref().map_or(engine, |checked| checked);
    let mut told = |run: &Run, begins: Option<&str>| {
        let run = Run { repetition: job.repetition, ..run.clone() };
        watch(&run, begins)
    };
    let mut bench = Bench::new(engine, &job.dir, clock, stop.clone()).limited(job.common.limit()).watched(&mut told);
    let result = job.experiment.run(&job.common, &mut bench);
    let error = result.err().filter(|error| !error.chain().any(|cause| cause.is::<Interrupted>()));
    let mut run = bench.into_run(error.map(|error| format!("{error:#}")));
    run.repetition = job.repetition;
    if let Some(checked) = &checked {
        run.notes.push(format!("{} reads were compared with a model", count(checked.reads())));
        run.operations_hash = Some(checked.operations_hash());
    }
    run
}
