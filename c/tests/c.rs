//! The header is what the sources say, and programs in C and C++ that use it and the static library do what they say.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

fn header() -> String {
    let made = cbindgen::Builder::new()
        .with_crate(FOLDER)
        .with_config(cbindgen::Config::from_root_or_default(FOLDER))
        .generate()
        .expect("the sources can be read");
    let mut text = Vec::new();
    made.write(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = Path::new(FOLDER).join("include/spinney.h");
    let made = header();
    if env::var_os("SPINNEY_HEADER").is_some() {
        fs::write(&path, &made).expect("it can be written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "include/spinney.h is old: `cargo xtask header` makes it anew");
}

/// The static library, which cargo builds beside the tests.
fn library() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let library = test.with_file_name("libspinney_c.a");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// Compiles a program of `examples/` with the strictest warnings, and runs it in an empty folder.
fn run(compiler: &str, standard: &str, source: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let compiled = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"])
        .args(env::var("SPINNEY_CFLAGS").unwrap_or_default().split_whitespace())
        .arg("-I")
        .arg(Path::new(FOLDER).join("include"))
        .arg(Path::new(FOLDER).join("examples").join(source))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .status()
        .expect("a C compiler is there");
    assert!(compiled.success(), "{source} does not compile");
    let mut command = match env::var("SPINNEY_RUNNER") {
        Ok(runner) => {
            let mut words = runner.split_whitespace();
            let mut command = Command::new(words.next().expect("a program"));
            command.args(words).arg(&program);
            command
        }
        Err(_) => Command::new(&program),
    };
    let ran = command.current_dir(folder.path()).arg("db").output().expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{source}: {}\n{out}\n{err}", ran.status);
    assert!(out.ends_with("done\n"), "{source}:\n{out}\n{err}");
}

#[test]
fn a_program_in_c() {
    run("cc", "-std=c11", "tour.c");
}

#[test]
fn a_program_in_c_that_checks_every_call() {
    run("cc", "-std=c11", "calls.c");
}

#[test]
fn a_program_in_cpp() {
    run("c++", "-std=c++17", "tour.cpp");
}
