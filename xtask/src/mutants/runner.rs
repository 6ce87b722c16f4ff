//! Runs the tests on each mutant, the quick ones and small sizes first, until one of them fails.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::draw::{Draw, Drawn};
use super::process::{self, End, Task};
use super::suites::{self, Size, Step};

/// What became of a mutant.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Outcome {
    pub(super) number: u32,
    /// What was tried last.
    pub(super) size: Size,
    /// The step that caught it; none where all were green.
    pub(super) caught_by: Option<String>,
    /// The test that failed, or how the program ended.
    pub(super) how: String,
    /// Seconds of processor time that all steps took.
    pub(super) seconds: f64,
}

/// What a step does without a mutant: the processor time, or how it failed.
type Usual = Result<Duration, String>;

/// Filled by the first thread that asks.
type Cell = Arc<OnceLock<Usual>>;

/// A run over all mutants.
#[derive(Debug)]
pub(super) struct Runner<'a> {
    draw: &'a Draw,
    package: &'a Path,
    usual: Mutex<BTreeMap<(String, Size), Cell>>,
    outcomes: Mutex<Vec<Outcome>>,
}

impl<'a> Runner<'a> {
    /// A run, with what is known of it from before.
    ///
    /// # Errors
    /// When that cannot be read.
    pub(super) fn new(draw: &'a Draw, package: &'a Path) -> Result<Self, String> {
        fs::create_dir_all(draw.folder.join("logs")).map_err(|error| format!("{}: {error}", draw.folder.display()))?;
        let lines = fs::read_to_string(draw.folder.join("results.jsonl")).unwrap_or_default();
        let outcomes = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let known = fs::read_to_string(draw.folder.join("control.jsonl")).unwrap_or_default();
        let known = known.lines().filter_map(|line| serde_json::from_str::<(String, Size, Usual)>(line).ok());
        let usual = known.map(|(step, size, usual)| ((step, size), Arc::new(OnceLock::from(usual)))).collect();
        Ok(Self { draw, package, usual: Mutex::new(usual), outcomes: Mutex::new(outcomes) })
    }

    /// Runs all mutants at small sizes, then those that survive at the default ones, then what no mutant needed without
    /// any.
    ///
    /// # Errors
    /// When programs cannot be run or results cannot be written.
    pub(super) fn run(&self, jobs: usize) -> Result<(), String> {
        for size in [Size::Quick, Size::Small, Size::Default] {
            let left: Vec<&Drawn> = self.draw.mutants.iter().filter(|drawn| self.is_left(drawn, size)).collect();
            eprintln!("{size:?}: {} mutants, in {}", left.len(), self.draw.folder.display());
            each(jobs, &left, |drawn| self.look_at(drawn, size))?;
        }
        let all = suites::steps("", self.draw.programs.keys());
        each(jobs, &all.iter().collect::<Vec<_>>(), |step| self.usual(step, Size::Small).map(|_| ()))
    }

    /// What became of all mutants, each at the sizes tried last.
    pub(super) fn outcomes(&self) -> BTreeMap<u32, Outcome> {
        let outcomes = self.outcomes.lock().expect("no thread panics with it");
        let mut last: BTreeMap<u32, Outcome> = BTreeMap::new();
        for outcome in outcomes.iter() {
            if last.get(&outcome.number).is_none_or(|known| known.size < outcome.size) {
                last.insert(outcome.number, outcome.clone());
            }
        }
        last
    }

    /// The steps that fail without a mutant.
    pub(super) fn broken(&self) -> Vec<String> {
        let usual = self.usual.lock().expect("no thread panics with it");
        let broken = usual.iter().filter_map(|((step, size), usual)| match usual.get() {
            Some(Err(how)) => Some(format!("{step} at {size:?} sizes: {how}")),
            _ => None,
        });
        broken.collect()
    }

