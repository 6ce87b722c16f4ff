//! `cargo xtask mutants`: draws mutants of some crates, or takes planted bugs, and prints which of them tests catch.
//!
//! All mutants are in one build, each behind a switch that an environment variable turns on, so the crates and their
//! tests are built once and not once for each mutant. A run is kept in a folder of `target/mutants/` and goes on where
//! it was stopped.

mod draw;
mod mutant;
mod packages;
mod planted;
mod process;
mod reach;
mod report;
mod runner;
mod sites;
mod suites;
mod workspace;

use std::path::PathBuf;
use std::time::Duration;

use draw::Draw;
use packages::Package;
use runner::Runner;
use suites::Size;
use workspace::Workspace;

/// What was asked for.
#[derive(Debug)]
struct Asked {
    count: usize,
    seed: u64,
    /// Names of crates; none means the engine, or those of the planted bugs.
    crates: Vec<String>,
    /// Seconds that the tests of one mutant may take, without the mutant.
    budget: u64,
    /// Prefixes of paths; none means all of the scope.
    only: Vec<String>,
    list: bool,
    /// Without the default sizes.
    small: bool,
    jobs: usize,
    planted: Option<PathBuf>,
    resume: Option<PathBuf>,
}

/// The command, with what stands behind its name.
///
/// # Errors
/// When the arguments are wrong, the mutants cannot be built, or a bug that was planted or drawn survived.
pub(crate) fn command(arguments: &[&str]) -> Result<(), String> {
    let asked = Asked::parse(arguments)?;
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
    let workspace = Workspace::new(root);
    let draw = match (&asked.resume, &asked.planted) {
        (Some(folder), _) => Draw::load(folder)?,
        (None, Some(file)) => Draw::planted(&workspace, &asked.packages()?, file)?,
        (None, None) if asked.list => {
            report::list(&draw::scope(workspace.root(), &asked.packages()?, &asked.only)?);
            return Ok(());
        }
        (None, None) => Draw::generated(&workspace, &asked.packages()?, (asked.seed, asked.count), &asked.only)?,
    };
    let tree = workspace.tree();
    let runner = Runner::new(&draw, &tree, Duration::from_secs(asked.budget))?;
    runner.run(asked.jobs, if asked.small { Size::Small } else { Size::Default })?;
    report::write(&draw, &runner)
}

impl Asked {
    fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut asked = Self {
            count: 120,
            seed: 1,
            crates: Vec::new(),
            budget: 120,
            only: Vec::new(),
            list: false,
            small: false,
            jobs: 2,
            planted: None,
            resume: None,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if *argument == "--list" {
                asked.list = true;
                continue;
            }
            if *argument == "--small" {
                asked.small = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("`{argument}` needs a value, or is not known"))?;
            let number = || value.parse().map_err(|_| format!("`{argument} {value}`: not a number"));
            match *argument {
                "--count" => asked.count = number()?,
                "--seed" => asked.seed = value.parse().map_err(|_| format!("`--seed {value}`: not a number"))?,
                "--jobs" => asked.jobs = number()?.max(1),
                "--crate" => asked.crates.extend(value.split(',').map(str::to_owned)),
                "--budget" => asked.budget = value.parse().map_err(|_| format!("`--budget {value}`: not a number"))?,
                "--only" => asked.only.push((*value).to_owned()),
                "--planted" => asked.planted = Some(PathBuf::from(value)),
                "--resume" => asked.resume = Some(PathBuf::from(value)),
                _ => return Err(format!("unknown option `{argument}` of `mutants`: see `cargo xtask help`")),
            }
        }
        Ok(asked)
    }

    /// The crates that are named, or those that the paths of `--only` or the planted bugs are of, or the engine.
    fn packages(&self) -> Result<Vec<&'static Package>, String> {
        let mut names = self.crates.clone();
        if names.is_empty() {
            let mut files = self.only.clone();
            if let Some(file) = &self.planted {
                files.extend(planted::read(file)?.iter().flat_map(planted::Planted::files).map(str::to_owned));
            }
            names.extend(files.iter().filter_map(|file| packages::of(file)).map(|package| package.name.to_owned()));
        }
        if names.is_empty() {
            names.push(packages::ENGINE.to_owned());
        }
        packages::named(&names)
    }
}
