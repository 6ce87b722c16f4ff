//! One engine's run of an experiment.

use super::clients::{self, RoleResult};
use super::earlier::Earlier;
use super::figures::{cost, operations};
use super::plan::{End, Plan};
use super::timeline::Timeline;
use crate::clock::Clock;
use crate::driver::{Config, Counters, Engine, Lacks, LevelWork, Store, TableSpec, unless_lacking};
use crate::measure::{MemoryLimit, MemoryPeak, Meter, SystemUse, Usage, directory_size, touch_memory};
use crate::progress;
use crate::report::{EngineInfo, Run, Second, Size, State, Step};
use crate::stop::Stop;
use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Is told how far a run is, and the name of the step that begins, if one does. It is never told while a step is
/// measured.
pub type Watch<'w> = dyn FnMut(&Run, Option<&str>) -> Result<()> + 'w;

/// What an experiment works with: an engine, a place for its data, and the results so far.
pub struct Bench<'e> {
    engine: &'e dyn Engine,
    dir: PathBuf,
    clock: Clock,
    stop: Stop,
    /// The longest that a call should take.
    limit: Option<Duration>,
    run: Run,
    earlier: Earlier,
    watch: Option<Box<Watch<'e>>>,
    /// Whether the memory of this process is bounded.
    is_bounded: bool,
}

/// An engine that may have so much memory does not begin before the machine has it (see `measure/touch.rs`); less makes
/// no difference.
const TOUCHED_BYTES_MIN: u64 = 1 << 30;

/// An open database whose steps are measured.
pub struct Db<'b, 'e> {
    bench: &'b mut Bench<'e>,
    store: Box<dyn Store>,
    dir: PathBuf,
    log_dir: Option<PathBuf>,
}

impl<'e> Bench<'e> {
    /// A run of `engine` with data below `dir`, which exists.
    #[must_use]
    pub fn new(engine: &'e dyn Engine, dir: &Path, clock: Clock, stop: Stop) -> Self {
        let info = EngineInfo {
            name: engine.name().to_owned(),
            version: engine.version(),
            client_server: engine.client_server(),
            ..EngineInfo::default()
        };
        let run = Run {
            engine: info,
            repetition: 0,
            partial: false,
            error: None,
            notes: Vec::new(),
            operations_hash: None,
            steps: Vec::new(),
        };
        Self {
            engine,
            dir: dir.to_owned(),
            clock,
            stop,
            limit: None,
            run,
            earlier: Earlier::default(),
            watch: None,
            is_bounded: false,
        }
    }

    /// The same, telling `watch` of each step that begins or ends.
    #[must_use]
    pub fn watched(self, watch: impl FnMut(&Run, Option<&str>) -> Result<()> + 'e) -> Self {
        Self { watch: Some(Box::new(watch)), ..self }
    }

    /// The same, counting calls that take longer than `limit`.
    #[must_use]
    pub fn limited(self, limit: Option<Duration>) -> Self {
        Self { limit, ..self }
    }

    /// The same, going on where `run` was interrupted, with the databases that it left: its steps that came to their
    /// end are taken over.
    #[must_use]
    pub fn resumed(mut self, run: Run) -> Self {
        self.run.notes.clone_from(&run.notes);
        Self { earlier: Earlier::of(run), ..self }
    }

