//! A step of a chore: a command that is run and named when it fails.

use std::process::{Command, Stdio};

/// Cargo with arguments, in the root of the repository.
pub(super) fn cargo(args: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args.split_whitespace()).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command
}

/// Runs a step and names it when it fails.
pub(super) fn run(step: &str, command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{step} failed ({status})")),
        Err(error) => Err(format!("{step} could not be started: {error}")),
    }
}

/// Runs a build with `--message-format json`, and tells which program it made last.
pub(super) fn program_of(build: &mut Command) -> Result<String, String> {
    let output = build.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = messages.filter_map(|message| message["executable"].as_str().map(ToOwned::to_owned));
    programs
        .next_back()
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("the build failed ({})", output.status))
}

#[expect(clippy::print_stdout, reason = "help that was asked for goes to stdout")]
pub(super) fn print(text: &str) {
    print!("{text}");
}
