//! What commands share while the service runs.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use spinney::Durability;

use super::auto_compact::AutoCompact;
use super::catch_up::CatchUp;
use super::cursors::{Cursors, Limits};
use super::kept_parameters::ClusterParameters;
use super::kept_settings::QuerySettings;
use super::lines::Lines;
use super::operations::Operations;
use super::profiler::Profiler;
use super::slow::SlowCommands;
use super::spec::Declaration;
use super::timing::Timings;
use super::usage::Usage;
use super::verbosity::Verbosity;
use super::write_gate::WriteGate;
use crate::bson::DocumentBuilder;
use crate::database::Database;
use crate::session::{Sessions, Snapshots};

/// After how many seconds expired documents are removed again, unless another time is set.
const EXPIRY_SECONDS: u64 = 60;

/// Options of a service.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// What the commit of a write survives that asks for neither `j` nor `w: "majority"`. Default: what the engine's
    /// options say.
    pub durability: Option<Durability>,
    /// After how many milliseconds without a `getMore` a cursor is closed. Default ten minutes.
    pub cursor_idle_ms: u64,
    /// After how many milliseconds without a `getMore` a cursor with `noCursorTimeout` is closed: it keeps old versions
    /// of documents from being removed. Default one hour.
    pub cursor_idle_max_ms: u64,
    /// How many cursors may be open. Default 10,000.
    pub cursors_max: usize,
    /// Whether clients see a replica set of one server: then they may ask for what only such have, as reads after a
    /// time of the cluster. Default false.
    pub replica_set: bool,
    /// Whether commands and parameters for tests are there. Default false.
    pub test_commands: bool,
    /// The version of MongoDB whose behaviour is offered, in `buildInfo`. Default 8.0.0.
    pub version: String,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            durability: None,
            cursor_idle_ms: 10 * 60 * 1000,
            cursor_idle_max_ms: 60 * 60 * 1000,
            cursors_max: 10_000,
            replica_set: false,
            test_commands: false,
            version: "8.0.0".to_owned(),
        }
    }
}

/// The state of a service.
#[derive(Debug)]
pub struct State {
    /// The database.
    pub database: Database,
    /// The options.
    pub options: ServiceOptions,
    /// The sessions.
    pub sessions: Sessions,
    /// The snapshots that reads of several commands share.
    pub snapshots: Snapshots,
    /// The open cursors.
    pub cursors: Cursors,
    /// The commands that run.
    pub operations: Operations,
    /// What writes go through, and `fsync` closes.
    pub write_gate: WriteGate,
    /// How files are to be compacted in the background.
    pub auto_compact: AutoCompact,
    /// What was done since the service began.
    pub counters: Counters,
    /// How much time commands took on each collection.
    pub usage: Arc<Usage>,
    /// How often each command ran and how long it took.
    pub timings: Timings,
    /// Which commands are profiled, and which are slow.
    pub profiler: Profiler,
    /// The slow commands of late.
    pub slow: SlowCommands,
    /// The commands that a server has beside those of the service, for lists.
    pub others: OnceLock<Vec<&'static Declaration>>,
    /// What has a member of a replica set apply what it lacks, which the program of the member sets.
    pub catch_up: OnceLock<Box<dyn CatchUp>>,
    /// The last lines of the log, which a server that logs adds to.
    pub lines: Arc<Lines>,
    /// What an operator is warned of since the beginning, which a server that logs adds to.
    pub startup_warnings: Arc<Lines>,
    /// When the service began, in milliseconds since 1970.
    pub started_ms: i64,
    /// What may be changed while the service runs.
    pub settings: Settings,
    /// How much is logged, by servers that log.
    pub verbosity: Verbosity,
    /// Parameters that are kept in the database.
    pub parameters: ClusterParameters,
    /// The settings of queries.
    pub query_settings: QuerySettings,
    /// Numbers of requests, connections and bytes, which the server that takes them keeps.
    pub network: Network,
}