    /// Whether it goes on where another process was interrupted.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.earlier.is_resumed()
    }

    /// Whether it does, and came to no step yet that it does itself: some of that step may be done.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.earlier.is_ahead()
    }

    /// Takes a step over if an earlier process did it; says whether it did.
    ///
    /// # Errors
    /// When the earlier process did another step here.
    pub fn takes_over(&mut self, name: &str) -> Result<bool> {
        let Some(step) = self.earlier.take(name)? else { return Ok(false) };
        self.run.steps.push(step);
        self.tell(None)?;
        Ok(true)
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &'e dyn Engine {
        self.engine
    }

    /// Where the data of the database with this name lies, or will.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The clock that steps are measured with.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Asked when the run is to end early.
    #[must_use]
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Opens or makes the database with this name.
    ///
    /// # Errors
    /// [`Lacks`] when the engine has no way to do what `config` asks for; else what the engine says.
    pub fn open(&mut self, name: &str, config: &Config, tables: &[TableSpec]) -> Result<Db<'_, 'e>> {
        let dir = self.path(name);
        if self.clock.is_real() && !self.is_bounded && config.memory_bytes >= TOUCHED_BYTES_MIN {
            let wheel = progress::wheel("touching memory");
            touch_memory(config.memory_bytes);
            wheel.finish_and_clear();
        }
        ensure!(!config.serializable || self.engine.serializable(), Lacks::new("no serializable transactions"));
        let store = self.engine.open(&dir, config, tables)?;
        let durability = config.durability.text();
        let said = &mut self.run.engine.durability;
        if said.is_empty() {
            *said = durability;
        } else if !said.split(", ").any(|earlier| earlier == durability) {
            *said = format!("{said}, {durability}");
        }
        self.run.engine.settings = store.settings();
        let dir = store.data_dir().unwrap_or(dir);
        Ok(Db { bench: self, store, dir, log_dir: config.log.dir.clone() })
    }

    /// Bounds the memory that the engine's files get in the page cache, if it reads through one, by limiting all memory
    /// of this process to `bytes` until the result is dropped; a remark in the report says how it is.
    pub fn bound_page_cache(&mut self, bytes: u64, config: &Config) -> Option<MemoryLimit> {
        if config.direct_io && self.engine.direct_io() {
            self.note("the page cache was passed by: direct I/O");
            return None;
        }
        match MemoryLimit::enter(bytes) {
            Ok(limit) => {
                self.is_bounded = true;
                self.note("the page cache was bounded by a control group: all memory of the process is the database's and 48 MiB");
                Some(limit)
            }
            Err(error) => {
                self.note(format!("the page cache was not bounded, so data came from more memory than the database was given: {error:#}"));
                None
            }
        }
    }

    /// Adds a remark for the reader of the report.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.run.notes.contains(&text) {
            self.run.notes.push(text);
        }
    }

    /// Adds a step that the engine cannot do.
    pub fn skip(&mut self, name: &str, unit: &str, why: &Lacks) {
        self.run.steps.push(Step::skipped(name, unit, why.to_string()));
    }

    /// Adds a step that was measured elsewhere, as the floor of the device.
    pub fn push(&mut self, step: Step) {
        self.run.steps.push(step);
    }

    /// The steps so far.
    pub fn steps(&mut self) -> &mut Vec<Step> {
        &mut self.run.steps
    }

    fn tell(&mut self, begins: Option<&str>) -> Result<()> {
        self.watch.as_mut().map_or(Ok(()), |watch| watch(&self.run, begins))
    }

    /// The result.
    #[must_use]
    pub fn into_run(self, error: Option<String>) -> Run {
        Run { partial: self.stop.asked(), error, ..self.run }
    }
}

