//! `cargo xtask mutants`: draws mutants of the engine, or takes planted bugs, and tells which of them the tests catch.
//!
//! All mutants are in one build, each behind a switch that an environment variable turns on, so the engine and its
//! tests are built once and not once for each mutant. A run is kept in a folder of `target/mutants/` and goes on where
//! it was stopped.

mod draw;
mod mutant;
mod planted;
mod process;
mod report;
mod runner;
mod sites;
mod suites;
mod workspace;

use std::path::PathBuf;

use draw::Draw;
use runner::Runner;
use workspace::Workspace;

/// What was asked for.
#[derive(Debug)]
struct Asked {
    count: usize,
    seed: u64,
    /// Prefixes of paths; none means all of the scope.
    only: Vec<String>,
    list: bool,
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
        (None, Some(file)) => Draw::planted(&workspace, file)?,
        (None, None) if asked.list => {
            report::list(&draw::scope(workspace.root(), &asked.only)?);
            return Ok(());
        }
        (None, None) => Draw::generated(&workspace, asked.seed, asked.count, &asked.only)?,
    };
    let package = workspace.package();
    let runner = Runner::new(&draw, &package)?;
    runner.run(asked.jobs)?;
    report::write(&draw, &runner)
}

impl Asked {
    fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut asked =
            Self { count: 120, seed: 1, only: Vec::new(), list: false, jobs: 2, planted: None, resume: None };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if *argument == "--list" {
                asked.list = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("`{argument}` needs a value, or is not known"))?;
            let number = || value.parse().map_err(|_| format!("`{argument} {value}`: not a number"));
            match *argument {
                "--count" => asked.count = number()?,
                "--seed" => asked.seed = value.parse().map_err(|_| format!("`--seed {value}`: not a number"))?,
                "--jobs" => asked.jobs = number()?.max(1),
                "--only" => asked.only.push((*value).to_owned()),
                "--planted" => asked.planted = Some(PathBuf::from(value)),
                "--resume" => asked.resume = Some(PathBuf::from(value)),
                _ => return Err(format!("unknown option `{argument}` of `mutants`: see `cargo xtask help`")),
            }
        }
        Ok(asked)
    }
}
