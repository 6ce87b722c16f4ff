//! All runs of an experiment, each in a worker process, and the report on them.

use super::args::{OutputArgs, Part, RunArgs};
use super::common::Common;
use super::handover::Heard;
use super::host::Host;
use super::job::Job;
use super::resume::{Asked, is_over, progress};
use crate::driver::Engine;
use crate::experiments::Experiment;
use crate::report::{Build, Machine, Missing, Report, Run, View};
use crate::scratch::Scratch;
use crate::stop::{Interrupted, Stop};
use crate::text::{Table, bytes, terminal_width, wrap};
use crate::{html, report};
use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::OpenOptions;
use std::io::{Read as _, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Runs an experiment on all engines that were asked for.
pub(super) fn run(args: RunArgs, host: &Host, stop: &Stop, out: &mut dyn Write) -> Result<()> {
    let (experiment, common, output) = args.split();
    let (engines, missing) = choose(&experiment, &common, host)?;
    check_writable(output.json.as_deref())?;
    check_writable(output.html.as_deref())?;
    let asked =
        Asked { experiment: experiment.clone(), common: common.clone(), repeat: output.repeat, build: Build::this() };
    let mut scratch = prepare(&asked, &output)?;
    let mut report = Report {
        format: report::FORMAT,
        benchmark: experiment.name().to_owned(),
        command: command_line(),
        began: now(),
        build: Build::this(),
        machine: Machine::here(scratch.path()),
        parameters: parameters(&experiment, &common),
        columns: experiment.columns(),
        partial: false,
        missing,
        remarks: Vec::new(),
        runs: Vec::new(),
    };
    for repetition in 0..output.repeat {
        for engine in &engines {
            if stop.asked() {
                break;
            }
            let run = run_one(&asked, engine.name(), repetition, &scratch, &output, host, stop)?;
            report.runs.push(run);
        }
    }
    report.partial = stop.asked();
    report.remarks = report::remarks(&report);
    let goes_on = output.dir.is_some() && experiment.resumes() && (report.partial || !report.runs.iter().all(is_over));
    if goes_on {
        scratch.keep(true);
    }
    let finished = finish(&report, &output, out);
    if goes_on {
        writeln!(out, "the same command with --resume goes on with what {} has", scratch.path().display())?;
    }
    finished
}

/// The directory for the data: empty, or with what an interrupted run of the same options left.
fn prepare(asked: &Asked, output: &OutputArgs) -> Result<Scratch> {
    if let (true, Some(dir)) = (output.resume, &output.dir) {
        asked.check_resumes()?;
        let mut scratch = Scratch::again(dir, true)?;
        asked.check(dir)?;
        scratch.keep(output.keep);
        return Ok(scratch);
    }
    let scratch = Scratch::new(output.dir.as_deref(), output.keep)?;
    check_space(scratch.path(), asked.experiment.disk_bytes())?;
    asked.write(scratch.path())?;
    Ok(scratch)
}

/// Runs one engine once, or goes on where it was interrupted; a run that came to its end is taken over.
fn run_one(
    asked: &Asked,
    engine: &str,
    repetition: u32,
    scratch: &Scratch,
    output: &OutputArgs,
    host: &Host,
    stop: &Stop,
) -> Result<Run> {
    let name = format!("{engine}-{repetition}");
    let said = scratch.path().join(format!("{name}.progress"));
    let earlier = progress(&said)?;
    let has_begun = earlier.is_some();
    if let Some(run) = earlier.filter(is_over) {
        return Ok(run);
    }
    let dir = if has_begun { scratch.path().join(&name) } else { scratch.fresh(&name)? };
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make the directory {}", dir.display()))?;
    let progress = (output.dir.is_some() && asked.experiment.resumes()).then_some(said);
    let resumes = progress.is_some();
    let job = Job {
        experiment: asked.experiment.clone(),
        common: asked.common.clone(),
        engine: engine.to_owned(),
        dir: dir.clone(),
        progress,
        repetition,
    };
    let run = in_worker(&job, host, stop)?;
    if !output.keep && (is_over(&run) || !resumes) {
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(run)
}

/// Prints and writes the report, also a partial one.
fn finish(report: &Report, output: &OutputArgs, out: &mut dyn Write) -> Result<()> {
    report::print(report, view(output), out)?;
    if let Some(path) = &output.json {
        let mut text = serde_json::to_string_pretty(report)?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &output.html {
        std::fs::write(path, html::page(report)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if report.partial {
        return Err(Interrupted.into());
    }
    let failed: Vec<&str> =
        report.runs.iter().filter(|run| run.error.is_some()).map(|run| run.engine.name.as_str()).collect();
    ensure!(failed.is_empty(), "{} failed; the table says why", failed.join(", "));
    Ok(())
}

fn view(output: &OutputArgs) -> View {
    let shows = |part: Part| output.show.contains(&part);
    let (histograms, levels) = (shows(Part::Histograms), shows(Part::Levels));
    View { explain: output.explain, histograms, levels, ..View::default() }
}

/// Where the engines are that this program does not have.
const PEERS: &str =
    "RocksDB, LMDB, redb, fjall, SQLite, WiredTiger and MariaDB are in a program of its own: see peers/README.md";

/// Whether the program has no engines but our own.
fn is_alone(host: &Host) -> bool {
    host.engines.iter().all(|engine| engine.name().starts_with("spinney"))
}

/// Lists the engines.
pub(super) fn print_engines(host: &Host, out: &mut dyn Write) -> Result<()> {
    let mut table = Table::new(&["engine", "version", "direct I/O", ""]);
    for engine in &host.engines {
        let direct_io = if engine.direct_io() { "yes" } else { "no" };
        let remark = match engine.missing() {
            Some(why) => format!("missing: {why}"),
            None if engine.client_server() => "client/server".to_owned(),
            None => String::new(),
        };
        table.row([engine.name().to_owned(), engine.version(), direct_io.to_owned(), remark]);
    }
    write!(out, "{}", table.render())?;
    if is_alone(host) {
        writeln!(out, "\n{}", wrap(PEERS, terminal_width().min(100), 0))?;
    }
    Ok(out.flush()?)
}

/// The engines that were asked for and can run, and those that cannot.
fn choose<'h>(experiment: &Experiment, common: &Common, host: &'h Host) -> Result<(Vec<&'h dyn Engine>, Vec<Missing>)> {
    let known = || host.engines.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(", ");
    let mut wanted: Vec<&dyn Engine> = Vec::new();
    for name in &common.engines {
        let engine = host.engines.iter().find(|engine| engine.name() == name);
        let engine = engine.with_context(|| {
            let peers = if is_alone(host) { format!("; {PEERS}") } else { String::new() };
            format!("there is no engine `{name}`; known are {}{peers}", known())
        })?;
        wanted.push(&**engine);
    }
    if common.engines.is_empty() {
        wanted = host.engines.iter().map(|engine| &**engine).filter(|&engine| experiment.by_default(engine)).collect();
    }
    let (mut engines, mut missing) = (Vec::new(), Vec::new());
    for engine in wanted {
        match engine.missing().or_else(|| experiment.unsuited(engine)) {
            None => engines.push(engine),
            Some(why) => missing.push(Missing { engine: engine.name().to_owned(), why }),
        }
    }
    if engines.is_empty() {
        let why: Vec<String> = missing.iter().map(|missing| format!("{}: {}", missing.engine, missing.why)).collect();
        bail!("no engine can run: {}", why.join("; "));
    }
    Ok((engines, missing))
}

fn in_worker(job: &Job, host: &Host, stop: &Stop) -> Result<Run> {
    let program = std::env::current_exe().context("cannot find this program to run it again")?;
    let mut child = Command::new(program)
        .args(host.worker)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C reaches the whole group in the foreground. A worker hears of it from here, once: a second signal would
        // end it at once and what it measured with it.
        .process_group(0)
        .spawn()
        .context("cannot start a worker process")?;
    let mut stdin = child.stdin.take().context("a worker has a stdin")?;
    stdin.write_all(&serde_json::to_vec(job)?).context("cannot tell the worker its job")?;
    drop(stdin);
    let mut stdout = child.stdout.take().context("a worker has a stdout")?;
    let mut said = Vec::new();
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| stdout.read_to_end(&mut said));
        forward_stop(&child, stop, || reader.is_finished());
        reader.join().expect("reading does not panic")
    });
    read.context("cannot read the worker's result")?;
    let status = child.wait().context("cannot wait for the worker")?;
    let how = how_it_ended(status);
    let run = Heard::new(&String::from_utf8_lossy(&said)).into_run(&how);
    Ok(run.unwrap_or_else(|| failed_run(job, &format!("the worker ended without a result: {how}"))))
}

fn how_it_ended(status: ExitStatus) -> String {
    let memory = status.signal() == Some(Signal::SIGKILL as i32);
    format!("{status}{}", if memory { ", which is how the kernel ends a process when memory runs out" } else { "" })
}

/// Passes a request to stop on to the worker, once, until `ended`.
fn forward_stop(child: &Child, stop: &Stop, ended: impl Fn() -> bool) {
    let clock = crate::clock::Clock::real();
    let mut told = false;
    while !ended() {
        if stop.asked() && !told {
            told = true;
            // It may have ended or been told by the terminal already.
            if let Ok(id) = i32::try_from(child.id()) {
                kill(Pid::from_raw(id), Signal::SIGTERM).ok();
            }
        }
        clock.sleep(Duration::from_millis(20));
    }
}

/// The result of a run of which nothing is known but that it failed.
fn failed_run(job: &Job, error: &str) -> Run {
    Run {
        engine: report::EngineInfo { name: job.engine.clone(), ..report::EngineInfo::default() },
        repetition: job.repetition,
        partial: false,
        error: Some(error.to_owned()),
        notes: Vec::new(),
        operations_hash: None,
        steps: Vec::new(),
    }
}

fn parameters(experiment: &Experiment, common: &Common) -> Vec<(String, String)> {
    let mut parameters = experiment.parameters();
    let mut add = |name: &str, value: String| parameters.push((name.to_owned(), value));
    add("compression", format!("{:?}", common.compression).to_lowercase());
    add("direct I/O", if common.direct_io { "where the engine can" } else { "no" }.to_owned());
    if common.poll_reads {
        add("awake for reads", "where the engine can".to_owned());
    }
    if common.serializable {
        add("transactions", "serializable".to_owned());
    }
    add("memory limit", common.memory_limit.map_or("none".to_owned(), bytes));
    if let Some(ms) = common.sla_ms {
        add("limit of a call", format!("{ms} ms"));
    }
    add("seed", common.seed.to_string());
    if common.verify {
        add("verified", "every read".to_owned());
    }
    parameters
}

/// Whether a result can be written, asked before the work and not after it; what the file holds stays until then.
#[expect(clippy::disallowed_methods, reason = "a result is no part of a database")]
fn check_writable(path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).with_context(|| format!("cannot write {}", path.display()))
}

fn check_space(dir: &Path, needed: u64) -> Result<()> {
    let stat =
        nix::sys::statvfs::statvfs(dir).with_context(|| format!("cannot ask for the space in {}", dir.display()))?;
    let free = stat.blocks_available() * stat.fragment_size();
    ensure!(
        free >= needed,
        "this needs about {} on disk and {} has {} free; give another --dir, or smaller numbers",
        bytes(needed),
        dir.display(),
        bytes(free)
    );
    Ok(())
}

/// The command as it was given, with the program's name alone.
fn command_line() -> String {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map_or(program.clone(), |name| name.to_string_lossy().into_owned());
    std::iter::once(name).chain(arguments.filter(|word| word != "--resume")).collect::<Vec<_>>().join(" ")
}

#[expect(clippy::disallowed_methods, reason = "a report says when it was made")]
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
