//! One run of one engine, in a process of its own: memory, threads and crashes of one engine are none of another's.

use super::handover::Sayer;
use super::host::Host;
use super::job::Job;
use super::resume::progress;
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
use spinney::env::os::allocator::give_large_buffers_back;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write};
use std::path::Path;

/// Reads a [`Job`] from stdin, and hands its [`Run`] over to `out` step by step.
pub(super) fn run(host: &Host, stop: &Stop, out: &mut dyn Write) -> Result<()> {
    // What the experiments take for a moment is not counted as the engine's.
    give_large_buffers_back();
    // Nobody waits for the result of a worker whose parent is gone.
    set_pdeathsig(Signal::SIGTERM).context("cannot ask for a signal")?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the job")?;
    let job: Job = serde_json::from_str(&text).context("this is a part of `bench`, not a command of its own")?;
    let engine = host.engines.iter().find(|engine| engine.name() == job.engine);
    let engine = engine.with_context(|| format!("there is no engine `{}`", job.engine))?;
    let limit = job.common.memory_limit.map(MemoryLimit::enter).transpose();
    let unlimited = limit.as_ref().err().map(|error| format!("memory was not limited: {error:#}"));
    run_told(&job, &**engine, stop, unlimited, out)
}

/// Runs a job, telling `out` and the file of its progress how far it is.
fn run_told(job: &Job, engine: &dyn Engine, stop: &Stop, note: Option<String>, out: &mut dyn Write) -> Result<()> {
    let earlier = job.progress.as_deref().map(progress).transpose()?.flatten();
    let file = job.progress.as_deref().map(open_progress).transpose()?;
    let mut sayer = Sayer::new(Both { out, file });
    let mut run = run_watched(job, engine, Clock::real(), stop, earlier, &mut |run, begins| sayer.say(run, begins));
    run.notes.extend(note);
    sayer.over(&run)
}

#[expect(clippy::disallowed_methods, reason = "what a benchmark says is no part of a database")]
fn open_progress(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))
}

/// What is written to it goes to the parent, and to the file of the progress if there is one.
struct Both<'o> {
    out: &'o mut dyn Write,
    file: Option<File>,
}

impl Write for Both<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(&bytes[..written]))?;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Runs a job in this process. A failure of the engine is part of the result.
#[must_use]
pub fn run_job(job: &Job, engine: &dyn Engine, clock: Clock, stop: &Stop) -> Run {
    run_watched(job, engine, clock, stop, None, &mut |_run, _begins| Ok(()))
}

