//! Public test suites against the server: it is started on a port of its own, the suite is run, and the outcomes are
//! told by group. Nothing is fetched: the suite's folder and a Python that has its requirements are given.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::Server;

/// A suite.
struct Suite {
    name: &'static str,
    /// Where its tests are, in its folder.
    tests: &'static str,
    /// What the server is started with.
    server: &'static [&'static str],
    /// What its groups are called by: so many parts of a test's path below `tests`.
    depth: usize,
}

const SUITES: [Suite; 2] = [
    Suite { name: "functional-tests", tests: "documentdb_tests/compatibility/tests", server: &[], depth: 3 },
    Suite { name: "pymongo", tests: "test", server: &["--replSet", "rs0", "--test-commands"], depth: 1 },
];

/// `conformance NAME FOLDER [--python PATH] [TESTS ..]`.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    let (Some(name), Some(folder)) = (arguments.first(), arguments.get(1)) else {
        return Err("conformance needs the name of a suite and its folder: functional-tests or pymongo".to_owned());
    };
    let suite =
        SUITES.iter().find(|suite| suite.name == *name).ok_or_else(|| format!("no suite is called `{name}`"))?;
    let (mut python, mut tests) = ("python3".to_owned(), Vec::new());
    let mut rest = arguments[2..].iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--python" => python = (*rest.next().ok_or("--python needs a path")?).to_owned(),
            test => tests.push(test.to_owned()),
        }
    }
    if tests.is_empty() {
        tests.push(suite.tests.to_owned());
    }
    build()?;
    let folder = Path::new(folder);
    let place = std::env::temp_dir().join(format!("spinney-conformance-{}", std::process::id()));
    let server = Server::start(&binary(), &place, &[&["--journal", "buffered"], suite.server].concat())?;
    let report = place.join("report.xml");
    let ran = run(suite, folder, &python, &tests, &server.address, &report);
    drop(server);
    let text = fs::read_to_string(&report).map_err(|error| format!("the suite left no report: {error}"));
    fs::remove_dir_all(&place).ok();
    ran?;
    print(&outcomes(&text?, suite));
    Ok(())
}

/// Builds the server.
fn build() -> Result<(), String> {
    let built = Command::new("cargo").args(["build", "--release", "-p", "spinney-cli"]).status();
    match built.map_err(|error| error.to_string())?.success() {
        true => Ok(()),
        false => Err("the server was not built".to_owned()),
    }
}

/// Where the server is after [`build`].
fn binary() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    target.join("release/spinney")
}

fn run(
    suite: &Suite,
    folder: &Path,
    python: &str,
    tests: &[String],
    address: &str,
    report: &Path,
) -> Result<(), String> {
    let mut command = Command::new(python);
    command.current_dir(folder).args(["-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]);
    command.arg(format!("--junitxml={}", report.display())).args(tests);
    if suite.name == "functional-tests" {
        command.args(["--connection-string", &format!("mongodb://{address}"), "--engine-name", "documentdb"]);
    } else {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "27017"));
        command.env("DB_IP", host).env("DB_PORT", port);
    }
    // Its exit code tells only that tests failed.
    command.status().map(drop).map_err(|error| format!("{python} did not run: {error}"))
}

/// How many tests passed, failed and were skipped.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// The outcomes by group, from a report as JUnit has them.
fn outcomes(report: &str, suite: &Suite) -> BTreeMap<String, Counts> {
    let mut groups: BTreeMap<String, Counts> = BTreeMap::new();
    let above = suite.tests.replace('/', ".") + ".";
    for case in report.split("<testcase ").skip(1) {
        let class = case.split("classname=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let below = class.strip_prefix(&above).unwrap_or(class);
        let group: Vec<&str> = below.split('.').take(suite.depth).collect();
        let counts = groups.entry(group.join("/")).or_default();
        let body = case.split("</testcase>").next().unwrap_or_default();
        if body.contains("<failure") || body.contains("<error") {
            counts.failed += 1;
        } else if body.contains("<skipped") {
            counts.skipped += 1;
        } else {
            counts.passed += 1;
        }
    }
    groups
}

#[expect(clippy::print_stdout, reason = "the outcomes are the result")]
fn print(groups: &BTreeMap<String, Counts>) {
    let width = groups.keys().map(String::len).max().unwrap_or(0).max("all".len());
    let row = |name: &str, counts: &Counts| {
        let ran = counts.passed + counts.failed;
        let share =
            if ran == 0 { String::new() } else { format!("{:.1} %", 100.0 * counts.passed as f64 / ran as f64) };
        let Counts { passed, failed, skipped } = counts;
        println!("{name:width$}  {passed:>6} passed  {failed:>6} failed  {skipped:>6} skipped  {share:>7}");
    };
    let mut all = Counts::default();
    for (name, counts) in groups {
        row(name, counts);
        all.passed += counts.passed;
        all.failed += counts.failed;
        all.skipped += counts.skipped;
    }
    row("all", &all);
}