impl<'e> Db<'_, 'e> {
    /// The database itself.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The run that it belongs to.
    pub fn bench(&mut self) -> &mut Bench<'e> {
        self.bench
    }

    /// Runs a step and measures it; the result, already part of the run, may be given figures of the experiment's own.
    ///
    /// # Errors
    /// What the engine says; [`crate::Interrupted`] when the run is to end, with what was measured kept as partial.
    pub fn step(&mut self, plan: &Plan<'_>) -> Result<&mut Step> {
        if self.bench.takes_over(&plan.name)? {
            return Ok(self.last_step());
        }
        let first = plan.roles.first().filter(|_| self.bench.clock.is_real());
        let overhead = first.and_then(|role| clients::overhead_us(role, &self.bench.clock));
        let (mut step, meter) = self.begin(&plan.name, plan.unit)?;
        let mut samples = Sampler::new(self, &meter)?;
        let bar = StepBar::new(self.bench.engine.name(), plan);
        let (store, clock) = (&*self.store, &self.bench.clock);
        let bounds = (&self.bench.stop, self.bench.limit);
        let began = clock.now();
        let roles = clients::run(plan, store, clock, bounds, |calls| samples.watch(calls, &bar))?;
        drop(bar);
        let usage = samples.usage()?;
        let elapsed = self.bench.clock.now() - began;
        step.cost = Some(cost(&roles, elapsed, &usage, overhead, samples.memory.bytes().ok()));
        step.system = system_use(&self.bench.clock, &usage);
        step.operations = operations(plan, &roles, elapsed);
        step.seconds = samples.into_seconds(&roles);
        self.end(step, plan.live_bytes)
    }

    /// Runs and measures one of the store's own verbs, as a step without operations of its own; what the engine lacks
    /// for it makes the step a skipped one.
    ///
    /// # Errors
    /// What the engine says.
    pub fn verb(&mut self, name: &str, verb: impl FnOnce(&dyn Store) -> Result<()>) -> Result<&mut Step> {
        if self.bench.takes_over(name)? {
            return Ok(self.last_step());
        }
        let (mut step, meter) = self.begin(name, "run")?;
        let samples = Sampler::new(self, &meter)?;
        let wheel = progress::wheel(&format!("{} {name}", self.bench.engine.name()));
        let began = self.bench.clock.now();
        let done = unless_lacking(verb(&*self.store))?;
        wheel.finish_and_clear();
        let (usage, rss) = (samples.usage()?, samples.memory.bytes().ok());
        drop(samples);
        match done {
            Ok(()) => {
                let elapsed = self.bench.clock.now() - began;
                step.cost = Some(cost(&[], elapsed, &usage, None, rss));
                step.system = system_use(&self.bench.clock, &usage);
            }
            Err(lacks) => step.skipped = Some(lacks.to_string()),
        }
        self.end(step, None)
    }

    /// Adds a step that shows the state of the database, and costs nothing.
    ///
    /// # Errors
    /// What the engine says.
    pub fn record(&mut self, name: &str) -> Result<&mut Step> {
        if self.bench.takes_over(name)? {
            return Ok(self.last_step());
        }
        let (step, _meter) = self.begin(name, "run")?;
        self.end(step, None)
    }

    /// Closes the database.
    ///
    /// # Errors
    /// What the engine says.
    pub fn close(self) -> Result<()> {
        self.store.close()
    }

    /// The size of the database now.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        let is_log = |path: &Path| self.store.is_log(path);
        let mut size = directory_size(&self.dir, &is_log).ok()?;
        if let Some(log_dir) = &self.log_dir {
            let log = directory_size(log_dir, &|_| true).ok()?;
            size.apparent_bytes += log.apparent_bytes;
            size.allocated_bytes += log.allocated_bytes;
            size.log_bytes += log.log_bytes;
        }
        Some(size)
    }

    fn state(&self) -> Result<State> {
        Ok(State { size: self.size(), shape: self.store.shape()? })
    }

    fn begin(&mut self, name: &str, unit: &str) -> Result<(Step, Meter)> {
        if self.bench.earlier.is_first_anew() {
            self.bench.note(format!("resumed at {name}, on the database that the run had when it was interrupted"));
        }
        self.bench.tell(Some(name))?;
        let step = Step {
            name: name.to_owned(),
            unit: unit.to_owned(),
            before: self.state()?,
            counters: self.store.counters()?,
            level_work: self.store.level_work()?,
            ..Step::default()
        };
        Ok((step, Meter::start(&self.dir, &self.store.processes())?))
    }

    fn end(&mut self, mut step: Step, live_bytes: Option<u64>) -> Result<&mut Step> {
        step.after = self.state()?;
        step.counters = Counters::since(&self.store.counters()?, &step.counters);
        step.level_work = LevelWork::since(self.store.level_work()?, &step.level_work);
        if let (Some(cost), Some(size), Some(live)) = (&mut step.cost, step.after.size, live_bytes) {
            cost.space_amplification = Some(size.allocated_bytes as f64 / live.max(1) as f64);
        }
        step.partial = self.bench.stop.asked();
        self.bench.run.steps.push(step);
        self.bench.tell(None)?;
        self.bench.stop.check()?;
        Ok(self.last_step())
    }

    fn last_step(&mut self) -> &mut Step {
        self.bench.run.steps.last_mut().expect("pushed before")
    }
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("engine", &self.engine).field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Db<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// What the machine did meanwhile; a simulated clock says nothing of it.
fn system_use(clock: &Clock, usage: &Usage) -> Option<SystemUse> {
    usage.system.filter(|_| clock.is_real())?.shares(usage.elapsed, usage.cpu)
}

