//! The server killed under clients that write by pymongo: `kills.py` does it, with a Python that is given.

use std::process::Command;

use crate::conformance::{binary, build};
use crate::step;

/// `kills [--python PATH] [ARGUMENTS ..]`; the others are those of `kills.py`.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    let (mut python, mut others) = ("python3", Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--python" => python = rest.next().ok_or("--python needs a path")?,
            other => others.push(other),
        }
    }
    build()?;
    let mut script = Command::new(python);
    script.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/kills.py")).arg(binary()).args(others);
    step::run("kills", &mut script)
}
