//! The project's chores: `cargo xtask check` is what CI runs, `sim` searches with new seeds and replays a failed one,
//! `golden` rewrites expected results.

mod c;
mod clients;
mod conformance;
mod deb;
mod faults;
mod figures;
mod files;
mod mutants;
mod page;
mod python;
mod release;
mod server;
mod step;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use step::{cargo, print, run};

const HELP: &str = "\
The chores of the project.

Usage: cargo xtask <command>

  check [--no-test]   format, lints, tests (with the tidy rules and doctests), documentation; stops at the first that fails.
                      --no-test leaves all tests but the tidy rules out, where they are run elsewhere
  schedules           log, memtable, publication and a whole database under thousands of schedules of their threads
                      (builds the engine's unit tests once more)
  sim <seed>          replays one seed of the simulation, and shortens it if it fails
  sim --minutes <n>   runs the simulation with new seeds on all cores, until one fails or the time is over
  sim <seed>@<point>  replays one crash of the crash test
  portable            compiles the engine for Windows, macOS and FreeBSD (rustup adds their standard libraries)
  miri                the modules with unsafe code under Miri, which finds undefined behaviour (nightly with miri and rust-src)
  sanitize <address|thread>
                      the tests with real threads under a sanitizer (nightly with rust-src; builds the standard library too)
  fuzz [--minutes <n>] [<target>]
                      all targets of libFuzzer, or one, for so many minutes each (default 1); needs a nightly compiler and cargo-fuzz
  model <seed>        replays one seed of the model test and prints its history
  golden              runs the golden tests and rewrites what they expect under testdata/; look at the difference with git
  figures [--check]   writes the figures of the pages, and the charts, from the files in results/
  figures --list [--full]   the runs behind the figures, with their commands
  figures --run [--full] [--binary <path>] [--engines <list>] [<name> ..]
                      measures them anew first, small or in full, by the lab with peers (results/README.md)
  format-files        writes databases of this version to testdata/formats, which the test `formats` opens; at each release
  mutants [--crate <names>] [--count <n>] [--seed <s>] [--only <path>] [--jobs <n>] [--small] [--budget <s>]
                      draws mutants at random (default 120, seed 1), builds them all at once, and prints which of them no test
                      catches; a run that was stopped continues. --crate takes `engine` (the default) or some of
                      `document,wire,replica,server`: mutants of these, with the tests of these. --only takes the start of a path
                      and may be given again. --small leaves the default sizes of the suites out. --budget limits what the tests of
                      a mutant of the last four take without it (default 120 s)
  mutants --list [--crate <names>] [--only <path>]
                      prints all mutants that can be drawn
  mutants --planted <file>
                      the same for bugs that a person planted: a JSON list, which docs/testing.md describes
  mutants --resume <folder>
                      goes on with a run of target/mutants/, on the sources of its day
  clients [--python <path>] [--binary <path>] [<tests>]
                      MongoDB's own driver for Python against the server: builds it, unless a binary is given, makes a virtual
                      environment under target/, and runs the tests in clients/python
  clients --rust [--binary <path>]
                      the same with the driver for Rust, which takes some minutes to build (clients/rust)
  conformance <suite> <folder> [--python <path>] [<tests>]
                      runs a public test suite against the server, `functional-tests` or `pymongo`, whose folder is given, by a Python
                      that has its requirements; tells what passes by group. docs/conformance.md has the last results
  kills [--python <path>] [--binary <path>] [--rounds <n>] [--threads <n>] [--standalone] [--seed <n>]
        [--port <n>]
                      kills the server so many times (default 500) while clients write by pymongo, which a Python that is given must
                      have, and checks after each that nothing acknowledged is lost, nothing is done twice and each index is valid
  catalog-pairs [--python <path>] [--binary <path>] [--rounds <n>] [--first <n>] [--seed <n>] [--seconds <s>]
                [--kind server|set] [--pair <a,b>] [--port <n>] [--keep]
                      runs random pairs of catalog operations beside each other on a server, and on a set of three, so many rounds
                      (default 10) each; ends processes by kill -9 and SIGTERM, and checks that all start, that members have the same
                      catalog, and that each collection is valid
  replica-failover [--python <path>] [--binary <path>] [--times <n>] [--members <n>]
                      tells how long writers by pymongo wait while the primary of a replica set is killed, and steps down
  replica-faults [--python <path>] [--binary <path>] [--rounds <n>] [--members <n>] [--threads <n>] [--seconds <s>] [--seed <n>]
                 [--faults <list>] [--loopback] [--faketime <library>]
                      plays so many rounds (default 500) of faults on a replica set of real processes, in network namespaces where
                      that is allowed, while clients write by pymongo; checks that their histories are linearizable and under snapshot
                      isolation, that nothing acknowledged is lost and that all members are equal
  partitions [--python <path>] [--binary <path>] [--members <n>] [--seconds <s>] [--seed <n>] [--fault <list>] [--first <n>]
                      begins rounds of faults for so many seconds (default 600) on the links between the members of a replica set of
                      real processes, joined by a switch of its own, and on the processes beside them, while clients work by pymongo:
                      writes go on wherever a majority is connected, each call is answered, each answer is right, nothing
                      acknowledged is lost, and all members are equal; root on Linux
  partitions --graphs [--members <n>]
                      cuts the links between three, four and five members in every way, and prints where writes go on (20 minutes)
  partitions --self-test
                      shows that its checkers find planted faults
  replica-replace [--python <path>] [--binary <path>] [--gigabytes <n>] [--seconds <s>] [--threads <n>] [--folder <dir>]
                      tells how fast a member of so many gigabytes (default 10) that lost its database gets a copy of the primary's,
                      and what the primary's clients feel of it; it takes five times the space
  limits [--python <path>] [--binary <path>] [--only <step,..>] [--documents <n>] [--folder <dir>]
                      what a client can make long, on a server with 64 MiB of memory and so many documents (default 2,000,000): lists
                      of values, windows, retryable updates, changes beside a transaction, opening, a checkpoint of a busy server;
                      fails when one takes longer than it may (two minutes)
  snapshot-reads [--python <path>] [--binary <path>] [--seconds <s>] [--members <n>] [--readers <n>] [--writers <n>] [--port <n>]
                      reads a replica set of real processes for so many seconds (default 20) by snapshot sessions and causal
                      sessions of pymongo, by each read preference, beside transfers: each session must see one state
  page-test [--driver <path>] [--binary <path>]
                      the page of the server in Chromium, by ChromeDriver, without a window, on a laptop and on a phone, light and
                      dark: it shows what there is, follows it, and is no wider than the window; pictures are under target/page/
  python [--python <path>] [--release] [<tests>]
                      builds the package for Python, installs it into a clean virtual environment and runs its tests there
  header              writes c/include/spinney.h anew from its sources
  install-c <folder> [--dev]
                      builds the libraries for C and installs them with headers, pkg-config and CMake files under a folder
  c-test [--dev]      installs the libraries for C into an empty folder, and builds and runs the examples with them elsewhere: by
                      CMake, by pkg-config, under AddressSanitizer and under valgrind
  c-count [--dev]     instructions of a get from Rust and from C, by callgrind
  crates [--no-verify]
                      packages the crates that are published, and builds and runs a program that uses the packages
  release             builds all that a release has (crates, wheel, package for Debian, libraries for C), tries each out, and
                      puts it into target/packages with checksums
  deb [--binary <path>]
                      builds the package for Debian and Ubuntu, unpacks it into an empty root and tries it out
  help                prints this

Environment:
  SPINNEY_SEEDS         seeds of the model test in `cargo test` (default 1000)
  SPINNEY_PAIRS         cases for each pair of operations in `cargo test` (default 4)
  SPINNEY_CRASH_POINTS  crash points of the crash test in `cargo test` (default 20000)
  SPINNEY_CRASH_FROM    the first seed of the crash test (default 0), to go on where an earlier run ended
  SPINNEY_SCHEDULES     schedules of each test in `cargo xtask schedules` (default 3000)
  SPINNEY_DAMAGE        damages of the damage test in `cargo test` (default 5000), or `all`
  SPINNEY_FUZZ          how many inputs the decoders get in `cargo test` (default 1000: 160,000 in all)
  SPINNEY_FUZZ_ONLY     the only target that gets inputs
  SPINNEY_DOCUMENT_CRASH_POINTS  crash points of the crash test of documents in `cargo test` (default 5000)
  SPINNEY_TRANSACTIONS  transactions of the isolation checker in `cargo test` (default 20000)
  SPINNEY_LISTS         lists of operations of the metamorphic test in `cargo test` (default 20)
  SPINNEY_SALVAGE_POINTS  places that are damaged before a salvage to a new place in `cargo test` (default 1500)
  SPINNEY_FAULTS        workloads of the fault test in `cargo test`, at most 5 (default 2)
  SPINNEY_SIM_SEEDS     seeds of the simulation in `cargo test` (default 400)
";

/// The targets in `fuzz/`.
const TARGETS: [&str; 23] = [
    "block",
    "bson",
    "btree",
    "commands",
    "compressed",
    "expression",
    "filter",
    "index_keys",
    "json",
    "json_lines",
    "key_bytes",
    "key_order",
    "log",
    "manifest",
    "pipeline",
    "projection",
    "record",
    "run",
    "scram",
    "space",
    "update",
    "values",
    "wire",
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["check"] => check(true),
        ["check", "--no-test"] => check(false),
        ["sim", "--minutes", minutes] => search(minutes),
        ["sim", seed] if seed.contains('@') => replay("crash", seed),
        ["sim", seed] => replay("simulation", seed),
        ["model", seed] => replay("model", seed),
        ["schedules"] => schedules(),
        ["portable"] => portable(),
        ["miri"] => miri(),
        ["sanitize", what @ ("address" | "thread")] => sanitize(what),
        ["fuzz"] => fuzz("1", None),
        ["fuzz", "--minutes", minutes] => fuzz(minutes, None),
        ["fuzz", "--minutes", minutes, target] => fuzz(minutes, Some(target)),
        ["fuzz", target] => fuzz("1", Some(target)),
        ["figures", arguments @ ..] => figures::command(arguments),
        ["golden"] => golden(),
        ["format-files"] => format_files(),
        ["clients", arguments @ ..] => clients::command(arguments),
        ["conformance", arguments @ ..] => conformance::command(arguments),
        ["kills", arguments @ ..] => faults::command(faults::KILLS, arguments),
        ["catalog-pairs", arguments @ ..] => faults::command(faults::CATALOG_PAIRS, arguments),
        ["replica-failover", arguments @ ..] => faults::command(faults::REPLICA_FAILOVER, arguments),
        ["replica-replace", arguments @ ..] => faults::command(faults::REPLICA_REPLACE, arguments),
        ["partitions", arguments @ ..] => faults::command(faults::PARTITIONS, arguments),
        ["replica-faults", arguments @ ..] => faults::command(faults::REPLICA_FAULTS, arguments),
        ["limits", arguments @ ..] => faults::command(faults::LIMITS, arguments),
        ["snapshot-reads", arguments @ ..] => faults::command(faults::SNAPSHOT_READS, arguments),
        ["page-test", arguments @ ..] => page::command(arguments),
        ["python", arguments @ ..] => python::command(arguments),
        ["deb", arguments @ ..] => deb::command(arguments),
        ["header"] => c::header(),
        ["install-c", arguments @ ..] => c::command(arguments),
        ["c-count", arguments @ ..] => c::count(arguments),
        ["c-test", arguments @ ..] => c::test(arguments),
        ["crates", arguments @ ..] => release::crates(arguments),
        ["release", arguments @ ..] => release::command(arguments),
        ["mutants", arguments @ ..] => mutants::command(arguments),
        ["help" | "--help" | "-h"] | [] => {
            print(HELP);
            Ok(())
        }
        _ => Err(format!("unknown command `{}`\n\n{HELP}", args.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Everything that must hold before a change is merged.
fn check(test: bool) -> Result<(), String> {
    run("format", &mut cargo("fmt --all -- --check"))?;
    run("lints", &mut cargo("clippy --workspace --all-targets -- -D warnings"))?;
    // The workspace's own crates enable all features.
    run("default features", &mut cargo("clippy -p spinney --lib -- -D warnings"))?;
    if test {
        run("tests", &mut cargo("test --workspace"))?;
    } else {
        // Of the whole workspace: with the features, and so the libraries, that all tests are built with.
        run("tidy rules", &mut cargo("test --quiet --workspace --test tidy"))?;
    }
    // Libraries only: the command and the engine share the name `spinney`, and their pages would overwrite each other.
    run("documentation", cargo("doc --workspace --no-deps --lib").env("RUSTDOCFLAGS", "-D warnings"))
}

/// Replays one seed of a test: `17`, or `17@342` of the crash test.
fn replay(test: &str, seed: &str) -> Result<(), String> {
    let (number, point) = seed.split_once('@').unwrap_or((seed, "0"));
    if number.parse::<u64>().is_err() || point.parse::<u64>().is_err() {
        return Err(format!("`{seed}` is not a seed: expected a number, or number@point for a crash"));
    }
    let mut command = cargo(&format!("test --package spinney --test {test} -- --nocapture every_"));
    run("replay", command.env("SPINNEY_SIM", seed))
}

/// How many seeds are run between two looks at the clock: some seconds.
const SEARCH_SEEDS: u64 = 4000;

/// Runs the simulation with seeds that nobody has run before, until one fails or so many minutes are over.
#[expect(clippy::disallowed_methods, reason = "a search ends by the clock of whoever waits for it")]
fn search(minutes: &str) -> Result<(), String> {
    let minutes: u64 = minutes.parse().map_err(|_| format!("`{minutes}` is not a number of minutes"))?;
    let begun = Instant::now();
    let first = RandomState::new().build_hasher().finish() >> 16;
    for from in (first..).step_by(usize::try_from(SEARCH_SEEDS).expect("some thousands")) {
        if begun.elapsed() >= Duration::from_secs(60 * minutes) {
            break;
        }
        let mut command = cargo("test --quiet --release --package spinney --test simulation -- --nocapture every_");
        command.env("SPINNEY_SIM_FROM", from.to_string()).env("SPINNEY_SIM_SEEDS", SEARCH_SEEDS.to_string());
        run("simulation", &mut command)?;
    }
    Ok(())
}

/// Compiles the engine for the systems that have files by the standard library alone.
fn portable() -> Result<(), String> {
    for target in ["x86_64-pc-windows-gnu", "x86_64-apple-darwin", "x86_64-unknown-freebsd"] {
        run("standard library", Command::new("rustup").args(["target", "add", target]))?;
        run(target, &mut cargo(&format!("check -p spinney --lib --features serde,tracing --target {target}")))?;
    }
    Ok(())
}

/// Runs the tests that decide themselves how threads take turns. Only the engine's own tests are built with the
/// condition: what they depend on is that of all other tests.
fn schedules() -> Result<(), String> {
    let build = "rustc --package spinney --lib --profile test --message-format json -- --cfg shuttle";
    let program = step::program_of(&mut cargo(build))?;
    let mut tests = Command::new(program);
    run("schedules", tests.arg("schedules").current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/engine")))
}

/// Runs the tests of the modules with unsafe code that Miri can run: it has no memory maps, and takes a thousand times
/// as long.
fn miri() -> Result<(), String> {
    let mut command = nightly(
        "miri test --package spinney --lib --target-dir target/miri -- base::memory tree::memtable env::buffer",
    );
    run("miri", command.env("MIRIFLAGS", "-Zmiri-disable-isolation"))
}

/// Runs the tests in which real threads share memory, instrumented.
fn sanitize(what: &str) -> Result<(), String> {
    let target = "x86_64-unknown-linux-gnu";
    let common = format!("test -Zbuild-std --target {target} --target-dir target/{what} --package spinney");
    let suppressions = concat!(env!("CARGO_MANIFEST_DIR"), "/tsan.txt");
    for tests in ["--lib -- base::memory tree::memtable log::beside txn:: cache:: env::", "--test concurrent"] {
        let mut command = nightly(&format!("{common} {tests}"));
        command.env("RUSTFLAGS", format!("-Zsanitizer={what} --cfg sanitized"));
        command.env("TSAN_OPTIONS", format!("suppressions={suppressions}"));
        run(what, &mut command)?;
    }
    Ok(())
}

/// Runs libFuzzer on one target or all, each from its seeds and what earlier runs found worth keeping.
fn fuzz(minutes: &str, target: Option<&str>) -> Result<(), String> {
    let minutes: u64 = minutes.parse().map_err(|_| format!("`{minutes}` is not a number of minutes"))?;
    let found = nightly("fuzz --version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        return Err("fuzzing needs a nightly compiler and cargo-fuzz: \
                    `rustup toolchain install nightly` and `cargo install cargo-fuzz`"
            .to_owned());
    }
    if let Some(unknown) = target.filter(|target| !TARGETS.contains(target)) {
        return Err(format!("there is no target `{unknown}`: give one of {}", TARGETS.join(", ")));
    }
    for name in TARGETS.into_iter().filter(|name| target.is_none_or(|target| target == *name)) {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
        std::fs::create_dir_all(format!("{corpus}/{name}")).map_err(|error| format!("{corpus}: {error}"))?;
        let limits = format!("-max_total_time={} -rss_limit_mb=1024 -malloc_limit_mb=64", 60 * minutes);
        run(name, &mut nightly(&format!("fuzz run {name} fuzz/corpus/{name} fuzz/seeds/{name} -- {limits}")))?;
    }
    Ok(())
}

/// Runs the golden tests in the mode in which they rewrite their expectations.
fn golden() -> Result<(), String> {
    run("golden tests", cargo("test --workspace golden").env("SPINNEY_GOLDEN", "rewrite"))
}

/// Writes databases of this version's format, which later versions open in a test.
fn format_files() -> Result<(), String> {
    let mut command = cargo("test --package spinney-document --test formats");
    run("the databases of this format", command.env("SPINNEY_FORMAT_FILES", "1"))
}

/// The nightly compiler's cargo: the one of rustup, which knows toolchains.
fn nightly(args: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .arg("+nightly")
        .args(args.split_whitespace())
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env_remove("RUSTUP_TOOLCHAIN");
    command
}
