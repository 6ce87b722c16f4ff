//! The command line: the commands, and the arguments that each takes.

use crate::args::{
    CheckpointArgs, CompactArgs, CountArgs, CreateArgs, DeleteArgs, DropArgs, FlushArgs, GetArgs, LogArgs, MergeArgs,
    PutArgs, SalvageArgs, ScanArgs, ShapeArgs, StatArgs, TablesArgs, VerifyArgs,
};
use crate::doc::args::DocArgs;
use crate::dump::args::{DumpArgs, RestoreArgs};
use crate::load::args::LoadArgs;
use crate::serve::args::ServeArgs;
use crate::shell::args::ShellArgs;
use crate::stress::StressArgs;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::{ArgValueCompleter, PathCompleter, Shell};
use spinney_lab::command::BenchArgs;
use spinney_lab::report::{LONG_VERSION, VERSION};
use std::ffi::OsString;
use std::path::PathBuf;

const EXIT_CODES: &str = "Exit codes:
  0    done
  1    failed; a line on stderr says why
  2    the command line is wrong; nothing was done
  3    done, but something was lost (salvage) or left out (load --skip-bad, doc import)
  4    get: a key is not there
  130  interrupted by ctrl-C
  143  ended by SIGTERM";

/// An embedded, transactional storage engine: B-tree and LSM tables under one redo log.
#[derive(Debug, Parser)]
#[command(name = "spinney", version = VERSION, long_version = LONG_VERSION, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The command that words are, the name of the program first.
    pub(crate) fn of(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&below_zero(Self::command()).try_get_matches_from(words)?)
    }
}

/// Takes a number below zero behind an option as its value, so that it is refused with what would be one.
fn below_zero(command: clap::Command) -> clap::Command {
    let takes_one = |arg: &Arg| !arg.is_positional() && arg.get_action().takes_values();
    command
        .mut_args(|arg| if takes_one(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(below_zero)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Load(LoadArgs),
    Get(GetArgs),
    Put(PutArgs),
    Merge(MergeArgs),
    Delete(DeleteArgs),
    Scan(ScanArgs),
    Count(CountArgs),
    Tables(TablesArgs),
    Create(CreateArgs),
    Drop(DropArgs),
    Shape(ShapeArgs),
    Stat(StatArgs),
    Log(LogArgs),
    Salvage(SalvageArgs),
    Verify(VerifyArgs),
    Flush(FlushArgs),
    Compact(CompactArgs),
    Checkpoint(CheckpointArgs),
    Dump(DumpArgs),
    Restore(RestoreArgs),
    Shell(ShellArgs),
    Doc(DocArgs),
    Serve(ServeArgs),
    Bench(BenchArgs),
    Stress(StressArgs),
    /// Print completions for a shell: commands, options, databases, tables, collections
    ///
    /// The script asks this program at each completion: make it anew when the program was replaced.
    #[command(after_help = "Examples:
  spinney completions bash > ~/.local/share/bash-completion/completions/spinney
  spinney completions zsh > ~/.zfunc/_spinney")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write a man page for each command
    #[command(after_help = "Examples:
  spinney man /usr/local/share/man/man1
  spinney man . && man ./spinney-scan.1")]
    Man {
        /// The folder that they go to
        #[arg(add = ArgValueCompleter::new(PathCompleter::dir()))]
        folder: PathBuf,
    },
}