    fn is_left(&self, drawn: &Drawn, size: Size) -> bool {
        let outcomes = self.outcomes.lock().expect("no thread panics with it");
        !outcomes.iter().any(|known| known.number == drawn.number && (known.size >= size || known.caught_by.is_some()))
    }

    fn look_at(&self, drawn: &Drawn, size: Size) -> Result<(), String> {
        let mut outcome = Outcome { number: drawn.number, size, caught_by: None, how: String::new(), seconds: 0.0 };
        let steps = suites::steps(&drawn.file, self.draw.programs.keys());
        for step in steps.iter().filter(|step| step.is_of(size)) {
            let Ok(usual) = self.usual(step, size)? else { continue };
            let (end, took) = self.step(step, size, Some(drawn.number), Some(usual))?;
            outcome.seconds += took.as_secs_f64();
            let how = match end {
                End::Green => continue,
                End::Failed(test) => test,
                End::Died(how) => format!("died: {how}"),
                End::Wedged(how) => format!("wedged: {how}"),
                End::Memory => "took all memory".to_owned(),
            };
            (outcome.caught_by, outcome.how) = (Some(step.name.clone()), how);
            break;
        }
        let told = match &outcome.caught_by {
            Some(step) => format!("caught by {step}: {}", outcome.how),
            None => format!("SURVIVED ({size:?}): `{}` -> `{}`", drawn.original, drawn.mutated),
        };
        eprintln!("{} {}:{} {} ({:.1} s) {told}", drawn.number, drawn.file, drawn.line, drawn.name, outcome.seconds);
        self.append("results.jsonl", &outcome)?;
        self.outcomes.lock().expect("no thread panics with it").push(outcome);
        Ok(())
    }

    /// What a step takes without a mutant: run once, by the first thread that asks.
    fn usual(&self, step: &Step, size: Size) -> Result<Usual, String> {
        let size = size.max(Size::Small);
        let key = (step.name.clone(), size);
        let cell = Arc::clone(self.usual.lock().expect("no thread panics with it").entry(key).or_default());
        let mut failed = Ok(());
        let usual = cell.get_or_init(|| {
            let usual = match self.step(step, size, None, None) {
                Ok((End::Green, took)) => Ok(took),
                Ok((end, _)) => Err(format!("{end:?}")),
                Err(error) => Err(error),
            };
            eprintln!("{} at {size:?} sizes without a mutant: {usual:?}", step.name);
            failed = self.append("control.jsonl", &(&step.name, size, &usual));
            usual
        });
        failed.map(|()| usual.clone())
    }

    fn step(
        &self,
        step: &Step,
        size: Size,
        mutant: Option<u32>,
        usual: Option<Duration>,
    ) -> Result<(End, Duration), String> {
        let name = mutant.map_or_else(|| "control".to_owned(), |number| number.to_string());
        let name = format!("{name}-{}-{size:?}", step.name.replace(' ', "-"));
        let task = Task {
            program: &self.draw.programs[&step.suite],
            arguments: &step.arguments,
            environment: &suites::environment(size, mutant),
            folder: self.package,
            log: self.draw.folder.join("logs").join(&name),
            scratch: self.draw.folder.join("scratch").join(&name),
            usual,
        };
        let (end, took) = process::run(&task)?;
        if end == End::Green {
            fs::remove_file(&task.log).map_err(|error| format!("{}: {error}", task.log.display()))?;
        }
        Ok((end, took))
    }

    #[expect(clippy::disallowed_methods, reason = "a real file of results")]
    fn append(&self, file: &str, line: &impl Serialize) -> Result<(), String> {
        let path = self.draw.folder.join(file);
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        let line = serde_json::to_string(line).expect("plain data");
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(told)?;
        file.write_all(format!("{line}\n").as_bytes()).map_err(told)
    }
}

/// Does something with each of a list, so many at once; stops at the first error.
fn each<T: Sync>(jobs: usize, list: &[T], act: impl Fn(&T) -> Result<(), String> + Sync) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(item) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
            act(item)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no step panics"))
    })
}
