//! The arguments of `shell`, and the commands that only a shell has.

use crate::args::{DbArgs, DurabilityArg};
use clap::{Args, Parser};
use std::path::PathBuf;

/// Open a database and run commands on it, typed or from stdin
///
/// The commands are those of the command line without `spinney` and the database: get, put, scan and others, with all
/// their flags; and begin, commit, rollback, savepoint and release for transactions. `.help` lists them, and `get
/// --help` tells all of one. Words are quoted as in sh: 'as it is', "with \" and \\", or with a backslash before a
/// space.
///
/// On a terminal lines are edited, names of commands and tables completed with the tab key, and lines kept in a
/// history. What ctrl-C interrupts is a command, not the shell; ctrl-D ends it.
///
/// If stdin is not a terminal, its lines are run as a batch, without empty ones and those that begin with #. The first
/// command that fails ends the batch: a message tells its line, and the exit code is that of the command; what was
/// committed before stays. A transaction that is open at the end is rolled back, and the batch has failed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney shell shop
  echo 'count orders' | spinney shell shop
  printf 'begin\\nput orders 4711 new\\ndelete carts 4711\\ncommit\\n' | spinney shell shop
  spinney shell shop --keep-going < commands")]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(super) db: DbArgs,
    /// Go on with a batch behind a command that fails; the exit code is then 1 at the end
    #[arg(long)]
    pub(super) keep_going: bool,
    /// The file of the history [default: spinney/history in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FILE")]
    pub(super) history: Option<PathBuf>,
    /// Keep no history
    #[arg(long, conflicts_with = "history")]
    pub(super) no_history: bool,
}

/// The commands that only a shell has.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true)]
pub(super) enum ShellCommand {
    /// Begin a transaction: the commands until commit are one change, and see the database as it is now
    Begin {
        /// Commit only if nothing that was read was changed meanwhile
        #[arg(long)]
        serializable: bool,
    },
    /// Commit the transaction
    Commit {
        /// What the commit waits for
        #[arg(long, value_enum, default_value_t = DurabilityArg::Sync)]
        durability: DurabilityArg,
    },
    /// Undo the transaction and end it, or undo what came behind a savepoint
    Rollback {
        /// Name of the savepoint
        savepoint: Option<String>,
    },
    /// Set a savepoint in the transaction
    Savepoint {
        /// Its name
        name: String,
    },
    /// Forget a savepoint; its changes stay
    Release {
        /// Its name
        name: String,
    },
    /// List the commands, or tell all of one
    #[command(name = ".help")]
    Help {
        /// The command
        command: Option<String>,
    },
    /// List the tables
    #[command(name = ".tables")]
    Tables,
    /// Print all counters since the shell was begun
    #[command(name = ".stats")]
    Stats,
    /// End the shell
    #[command(name = ".quit", aliases = [".exit", "quit", "exit"])]
    Quit,
}
