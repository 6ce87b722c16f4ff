//! The workloads by their names.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What to do with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Put every key in key order
    Fillseq,
    /// The same, 1000 in a commit
    Fillbatch,
    /// Put every key in random order
    Fillrandom,
    /// Put a thousandth of the keys in random order, each commit on the device before the next, in a database of its
    /// own, beside the raw device
    Fillsync,
    /// Put every key again in another random order
    Overwrite,
    /// Get every key once in random order, so that what fits in memory is there before reads that are measured
    Warm,
    /// Get random keys
    Readrandom,
    /// Get random keys that are not there
    Readmissing,
    /// Get random keys, many in a call
    Multireadrandom,
    /// Read entries in key order
    Readseq,
    /// Read entries in reverse key order
    Readreverse,
    /// Seek random keys, and read the entries after them
    Seekrandom,
    /// Get random keys while another thread puts
    Readwhilewriting,
    /// Seek random keys while another thread puts
    Seekrandomwhilewriting,
    /// Delete keys in key order
    Deleteseq,
    /// Delete keys in random order
    Deleterandom,
    /// Write what is in memory only to the trees
    Flush,
    /// Merge all into one tree
    Compact,
    /// Wait until no background work is left
    Waitforcompaction,
    /// Record the shape of the trees
    Levelstats,
}

impl Workload {
    /// What runs unless asked otherwise.
    pub(super) const DEFAULTS: [Self; 15] = [
        Self::Fillsync,
        Self::Fillseq,
        Self::Fillrandom,
        Self::Overwrite,
        Self::Levelstats,
        Self::Warm,
        Self::Readrandom,
        Self::Readmissing,
        Self::Multireadrandom,
        Self::Readseq,
        Self::Readreverse,
        Self::Seekrandom,
        Self::Readwhilewriting,
        Self::Seekrandomwhilewriting,
        Self::Deleterandom,
    ];

    /// The name that users give and reports show.
    pub(super) fn name(self) -> String {
        self.to_possible_value().expect("no workload is hidden").get_name().to_owned()
    }

    /// What its operations are.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Fillseq | Self::Fillbatch | Self::Fillrandom | Self::Fillsync | Self::Overwrite => "put",
            Self::Warm | Self::Readrandom | Self::Readmissing | Self::Multireadrandom | Self::Readwhilewriting => "get",
            Self::Readseq | Self::Readreverse => "entry",
            Self::Seekrandom | Self::Seekrandomwhilewriting => "seek",
            Self::Deleteseq | Self::Deleterandom => "delete",
            Self::Flush | Self::Compact | Self::Waitforcompaction | Self::Levelstats => "run",
        }
    }

    /// Whether it begins with a new database, which those after it go on with.
    pub(super) const fn begins_a_database(self) -> bool {
        matches!(self, Self::Fillseq | Self::Fillbatch | Self::Fillrandom)
    }

    /// Whether it puts or deletes in the database of the others, and reads nothing.
    pub(super) fn writes(self) -> bool {
        matches!(self.unit(), "put" | "delete") && self != Self::Fillsync
    }

    /// Whether it reads.
    pub(super) fn reads(self) -> bool {
        matches!(self.unit(), "get" | "entry" | "seek")
    }

    /// Whether it leaves nothing of what was written in memory only.
    pub(super) const fn settles(self) -> bool {
        matches!(self, Self::Flush | Self::Compact)
    }

    /// Whether another thread puts meanwhile.
    pub(super) const fn has_writer(self) -> bool {
        matches!(self, Self::Readwhilewriting | Self::Seekrandomwhilewriting)
    }

    /// What sets its stream of random numbers apart from those of others.
    pub(super) const fn salt(self) -> u64 {
        (self as u64 + 1) << 32
    }
}
