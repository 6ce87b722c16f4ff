//! The `spinney` command: load, read, change, look into and measure databases from a shell.
//!
//! Results go to stdout, everything else to stderr. `spinney --help` lists the exit codes.

mod access;
mod args;
mod bench;
mod check;
mod command;
mod complete;
mod doc;
mod dump;
mod entries;
mod escape;
mod failure;
mod input;
mod load;
mod log;
mod maintenance;
mod out_file;
mod output;
mod prometheus;
mod salvage;
mod scan;
mod serve;
mod shape;
mod shell;
mod stat;
mod store;
mod stress;
mod tables;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap::error::ErrorKind;
use clap_complete::CompleteEnv;
use command::{Cli, Command};
use output::Output;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    CompleteEnv::with_factory(Cli::command).complete();
    let expanded =
        serve::config::expanded(&Cli::command(), std::env::args_os().collect(), |name| std::env::var_os(name));
    let args = match expanded {
        Ok(args) => args,
        Err(error) => {
            eprintln!("spinney: {}", failure::message(&error));
            return ExitCode::from(2);
        }
    };
    let cli = match Cli::of(args) {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => {
            eprintln!(
                "spinney: an argument is not UTF-8: with --escape write such bytes as \\xNN, as in -e 'caf\\xe9'"
            );
            return ExitCode::from(2);
        }
        Err(error) => error.exit(),
    };
    let mut out = Output::stdout();
    match run(&cli.command, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if failure::reader_left(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // What was printed before the failure stays printed; if even that fails the message still says why.
            out.flush().ok();
            eprintln!("spinney: {}", failure::message(&error));
            ExitCode::from(failure::exit_code(&error))
        }
    }
}

fn run(command: &Command, out: &mut Output) -> Result<()> {
    match command {
        Command::Load(args) => load::run(args, out),
        Command::Get(args) => entries::get(args, out),
        Command::Put(args) => entries::put(args),
        Command::Merge(args) => entries::merge(args),
        Command::Delete(args) => entries::delete(args, out),
        Command::Scan(args) => scan::scan(args, out),
        Command::Count(args) => scan::count(args, out),
        Command::Tables(args) => tables::list(args, out),
        Command::Create(args) => tables::create(args),
        Command::Drop(args) => tables::drop(args),
        Command::Shape(args) => shape::run(args, out),
        Command::Stat(args) => stat::run(args, out),
        Command::Log(args) => log::run(args, out),
        Command::Salvage(args) => salvage::run(args, out),
        Command::Verify(args) => maintenance::verify(args, out),
        Command::Flush(args) => maintenance::flush(args),
        Command::Compact(args) => maintenance::compact(args),
        Command::Checkpoint(args) => maintenance::checkpoint(args, out),
        Command::Dump(args) => dump::run(args, out),
        Command::Restore(args) => dump::restore::run(args, out),
        Command::Shell(args) => shell::run(args, out),
        Command::Doc(args) => doc::run(args, out),
        Command::Serve(args) => serve::run(args, out),
        Command::Bench(args) => bench::run(args, out),
        Command::Stress(args) => stress::run(args, out),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            let shells = clap_complete::env::Shells::builtins();
            let shell = shells.completer(&shell.to_string()).context("there are completions for each shell")?;
            shell.write_registration("COMPLETE", "spinney", "spinney", "spinney", &mut text)?;
            Ok(out.write_all(&text)?)
        }
        Command::Man { folder } => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            let pages = clap_mangen::generate_to(Cli::command(), folder);
            pages.with_context(|| format!("cannot write to {}", folder.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
