//! The arguments of `stress`.

use crate::args::{CommitArgs, DbArgs, number, number_within};
use clap::Args;
use std::path::PathBuf;

/// Commit from many threads what can be checked after a crash, or check it
///
/// Each thread makes its commits 1, 2, 3 and so on, in three tables at once, one for each layout: puts, deletes, ranges
/// deleted, values up to 32 KiB, with options so small that flushes, compactions and merges never pause. What a commit
/// does follows from the seed, the thread and its number alone (docs/stress.md), and the data stops growing after some
/// thousand commits. Prints `ACK THREAD NUMBER` after each commit, line by line: a process that is killed has lost none
/// of them. The next run goes on where the database stopped. A database that stress did not begin is refused.
///
/// With --check: shows that the database holds the first commits of each thread whole and unchanged, nothing else, and
/// all that were acknowledged, and that `verify` is clean; else says what is wrong and fails, also when there is
/// nothing to check.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney stress db --seed 7 --threads 4 --seconds 10
  spinney stress db --commits 1000 --durability buffered >> acks
  spinney stress db >> acks & sleep 3; kill -9 $!; spinney stress --check db --acks acks
  spinney stress db --soak --seconds 600 --durability buffered")]
pub(crate) struct StressArgs {
    #[command(flatten)]
    pub(super) db: DbArgs,
    /// What the contents follow from; a database keeps the one that it was begun with [default: 1]
    #[arg(long, value_name = "S", value_parser = number())]
    pub(super) seed: Option<u64>,
    /// Threads that commit; a database keeps the number that it was begun with [default: 4]
    #[arg(long, value_name = "N", value_parser = number_within::<u16>((1, 64)))]
    pub(super) threads: Option<u16>,
    /// End after so many commits of each thread [default: go on until ctrl-C]
    #[arg(long, value_name = "N", conflicts_with = "check", value_parser = number())]
    pub(super) commits: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "check", value_parser = number())]
    pub(super) seconds: Option<u64>,
    #[command(flatten)]
    pub(super) commit: CommitArgs,
    /// Instead of acknowledgements print how fast memory, file descriptors and space on disk grow once the data does
    /// not; fail if one does
    #[arg(long, requires = "seconds", conflicts_with_all = ["check", "commits"])]
    pub(super) soak: bool,
    /// Check the database instead
    #[arg(long)]
    pub(super) check: bool,
    /// The acknowledgements that --check looks for: what earlier runs printed, one after the other
    #[arg(long, value_name = "FILE", requires = "check")]
    pub(super) acks: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    pub(super) json: bool,
}
