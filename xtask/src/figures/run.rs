//! The runs behind the figures: measures experiments, the most important first.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::experiments::{EXPERIMENTS, Experiment};
use super::paths::{result_path, root};
use super::result;
use crate::files::{read, write};
use crate::python::target;
use crate::step::{cargo, print, run};

/// What `--run` was asked for.
struct Request<'a> {
    full: bool,
    binary: Option<PathBuf>,
    /// Only these of the engines.
    engines: Option<Vec<&'a str>>,
    names: Vec<&'a str>,
}

/// `--list`: prints the command of each experiment, and how long it takes in full.
pub(super) fn list(full: bool) -> Result<(), String> {
    for experiment in &EXPERIMENTS {
        let time = if full { format!(" (about {} minutes)", experiment.minutes) } else { String::new() };
        print(&format!(
            "{}{time}\n    peers {}\n",
            experiment.name,
            arguments(experiment, full, experiment.engines).join(" ")
        ));
    }
    Ok(())
}

/// `--run`: measures experiments anew, all or those that are named, small or in full. After each, its result file is
/// written, and `rewrite` the pages, so that a run that is stopped keeps what it has. An experiment that fails does not
/// keep the others from running.
#[expect(clippy::disallowed_methods, reason = "it tells how long the runs take")]
pub(super) fn measure(given: &[&str], rewrite: impl Fn() -> Result<(), String>) -> Result<(), String> {
    let request = parse(given)?;
    let binary = match request.binary {
        Some(binary) => binary,
        None => build()?,
    };
    std::fs::create_dir_all(target()).map_err(|error| format!("{}: {error}", target().display()))?;
    let (began, mut failed) = (Instant::now(), Vec::new());
    let is_wanted = |experiment: &&Experiment| request.names.is_empty() || request.names.contains(&experiment.name);
    for experiment in EXPERIMENTS.iter().filter(is_wanted) {
        print(&format!("{}, after {} s\n", experiment.name, began.elapsed().as_secs()));
        let made = target().join(format!("figures-{}.json", experiment.name));
        let mut command = Command::new(&binary);
        let wanted = |name: &&str| request.engines.as_ref().is_none_or(|engines| engines.contains(name));
        let engines = experiment.engines.split(',').filter(wanted).collect::<Vec<_>>().join(",");
        command.args(arguments(experiment, request.full, &engines)).arg("--json").arg(&made);
        std::fs::remove_file(&made).ok();
        // An engine that failed does not take the figures of the others with it.
        let ran = run(experiment.name, &mut command);
        let kept = keep(&made, experiment).and_then(|()| rewrite());
        for why in [ran, kept].into_iter().filter_map(Result::err) {
            print(&format!("{why}\n"));
            failed.push(why);
        }
    }
    print(&format!("done after {} s\n", began.elapsed().as_secs()));
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Writes the result file of an experiment from what the lab wrote, if it was not interrupted.
fn keep(made: &Path, experiment: &Experiment) -> Result<(), String> {
    let text = result::reduced(&read(made)?).map_err(|why| format!("{}: {why}", made.display()))?;
    write(&result_path(experiment.name), text.as_bytes(), 0o644)
}

/// The lab's arguments for an experiment.
fn arguments<'a>(experiment: &'a Experiment, full: bool, engines: &'a str) -> Vec<&'a str> {
    let mut words = if full { experiment.full } else { experiment.small }.split_whitespace().collect::<Vec<_>>();
    words.splice(1..1, ["--engines", engines]);
    words
}

fn parse<'a>(given: &[&'a str]) -> Result<Request<'a>, String> {
    let mut request = Request { full: false, binary: None, engines: None, names: Vec::new() };
    let mut rest = given.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--full" => request.full = true,
            "--binary" => request.binary = Some(PathBuf::from(rest.next().ok_or("--binary needs a path")?)),
            "--engines" => request.engines = Some(rest.next().ok_or("--engines needs names")?.split(',').collect()),
            name if EXPERIMENTS.iter().any(|experiment| experiment.name == name) => request.names.push(name),
            name => return Err(format!("there is no experiment {name}: --list tells which there are")),
        }
    }
    Ok(request)
}

/// Builds the lab with all peers. It is built in its folder, whose settings of cargo hold only there.
fn build() -> Result<PathBuf, String> {
    let mut build = cargo("build --release");
    run("the build of the lab with peers", build.current_dir(root().join("peers")))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("peers/target"), |_| target());
    Ok(target.join("release/peers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_refused() {
        let request = parse(&["--full", "kv", "--binary", "/x", "--engines", "lmdb", "ycsb"]).unwrap();
        assert!(request.full && request.names == ["kv", "ycsb"] && request.binary.is_some());
        let words = arguments(&EXPERIMENTS[0], true, "lmdb");
        assert!(words.starts_with(&["kv", "--engines", "lmdb", "--num"]) && request.engines == Some(vec!["lmdb"]));
        assert!(parse(&["nothing"]).is_err_and(|why| why.contains("no experiment nothing")));
        assert!(parse(&["--binary"]).is_err());
    }
}
