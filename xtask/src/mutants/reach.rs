//! Which tests reach which mutants.
//!
//! Each test runs once, alone in a process whose switches record that they are executed, also by threads that the test
//! starts. So a mutant needs only the tests that can notice it, and those that take the least time run first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::draw::Draw;
use super::process::{self, End, Task, Took};
use super::suites::{self, Size, Step};

/// The environment variable that names the file of what is reached.
const VARIABLE: &str = "SPINNEY_MUTANTS_REACHED";

/// Tests run in one process until they cost so much together, then in another, and so on: a test that fails early saves
/// those behind it.
const BATCHES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(20), Duration::from_secs(60)];

/// No test takes so long by the clock, also on a busy machine.
const WALL_MAX: Duration = Duration::from_secs(900);

/// A test, as it was without a mutant.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Test {
    program: String,
    name: String,
    took: Took,
    /// How it failed; it is left out then.
    failed: Option<String>,
    reached: BTreeSet<u32>,
}

/// All tests of a run.
#[derive(Debug)]
pub(super) struct Reach {
    tests: Vec<Test>,
}

/// The tests of one mutant.
#[derive(Debug)]
pub(super) struct Chosen {
    /// What is run, with what it takes without a mutant.
    pub(super) steps: Vec<(Step, Took)>,
    /// How many tests reach the mutant.
    pub(super) reached: usize,
    /// How many of them the budget leaves out.
    pub(super) left_out: usize,
}

impl Reach {
    /// Runs each test of a draw once, those that did not in an earlier run of it.
    ///
    /// # Errors
    /// When programs cannot be run or results cannot be written.
    pub(super) fn record(draw: &Draw, tree: &Path, jobs: usize) -> Result<Self, String> {
        let path = draw.folder.join("reached.jsonl");
        let lines = fs::read_to_string(&path).unwrap_or_default();
        let known: Vec<Test> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut left = Vec::new();
        for (program, file) in &draw.programs {
            let names = names(file)?;
            left.extend(names.into_iter().map(|name| (program.clone(), name)));
        }
        left.retain(|(program, name)| !known.iter().any(|test| test.program == *program && test.name == *name));
        eprintln!("{} tests record which mutants they reach", left.len());
        let tests = Mutex::new(known);
        process::each(jobs, &left, |(program, name)| {
            let mut test = record(draw, tree, program, name)?;
            if test.failed.is_some() {
                // Perhaps it waited for what a busy machine did too late.
                let again = record(draw, tree, program, name)?;
                test.reached.extend(&again.reached);
                test = Test { reached: test.reached, ..again };
            }
            process::append(&path, &test)?;
            tests.lock().expect("no thread panics with it").push(test);
            Ok(())
        })?;
        Ok(Self { tests: tests.into_inner().expect("no thread panicked with it") })
    }

    /// The tests that reach a mutant, by processes, the quickest first.
    pub(super) fn chosen(&self, number: u32, budget: Duration) -> Chosen {
        let is_of = |test: &&Test| test.failed.is_none() && test.reached.contains(&number);
        let mut tests: Vec<&Test> = self.tests.iter().filter(is_of).collect();
        tests.sort_by_key(|test| (test.took.cost(), &test.program, &test.name));
        let reached = tests.len();
        let (mut steps, mut whole, mut next) = (Vec::new(), Duration::ZERO, 0);
        while next < tests.len() && whole < budget {
            let size = BATCHES.iter().find(|size| **size > whole).unwrap_or(&BATCHES[3]);
            let (mut batch, mut took) = (BTreeMap::<&str, Vec<&Test>>::new(), Duration::ZERO);
            while let Some(test) = tests.get(next).filter(|test| batch.is_empty() || took + test.took.cost() <= *size) {
                batch.entry(&test.program).or_default().push(test);
                took += test.took.cost();
                next += 1;
            }
            whole += took;
            steps.extend(batch.into_iter().map(|(program, tests)| step(program, &tests)));
        }
        Chosen { steps, reached, left_out: reached - next }
    }

    /// The tests that reach a mutant and show more at larger sizes.
    pub(super) fn sized(&self, number: u32) -> Vec<Step> {
        let is_sized = |test: &&Test| {
            let name = format!("{} {}", test.program, test.name);
            suites::SIZED_BY_NAME.iter().any(|prefix| name.starts_with(prefix))
        };
        let reached = self.tests.iter().filter(|test| test.failed.is_none() && test.reached.contains(&number));
        reached.filter(is_sized).map(|test| step(&test.program, &[test]).0).collect()
    }

