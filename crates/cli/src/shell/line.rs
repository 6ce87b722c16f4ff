//! What a line asks for: a command of the shell, or one of the command line on its database.

use super::args::ShellCommand;
use super::words::words;
use crate::args::{CommitArgs, DbArgs, LogCompressionArg};
use crate::command::{Cli, Command};
use anyhow::{Result, anyhow, bail};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use std::path::Path;

/// The commands of the command line that a shell has.
const SHARED: [&str; 15] = [
    "get",
    "put",
    "merge",
    "delete",
    "scan",
    "count",
    "tables",
    "create",
    "drop",
    "shape",
    "stat",
    "verify",
    "flush",
    "compact",
    "checkpoint",
];

/// What a line asks for.
pub(super) enum Line {
    Nothing,
    Own(ShellCommand),
    Shared(Box<Command>),
    /// To be printed.
    Help(String),
}

/// Reads a line of a shell on the database in `path`.
pub(super) fn parse(line: &str, path: &Path) -> Result<Line> {
    let words = words(line)?;
    let Some((verb, rest)) = words.split_first() else { return Ok(Line::Nothing) };
    if !SHARED.contains(&verb.as_str()) {
        return match ShellCommand::try_parse_from(&words) {
            Ok(ShellCommand::Help { command: Some(command) }) => help_of(&command),
            Ok(ShellCommand::Help { command: None }) => Ok(Line::Help(help())),
            Ok(command) => Ok(Line::Own(command)),
            Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
                bail!("there is no command `{verb}`: .help lists them")
            }
            Err(error) => help_or_error(&error),
        };
    }
    let path = path.as_os_str().to_owned();
    let before = ["spinney".into(), verb.into(), path];
    match Cli::of(before.into_iter().chain(rest.iter().map(Into::into))) {
        Ok(cli) => {
            check_flags(&cli.command)?;
            Ok(Line::Shared(Box::new(cli.command)))
        }
        Err(error) => help_or_error(&error),
    }
}

/// The names of all commands.
pub(super) fn names() -> impl Iterator<Item = String> {
    let own = ShellCommand::command();
    let own: Vec<String> = own.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    SHARED.into_iter().map(str::to_owned).chain(own)
}

/// The flags of a command.
pub(super) fn flags(name: &str) -> Vec<String> {
    let (own, shared) = (ShellCommand::command(), Cli::command());
    let Some(command) = own.find_subcommand(name).or_else(|| shared.find_subcommand(name)) else { return Vec::new() };
    let flags = command.get_arguments().filter_map(clap::Arg::get_long);
    flags.filter(|flag| !OF_THE_SHELL.contains(flag)).map(|flag| format!("--{flag}")).collect()
}

/// Flags that the shell is begun with.
const OF_THE_SHELL: [&str; 3] = ["memory", "log-dir", "log-compression"];

/// The commands, each with what it does.
fn help() -> String {
    let (own, shared) = (ShellCommand::command(), Cli::command());
    let shared = shared.get_subcommands().filter(|command| SHARED.contains(&command.get_name()));
    let mut text = String::new();
    for command in shared.chain(own.get_subcommands()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text += &format!("{:<12}{about}\n", command.get_name());
    }
    text + "\nA command's --help tells its flags. Words are quoted as in sh; lines that begin with # are comments.\n"
}

/// All about a command.
fn help_of(name: &str) -> Result<Line> {
    let (mut own, mut shared) = (ShellCommand::command(), Cli::command());
    if let Some(command) = own.find_subcommand_mut(name) {
        return Ok(Line::Help(command.render_long_help().to_string()));
    }
    match shared.find_subcommand_mut(name).filter(|_| SHARED.contains(&name)) {
        Some(command) => Ok(Line::Help(command.render_long_help().to_string())),
        None => bail!("there is no command `{name}`: .help lists them"),
    }
}

/// Help that was asked for, or what is wrong with the arguments, in one line.
fn help_or_error(error: &clap::Error) -> Result<Line> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Ok(Line::Help(error.to_string()));
    }
    let text = error.to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
    Err(anyhow!("{}", lines.join(" ").trim_start_matches("error: ")))
}

/// Refuses flags that say how a database is opened: it is open.
fn check_flags(command: &Command) -> Result<()> {
    let (db, commit): (&DbArgs, Option<&CommitArgs>) = match command {
        Command::Get(args) => (&args.table.db, None),
        Command::Put(args) => (&args.table.db, Some(&args.commit)),
        Command::Merge(args) => (&args.table.db, Some(&args.commit)),
        Command::Delete(args) => (&args.table.db, Some(&args.commit)),
        Command::Scan(args) => (&args.table.db, None),
        Command::Count(args) => (&args.table.db, None),
        Command::Tables(args) => (&args.db, None),
        Command::Create(args) => (&args.table.db, None),
        Command::Drop(args) => (&args.table.db, None),
        Command::Shape(args) => (&args.db, None),
        Command::Stat(args) => (&args.db, None),
        Command::Verify(args) => (&args.db, None),
        Command::Flush(args) => (&args.db, None),
        Command::Compact(args) => (&args.db, None),
        Command::Checkpoint(args) => (&args.db, None),
        _ => return Ok(()),
    };
    let compresses = commit.is_some_and(|commit| commit.log_compression != LogCompressionArg::Off);
    if db.memory.is_some() || db.log_dir.is_some() || compresses {
        bail!("--memory, --log-dir and --log-compression say how a database is opened, and it is open");
    }
    Ok(())
}
