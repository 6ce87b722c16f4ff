//! Tells the program which source, compiler and target it is built from, for its version and the reports of benchmarks.
//!
//! It runs again when the commit or the sources change that make the program fast or slow, which are those that the
//! laboratory is compiled again for anyhow.

use std::env;
use std::path::Path;
use std::process::Command;

/// What makes the program fast or slow.
const SOURCES: [&str; 8] = [
    "build.rs",
    "src",
    "Cargo.toml",
    "../document/src",
    "../document/Cargo.toml",
    "../engine/src",
    "../engine/Cargo.toml",
    "../../Cargo.toml",
];

/// What a program says, in a line; `None` when it fails.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The commit, with a mark when engine or laboratory differ from it; `unknown` where this file is in no repository.
fn commit() -> String {
    let known = said_by("git", &["ls-files", "--error-unmatch", "build.rs"])
        .and_then(|_| said_by("git", &["rev-parse", "--short=12", "HEAD"]));
    let Some(commit) = known else { return "unknown".to_owned() };
    let arguments = [&["status", "--porcelain", "--untracked-files=all", "--"][..], &SOURCES].concat();
    let clean = said_by("git", &arguments).is_some_and(|changes| changes.is_empty());
    format!("{commit}{}", if clean { "" } else { "-dirty" })
}

/// The processor that `-C target-cpu` asks for.
fn target_cpu() -> String {
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    let cpu =
        flags.split('\u{1f}').rev().find_map(|flag| flag.split_once("target-cpu=").map(|(_, cpu)| cpu.to_owned()));
    cpu.unwrap_or_else(|| "generic".to_owned())
}

fn main() {
    let mut watched: Vec<String> = SOURCES.map(str::to_owned).to_vec();
    // A commit or a checkout adds a line to the log of HEAD.
    let git = ["HEAD", "logs/HEAD"].into_iter().filter_map(|file| said_by("git", &["rev-parse", "--git-path", file]));
    watched.extend(git);
    // A file that is not there would make this run at each build.
    for path in watched.iter().filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    let rustc = said_by(&variable("RUSTC"), &["--version"]).unwrap_or_else(|| "rustc unknown".to_owned());
    println!("cargo::rustc-env=SPINNEY_COMMIT={}", commit());
    println!("cargo::rustc-env=SPINNEY_RUSTC={rustc}");
    println!("cargo::rustc-env=SPINNEY_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=SPINNEY_TARGET_CPU={}", target_cpu());
    println!("cargo::rustc-env=SPINNEY_TARGET_FEATURES={}", variable("CARGO_CFG_TARGET_FEATURE"));
    println!("cargo::rustc-env=SPINNEY_PROFILE={}, opt-level {}", variable("PROFILE"), variable("OPT_LEVEL"));
}
