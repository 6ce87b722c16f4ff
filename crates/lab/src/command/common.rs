//! The arguments that all experiments take.

use crate::driver::{Compression, Config, Durability};
use crate::text::{counts, parse_milliseconds, sizes};
use clap::{ArgAction, Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What all experiments take.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Options of all experiments")]
pub struct Common {
    /// Engines to run one after the other; the first is what the others are compared with [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// What a commit survives [default: as the experiment has it]
    #[arg(long, value_enum)]
    pub durability: Option<DurabilityArg>,
    /// Milliseconds for which an interval commit may stay volatile
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = counts::<u32>(1..=60_000))]
    pub interval: u32,
    /// How blocks on disk are compressed, by engines that compress
    #[arg(long, value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
    /// Keep values of this size or larger apart from their keys, where the engine can [default: never]
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u32>(64..=512 << 20))]
    pub large_values: Option<u32>,
    /// Size of a leaf block in tables of which points are read, where the engine lets one choose: 512 B to 1 MiB
    /// [default: the engine's best]
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u32>(512..=1 << 20))]
    pub block: Option<u32>,
    /// Pass the page cache by, where the engine can
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    pub direct_io: bool,
    /// Have threads stay awake for direct reads, where the engine can: more reads at once, for all the time of the
    /// processors
    #[arg(long)]
    pub poll_reads: bool,
    /// Make transactions serializable, not only isolated by snapshots
    #[arg(long)]
    pub serializable: bool,
    /// Threads for background work, where the engine asks
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = counts::<u32>(1..=64))]
    pub background_threads: u32,
    /// Limit all memory of a run, page cache included, with a control group (needs the right to make one): 64 MiB or
    /// more
    #[arg(long, value_name = "SIZE", value_parser = sizes::<u64>(64 << 20..=1 << 50))]
    pub memory_limit: Option<u64>,
    /// Count calls that take more milliseconds than this: at a wanted rate, from the moment at which they are due
    #[arg(long, value_name = "MS", value_parser = parse_milliseconds)]
    pub sla_ms: Option<f64>,
    /// Seed of data and operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Compare every read with a model; speed means nothing then
    #[arg(long)]
    pub verify: bool,
}

/// A durability as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityArg {
    /// The device has a commit when it returns: it survives the machine
    Sync,
    /// The device has it a moment later
    Interval,
    /// The operating system has it: it survives the process, not the machine
    Buffered,
    /// There is no redo log
    NoLog,
}

impl Common {
    /// The configuration that engines get, with an experiment's own memory and the durability that it has unless asked
    /// otherwise.
    #[must_use]
    pub fn config(&self, memory_bytes: u64, durability: DurabilityArg) -> Config {
        Config {
            memory_bytes,
            durability: self.durability_of(self.durability.unwrap_or(durability)),
            compression: self.compression,
            large_value_bytes: self.large_values,
            block_bytes: self.block,
            direct_io: self.direct_io,
            poll_reads: self.poll_reads,
            background_threads: self.background_threads,
            serializable: self.serializable,
            ..Config::default()
        }
    }

    /// The longest that a call should take, if a limit was given.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        self.sla_ms.map(|ms| Duration::from_secs_f64(ms / 1e3))
    }

    /// A durability with the interval that was asked for.
    #[must_use]
    pub fn durability_of(&self, durability: DurabilityArg) -> Durability {
        match durability {
            DurabilityArg::Sync => Durability::Sync,
            DurabilityArg::Interval => Durability::Interval(self.interval),
            DurabilityArg::Buffered => Durability::Buffered,
            DurabilityArg::NoLog => Durability::NoLog,
        }
    }
}