    /// The tests that fail without a mutant.
    pub(super) fn broken(&self) -> impl Iterator<Item = String> {
        let failed = self.tests.iter().filter_map(|test| test.failed.as_ref().map(|how| (test, how)));
        failed.map(|(test, how)| format!("{} {}: {how}", test.program, test.name))
    }

    /// How many tests there are, and what all of them take.
    pub(super) fn size(&self) -> (usize, Took) {
        (self.tests.len(), sum(self.tests.iter().map(|test| test.took)))
    }
}

fn sum(all: impl Iterator<Item = Took>) -> Took {
    all.fold(Took::default(), |sum, one| Took { processor: sum.processor + one.processor, wall: sum.wall + one.wall })
}

/// Some tests of a program in one process.
fn step(program: &str, tests: &[&Test]) -> (Step, Took) {
    let names = tests.iter().map(|test| test.name.clone());
    let name = match tests {
        [test] => format!("{program} {}", test.name),
        tests => format!("{program}, {} tests", tests.len()),
    };
    let arguments = ["--exact", "--test-threads=1"].map(str::to_owned).into_iter().chain(names).collect();
    let step = Step { name, suite: program.to_owned(), arguments, is_near: true };
    (step, sum(tests.iter().map(|test| test.took)))
}

/// The names of the tests of a program.
fn names(program: &Path) -> Result<Vec<String>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", program.display());
    let output = Command::new(program).args(["--list", "--format", "terse"]).output().map_err(told)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Runs a test once, and returns what it reached.
fn record(draw: &Draw, tree: &Path, program: &str, name: &str) -> Result<Test, String> {
    let label: String = format!("reach-{program}-{name}").replace([':', '/', ' '], "-");
    let log = draw.folder.join("logs").join(&label);
    let hits = log.with_extension("reached");
    let mut environment = suites::environment(Size::Small, None, program);
    environment.push((VARIABLE.to_owned(), hits.to_string_lossy().into_owned()));
    let task = Task {
        program: &draw.programs[program],
        arguments: &["--exact".to_owned(), "--test-threads=1".to_owned(), name.to_owned()],
        environment: &environment,
        folder: &suites::folder(tree, program),
        log,
        scratch: process::scratch(&label),
        usual: None,
        wall_max: Some(WALL_MAX),
    };
    let (end, took) = process::run(&task)?;
    let reached = fs::read_to_string(&hits).unwrap_or_default();
    let reached = reached.lines().filter_map(|line| line.parse().ok()).collect();
    let failed = if end == End::Green {
        fs::remove_file(&task.log).map_err(|error| format!("{}: {error}", task.log.display()))?;
        None
    } else {
        eprintln!("{program} {name} fails without a mutant: {end:?}");
        Some(format!("{end:?}"))
    };
    if hits.exists() {
        fs::remove_file(&hits).map_err(|error| format!("{}: {error}", hits.display()))?;
    }
    Ok(Test { program: program.to_owned(), name: name.to_owned(), took, failed, reached })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(program: &str, name: &str, seconds: u64, reached: &[u32]) -> Test {
        let took = Took { processor: Duration::from_secs(seconds), wall: Duration::from_secs(seconds) };
        let (program, name) = (program.to_owned(), name.to_owned());
        Test { program, name, took, failed: None, reached: reached.iter().copied().collect() }
    }

    #[test]
    fn the_quickest_of_the_tests_that_reach_a_mutant_come_first_within_the_budget() {
        let mut broken = test("b/lib", "broken", 0, &[7]);
        broken.failed = Some("always".to_owned());
        let tests = vec![
            test("a/long", "long", 50, &[7]),
            test("a/lib", "quick", 0, &[7]),
            test("a/lib", "other", 0, &[8]),
            test("b/lib", "quick", 0, &[7, 8]),
            test("a/longer", "longer", 100, &[7]),
            broken,
        ];
        let reach = Reach { tests };
        let names = |number, budget| {
            let chosen = reach.chosen(number, Duration::from_secs(budget));
            let steps = chosen.steps.iter().map(|(step, _)| (step.suite.clone(), step.arguments[2..].join(" ")));
            (steps.map(|(suite, tests)| format!("{suite} {tests}")).collect::<Vec<_>>(), chosen.left_out)
        };
        assert_eq!(names(8, 1), (vec!["a/lib other".to_owned(), "b/lib quick".to_owned()], 0));
        let (steps, left_out) = names(7, 20);
        assert_eq!(steps, ["a/lib quick", "b/lib quick", "a/long long"]);
        assert_eq!(left_out, 1);
        assert_eq!(names(9, 20), (Vec::new(), 0));
        assert_eq!(reach.broken().collect::<Vec<_>>(), ["b/lib broken: always"]);
    }
}