impl State {
    /// The state of a new service that has these commands.
    #[must_use]
    pub fn new(database: Database, options: ServiceOptions, commands: &[&'static Declaration]) -> Self {
        let started_ms = database.environment().now_ms();
        let settings = Settings {
            cursor_idle_ms: AtomicU64::new(options.cursor_idle_ms),
            expiry_enabled: AtomicBool::new(true),
            expiry_seconds: AtomicU64::new(EXPIRY_SECONDS),
            ..Settings::default()
        };
        Self {
            sessions: Sessions::new(database.clone()),
            snapshots: Snapshots::default(),
            parameters: ClusterParameters::new(&database),
            query_settings: QuerySettings::new(&database),
            database,
            options,
            settings,
            cursors: Cursors::default(),
            operations: Operations::default(),
            write_gate: WriteGate::default(),
            auto_compact: AutoCompact::default(),
            counters: Counters::default(),
            usage: Arc::default(),
            timings: Timings::new(commands),
            profiler: Profiler::default(),
            slow: SlowCommands::default(),
            others: OnceLock::new(),
            catch_up: OnceLock::new(),
            lines: Arc::default(),
            startup_warnings: Arc::default(),
            started_ms,
            verbosity: Verbosity::default(),
            network: Network::default(),
        }
    }

    /// The limits of cursors.
    #[must_use]
    pub fn cursor_limits(&self) -> Limits {
        Limits {
            idle_ms: self.settings.cursor_idle_ms.load(Ordering::Relaxed),
            idle_max_ms: self.options.cursor_idle_max_ms,
            cursors_max: self.options.cursors_max,
        }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.database.environment().now_ms()
    }
}

/// What changes while the service runs: by `setParameter`, or by the server. Each setting stands alone.
#[derive(Debug, Default)]
pub struct Settings {
    /// How many other members the replica set has that hold data.
    pub other_members: AtomicI64,
    /// After how many milliseconds without a `getMore` a cursor is closed.
    pub cursor_idle_ms: AtomicU64,
    /// Whether less is to be logged.
    pub quiet: AtomicBool,
    /// Whether expired documents are removed.
    pub expiry_enabled: AtomicBool,
    /// After how many seconds expired documents are removed again.
    pub expiry_seconds: AtomicU64,
}

/// How many operations there were of each kind.
#[derive(Debug, Default)]
pub struct Counters {
    /// Commands that failed.
    pub failed: AtomicU64,
    /// Documents inserted or to be inserted.
    pub insert: AtomicU64,
    /// Queries.
    pub query: AtomicU64,
    /// Statements of updates.
    pub update: AtomicU64,
    /// Statements of deletes.
    pub delete: AtomicU64,
    /// Further batches of cursors.
    pub getmore: AtomicU64,
    /// Other commands.
    pub command: AtomicU64,
    /// How often expired documents were removed.
    pub expiry_passes: AtomicU64,
    /// Expired documents that were removed.
    pub expired: AtomicU64,
}

impl Counters {
    /// Counts operations of a kind.
    pub fn add(counter: &AtomicU64, count: u64) {
        // A statistic: it orders nothing.
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Appends the counts as `serverStatus` shows them.
    pub fn append_to(&self, builder: &mut DocumentBuilder) {
        for (name, counter) in [
            ("insert", &self.insert),
            ("query", &self.query),
            ("update", &self.update),
            ("delete", &self.delete),
            ("getmore", &self.getmore),
            ("command", &self.command),
        ] {
            builder.append(name, counter.load(Ordering::Relaxed).cast_signed());
        }
    }
}

/// What a server that takes connections counts.
#[derive(Debug, Default)]
pub struct Network {
    /// Connections that are open.
    pub connections: AtomicI64,
    /// Connections that there were.
    pub connections_created: AtomicI64,
    /// How many there may be.
    pub connections_max: AtomicI64,
    /// Bytes that came.
    pub bytes_in: AtomicU64,
    /// Bytes that went.
    pub bytes_out: AtomicU64,
    /// Requests that came.
    pub requests: AtomicU64,
}
