//! Runs the tests on each mutant, the quick ones and small sizes first, until one of them fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::draw::{Draw, Drawn};
use super::packages::ENGINE;
use super::process::{self, End, Task, Took};
use super::reach::Reach;
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
    /// How many tests reach it, where that was recorded.
    #[serde(default)]
    pub(super) reached: Option<usize>,
    /// How many of them the budget left out.
    #[serde(default)]
    pub(super) left_out: usize,
}

/// What a step does without a mutant: what it takes, or how it failed.
type Usual = Result<Took, String>;

/// Filled by the first thread that asks.
type Cell = Arc<OnceLock<Usual>>;

/// Time by the clock that a run may take beside eight times that without a mutant.
const WALL_MORE: Duration = Duration::from_secs(20);

impl Outcome {
    /// Which tests reach it, for a line about a survivor.
    pub(super) fn tests(&self) -> String {
        match (self.reached, self.left_out) {
            (None, _) => String::new(),
            (Some(0), _) => ", no test reaches it".to_owned(),
            (Some(reached), 0) => format!(", {reached} tests reach it"),
            (Some(reached), left_out) => format!(", {reached} tests reach it, {left_out} were left out"),
        }
    }
}

/// A run over all mutants.
#[derive(Debug)]
pub(super) struct Runner<'a> {
    draw: &'a Draw,
    tree: &'a Path,
    /// Seconds that the tests of one mutant may take.
    budget: Duration,
    /// The tests of all crates but the engine.
    reach: OnceLock<Reach>,
    usual: Mutex<BTreeMap<(String, Size), Cell>>,
    outcomes: Mutex<Vec<Outcome>>,
}

impl<'a> Runner<'a> {
    /// A run, with what is known of it from before.
    ///
    /// # Errors
    /// When that cannot be read.
    pub(super) fn new(draw: &'a Draw, tree: &'a Path, budget: Duration) -> Result<Self, String> {
        fs::create_dir_all(draw.folder.join("logs")).map_err(|error| format!("{}: {error}", draw.folder.display()))?;
        let lines = fs::read_to_string(draw.folder.join("results.jsonl")).unwrap_or_default();
        let outcomes = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let known = fs::read_to_string(draw.folder.join("control.jsonl")).unwrap_or_default();
        let known = known.lines().filter_map(|line| serde_json::from_str::<(String, Size, Usual)>(line).ok());
        let usual = known.map(|(step, size, usual)| ((step, size), Arc::new(OnceLock::from(usual)))).collect();
        Ok(Self {
            draw,
            tree,
            budget,
            reach: OnceLock::new(),
            usual: Mutex::new(usual),
            outcomes: Mutex::new(outcomes),
        })
    }

    /// Runs all mutants at small sizes, then those that survive at the default ones, then what no mutant needed without
    /// any.
    ///
    /// # Errors
    /// When programs cannot be run or results cannot be written.
    pub(super) fn run(&self, jobs: usize, largest: Size) -> Result<(), String> {
        let is_engine = self.draw.packages.iter().all(|package| package == ENGINE);
        if !is_engine {
            let reach = Reach::record(self.draw, self.tree, jobs)?;
            self.reach.set(reach).expect("a run runs once");
        }
        let sizes = [Size::Quick, Size::Small, Size::Default].into_iter();
        for size in sizes.filter(|size| *size <= largest && (is_engine || *size != Size::Quick)) {
            let left: Vec<&Drawn> = self.draw.mutants.iter().filter(|drawn| self.is_left(drawn, size)).collect();
            eprintln!("{size:?}: {} mutants, in {}", left.len(), self.draw.folder.display());
            process::each(jobs, &left, |drawn| self.look_at(drawn, size))?;
        }
        if !is_engine {
            return Ok(());
        }
        let all = suites::steps("", self.draw.programs.keys());
        process::each(jobs, &all.iter().collect::<Vec<_>>(), |step| self.usual(step, Size::Small).map(|_| ()))
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
        broken.chain(self.reach.get().into_iter().flat_map(Reach::broken)).collect()
    }

    /// How many tests were recorded, and what all of them take.
    pub(super) fn size(&self) -> Option<(usize, Took)> {
        self.reach.get().map(Reach::size)
    }

    fn is_left(&self, drawn: &Drawn, size: Size) -> bool {
        let outcomes = self.outcomes.lock().expect("no thread panics with it");
        !outcomes.iter().any(|known| known.number == drawn.number && (known.size >= size || known.caught_by.is_some()))
    }

    fn look_at(&self, drawn: &Drawn, size: Size) -> Result<(), String> {
        let mut outcome = Outcome {
            number: drawn.number,
            size,
            caught_by: None,
            how: String::new(),
            seconds: 0.0,
            reached: None,
            left_out: 0,
        };
        for (step, usual) in &self.steps(drawn, &mut outcome) {
            let usual = match usual {
                Some(usual) => *usual,
                None => match self.usual(step, size)? {
                    Ok(usual) => usual,
                    Err(_) => continue,
                },
            };
            let (end, took) = self.step(step, size, Some(drawn.number), Some(usual))?;
            outcome.seconds += took.processor.as_secs_f64();
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
            None => format!("SURVIVED ({size:?}){}: `{}` -> `{}`", outcome.tests(), drawn.original, drawn.mutated),
        };
        eprintln!("{} {}:{} {} ({:.1} s) {told}", drawn.number, drawn.file, drawn.line, drawn.name, outcome.seconds);
        self.append("results.jsonl", &outcome)?;
        self.outcomes.lock().expect("no thread panics with it").push(outcome);
        Ok(())
    }

    /// The steps for a mutant, with what they take where that is known already.
    fn steps(&self, drawn: &Drawn, outcome: &mut Outcome) -> Vec<(Step, Option<Took>)> {
        let Some(reach) = self.reach.get() else {
            let steps = suites::steps(&drawn.file, self.draw.programs.keys());
            return steps.into_iter().filter(|step| step.is_of(outcome.size)).map(|step| (step, None)).collect();
        };
        let chosen = reach.chosen(drawn.number, self.budget);
        (outcome.reached, outcome.left_out) = (Some(chosen.reached), chosen.left_out);
        match outcome.size {
            Size::Default => reach.sized(drawn.number).into_iter().map(|step| (step, None)).collect(),
            _ => chosen.steps.into_iter().map(|(step, took)| (step, Some(took))).collect(),
        }
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

    fn step(&self, step: &Step, size: Size, mutant: Option<u32>, usual: Option<Took>) -> Result<(End, Took), String> {
        let name = mutant.map_or_else(|| "control".to_owned(), |number| number.to_string());
        let name = format!("{name}-{}-{size:?}", step.name.replace([' ', '/', ':'], "-"));
        let wall_max = usual.filter(|_| self.reach.get().is_some()).map(|usual| usual.wall * 8 + WALL_MORE);
        let task = Task {
            program: &self.draw.programs[&step.suite],
            arguments: &step.arguments,
            environment: &suites::environment(size, mutant, &step.suite),
            folder: &suites::folder(self.tree, &step.suite),
            log: self.draw.folder.join("logs").join(&name),
            scratch: process::scratch(&name),
            usual: usual.map(|usual| usual.processor),
            wall_max,
        };
        let (end, took) = process::run(&task)?;
        if end == End::Green {
            fs::remove_file(&task.log).map_err(|error| format!("{}: {error}", task.log.display()))?;
        }
        Ok((end, took))
    }

    fn append(&self, file: &str, line: &impl Serialize) -> Result<(), String> {
        process::append(&self.draw.folder.join(file), line)
    }
}
