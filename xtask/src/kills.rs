//! Faults of the server under clients that write by pymongo: scripts do it, with a Python that is given.

use std::process::Command;

use crate::conformance::{binary, build};
use crate::step;

/// The script of a server that is killed again and again.
pub(super) const KILLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kills.py");
/// The script of the faults of a replica set.
pub(super) const REPLICA_FAULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/replica_faults.py");

/// Runs a script with `[--python PATH] [ARGUMENTS ..]`; the others are those of the script.
pub(super) fn command(script: &str, arguments: &[&str]) -> Result<(), String> {
    let (mut python, mut others) = ("python3", Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--python" => python = rest.next().ok_or("--python needs a path")?,
            other => others.push(other),
        }
    }
    build()?;
    let mut command = Command::new(python);
    command.arg(script).arg(binary()).args(others);
    step::run("faults of the server", &mut command)
}