/// Looks at the process and the directory once a second.
struct Sampler<'a> {
    meter: &'a Meter,
    before: Usage,
    memory: MemoryPeak,
    timeline: Timeline,
    size: Box<dyn Fn() -> Option<Size> + 'a>,
    debt: Box<dyn Fn() -> Option<u64> + 'a>,
    next: Duration,
}

impl<'a> Sampler<'a> {
    fn new(db: &'a Db<'_, '_>, meter: &'a Meter) -> Result<Self> {
        Ok(Self {
            meter,
            memory: MemoryPeak::watch(&db.store.processes())?,
            timeline: Timeline::default(),
            size: Box::new(|| db.size()),
            debt: Box::new(|| db.store.compaction_debt().ok().flatten()),
            next: Duration::from_secs(1),
            before: meter.read()?,
        })
    }

    fn usage(&self) -> Result<Usage> {
        Ok(self.meter.read()? - self.before)
    }

    /// Shows progress, and takes a sample when a second is over. What cannot be read is left out: a sample is no
    /// result.
    fn watch(&mut self, calls: u64, bar: &StepBar) {
        let Ok(usage) = self.usage() else { return };
        bar.show(calls, usage.elapsed);
        if usage.elapsed < self.next {
            return;
        }
        let second = self.timeline.at(usage.elapsed.saturating_sub(Duration::from_secs(1)));
        second.disk_bytes = (self.size)().map(|size| size.allocated_bytes);
        second.rss_bytes = self.memory.now_bytes().ok();
        second.written_bytes = Some(usage.written_bytes);
        second.debt_bytes = (self.debt)();
        self.next = Duration::from_secs(usage.elapsed.as_secs() + 1);
    }

    fn into_seconds(self, roles: &[RoleResult]) -> Vec<Second> {
        let mut timeline = Timeline::default();
        roles.iter().for_each(|role| timeline.add(&role.timeline));
        let mut seconds = timeline.into_seconds();
        for (second, sample) in seconds.iter_mut().zip(self.timeline.into_seconds()) {
            let Second { operations, max_us, .. } = *second;
            *second = Second { operations, max_us, ..sample };
        }
        seconds
    }
}

/// The progress of a step.
struct StepBar {
    bar: ProgressBar,
    end: End,
}

impl StepBar {
    fn new(engine: &str, plan: &Plan<'_>) -> Self {
        let end = plan.roles.first().map_or(End::WithFirst, |role| role.end);
        let what = format!("{engine} {}", plan.name);
        let bar = match end {
            End::Calls(calls) => progress::bar(calls, &what, "calls"),
            End::Seconds(_) | End::WithFirst => progress::wheel(&what),
        };
        Self { bar, end }
    }

    fn show(&self, calls: u64, elapsed: Duration) {
        self.bar.set_position(calls);
        if let End::Seconds(seconds) = self.end {
            let rate = calls as f64 / elapsed.as_secs_f64().max(1e-9);
            let left = (seconds - elapsed.as_secs_f64()).max(0.0);
            self.bar.set_message(progress::calls_in_time(rate, left));
        }
    }
}

impl Drop for StepBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
