//! MongoDB's own clients against the server, unmodified: the tests in `clients/`. Python's are run in a virtual
//! environment of their own; Rust's are a workspace of their own, which is built under `target/clients/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::{environment, target};
use crate::server::Server;
use crate::step::{cargo, run};

/// The tests of the clients, from the root of the repository.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients");

/// `clients [--rust] [--python PATH] [--binary PATH] [TESTS ..]`.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    let (mut rust, mut python, mut binary, mut tests) = (false, "python3", None, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--rust" => rust = true,
            "--python" => python = rest.next().ok_or("--python needs a path")?,
            "--binary" => binary = Some(PathBuf::from(rest.next().ok_or("--binary needs a path")?)),
            test => tests.push(test),
        }
    }
    let server = match binary {
        Some(path) => path,
        None => built()?,
    };
    let server = server.canonicalize().map_err(|error| format!("{}: {error}", server.display()))?;
    if rust {
        return checks_of_rust(&server);
    }
    let mut suite = Command::new(self::python(python)?);
    suite.current_dir(Path::new(FOLDER).join("python")).env("SPINNEY", server).env("PYTHONDONTWRITEBYTECODE", "1");
    suite.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]).args(tests);
    run("the tests of pymongo", &mut suite)
}

/// A Python that has pymongo: a virtual environment made by the one that is given.
pub(super) fn python(python: &str) -> Result<PathBuf, String> {
    environment(python, "clients", &Path::new(FOLDER).join("python/requirements.txt"))
}

fn checks_of_rust(server: &Path) -> Result<(), String> {
    let place = std::env::temp_dir().join(format!("spinney-clients-{}", std::process::id()));
    let serving = Server::start(server, &place, &["--replSet", "rs0", "--test-commands"])?;
    let uri = format!("mongodb://{}/?replicaSet=rs0", serving.address);
    let mut checks = cargo("run --quiet --manifest-path clients/rust/Cargo.toml --bin checks --");
    let ran = run(
        "the checks of the driver for Rust",
        checks.arg(uri).env("CARGO_TARGET_DIR", target().join("clients/rust")),
    );
    drop(serving);
    fs::remove_dir_all(&place).ok();
    ran
}

/// The server, built as its tests are.
pub(super) fn built() -> Result<PathBuf, String> {
    run("the build of the server", &mut cargo("build --package spinney-cli"))?;
    Ok(target().join("debug/spinney"))
}