/// The same, going on where `earlier` was interrupted and telling `watch` how far it is.
fn run_watched(
    job: &Job,
    engine: &dyn Engine,
    clock: Clock,
    stop: &Stop,
    earlier: Option<Run>,
    watch: &mut Watch<'_>,
) -> Run {
    let checked = job.common.verify.then(|| Checked::new(engine));
    let engine = checked.as_ref().map_or(engine, |checked| checked);
    let mut told = |run: &Run, begins: Option<&str>| {
        let run = Run { repetition: job.repetition, ..run.clone() };
        watch(&run, begins)
    };
    let mut bench = Bench::new(engine, &job.dir, clock, stop.clone()).limited(job.common.limit()).watched(&mut told);
    if let Some(earlier) = earlier {
        bench = bench.resumed(earlier);
    }
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

#[cfg(test)]
mod tests {
    use super::super::handover::Heard;
    use super::*;
    use crate::driver::{Config, TableId, TableSpec, engines};
    use crate::experiments::tests::job;
    use std::time::Duration;

    /// A run of a job in a directory that it shares with the run before; what it handed over.
    fn told(job: &Job, stop: &Stop) -> Run {
        let mut out = Vec::new();
        run_told(job, &*engines()[1], stop, None, &mut out).unwrap();
        Heard::new(std::str::from_utf8(&out).unwrap()).into_run("killed").unwrap()
    }

    /// The same, asked to stop a little after a step begins.
    fn interrupted_in(step: &str, job: &Job) -> Run {
        let stop = Stop::default();
        let begins = format!("{{\"begins\":\"{step}\"}}\n");
        let path = job.progress.clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let said = || std::fs::read_to_string(&path).unwrap_or_default();
                while !said().ends_with(&begins) {
                    Clock::real().sleep(Duration::from_millis(1));
                }
                Clock::real().sleep(Duration::from_millis(30));
                stop.ask();
            });
            told(job, &stop)
        })
    }

    fn job_in(dir: &Path, arguments: &str) -> Job {
        let data = dir.join("data");
        std::fs::create_dir(&data).unwrap();
        Job { progress: Some(dir.join("progress")), ..job(arguments, engines()[1].name(), &data) }
    }

    fn operations(run: &Run, step: &str, kind: &str) -> u64 {
        let step = run.steps.iter().find(|other| other.name == step).unwrap();
        step.operation(kind).map_or(0, |operation| operation.operations)
    }

    fn names(run: &Run) -> Vec<&str> {
        run.steps.iter().map(|step| step.name.as_str()).collect()
    }

    /// The rows of the insert benchmark that its database has.
    fn rows(job: &Job, tables: &[&'static str]) -> Vec<u64> {
        let tables: Vec<TableSpec> = tables.iter().map(|&name| TableSpec::new(name)).collect();
        let store = engines()[1].open(&job.dir.join("insert-4x"), &Config::default(), &tables).unwrap();
        let mut client = store.client().unwrap();
        let count = |at| client.scan(&crate::driver::Scan::all(TableId(at)), &mut |_, _| {}).unwrap();
        (0..tables.len()).map(count).collect()
    }

    #[test]
    fn inserts_go_on_with_the_rows_that_are_there() {
        for (deletes, clients) in [(true, 1), (false, 1), (true, 3)] {
            let dir = tempfile::tempdir().unwrap();
            let arguments = format!(
                "insert --rows 60000 --more-rows 300000 --memory 4x --rates none --deletes {deletes} --clients {clients}"
            );
            let job = job_in(dir.path(), &arguments);
            let first = interrupted_in("l.i1 4x", &job);
            assert!(first.partial && first.error.is_none(), "{first:?}");
            assert_eq!(names(&first), ["l.i0 4x", "l.x 4x", "l.i1 4x"]);
            let inserted = operations(&first, "l.i1 4x", "insert");
            assert!((1..300_000).contains(&inserted), "{inserted}");
            let second = told(&job, &Stop::default());
            assert_eq!((second.error.as_deref(), second.partial), (None, false));
            assert_eq!(names(&second), ["l.i0 4x", "l.x 4x", "l.i1 4x", "l.i2 4x", "wait 4x"]);
            // What had come to its end is taken over, the rest of what had not is done.
            assert_eq!(second.steps[..2], first.steps[..2]);
            let both = |kind| operations(&first, "l.i1 4x", kind) + operations(&second, "l.i1 4x", kind);
            assert_eq!(both("insert"), 300_000);
            assert_eq!(operations(&second, "l.i2 4x", "insert"), 30_000);
            let left = if deletes { 60_000 } else { 390_000 };
            if deletes {
                assert_eq!(both("delete"), 300_000);
            }
            assert_eq!(rows(&job, &["rows", "market", "register", "price"]), [left; 4]);
            assert!(second.notes.iter().any(|note| note.contains("resumed at l.i1 4x")), "{:?}", second.notes);
        }
    }

    /// A worker that is killed says nothing of the step in which it was, and the last line may be cut short.
    #[test]
    fn a_run_goes_on_after_its_worker_was_killed() {
        let dir = tempfile::tempdir().unwrap();
        let job = job_in(dir.path(), "insert --rows 60000 --more-rows 200000 --memory 4x --rates none");
        interrupted_in("l.i1 4x", &job);
        let path = job.progress.clone().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let begins = "{\"begins\":\"l.i1 4x\"}\n";
        let (before, _) = text.split_once(begins).unwrap();
        std::fs::write(&path, format!("{before}{begins}{{\"step\":[2,{{\"na")).unwrap();
        let second = told(&job, &Stop::default());
        assert_eq!((second.error.as_deref(), names(&second).len()), (None, 5));
        assert_eq!(rows(&job, &["rows", "market", "register", "price"]), [60_000; 4]);
        let whole = progress(&path).unwrap().unwrap();
        assert_eq!((whole.partial, whole.steps), (false, second.steps));
    }

    #[test]
    fn single_operations_go_on_with_the_database_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let workloads = "fillseq,readseq,fillrandom,overwrite,warm,readrandom";
        let job = job_in(dir.path(), &format!("kv --num 300000 --reads 1000 --memory 64MiB --workloads {workloads}"));
        let first = interrupted_in("overwrite", &job);
        assert_eq!(names(&first), ["fillseq", "settle", "readseq", "fillrandom", "overwrite"]);
        let second = told(&job, &Stop::default());
        assert_eq!((second.error.as_deref(), second.partial), (None, false));
        let all = ["fillseq", "settle", "readseq", "fillrandom", "overwrite", "settle", "warm", "readrandom"];
        assert_eq!((names(&second), &second.steps[..4]), (all.to_vec(), &first.steps[..4]));
        // All keys are there, whatever was put before.
        assert_eq!(
            second.steps[6].figures.iter().find(|figure| figure.column.name == "found").unwrap().value,
            Some(1.0)
        );
    }
}
