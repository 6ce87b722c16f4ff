//! A member on a simulated machine: the engine, the document database with its commands, and its part in the set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use spinney::Options;
use spinney::env::Env;
use spinney_document::base::Environment;
use spinney_document::bson::{Document, DocumentBuf, Timestamp, Value};
use spinney_document::command::catch_up::CatchUp;
use spinney_document::command::{Client, Request, Service, ServiceOptions};
use spinney_document::{Database, ErrorCode, Result};
use spinney_testkit::rng::Rng;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::super::committer::Agreement;
use super::super::core::Core;
use super::super::start::take_part;
use super::turns::{self, Turns};
use crate::base::caller::Caller;
use crate::base::settings::Settings;
use crate::storage::applier::Applier;
use crate::storage::log::Log;
use crate::storage::rows::Rows;

/// How long a read waits for its member to catch up.
const CATCH_UP: Duration = Duration::from_secs(10);

/// 2025-01-01 00:00 UTC in milliseconds since 1970.
const BEGAN_MS: i64 = 1_735_689_600_000;

/// The code of a command that nobody answers.
pub(super) const GONE: i32 = -1;

/// A machine as its process finds it.
pub(super) struct Machine {
    pub(super) env: Env,
    pub(super) clock: Arc<Virtual>,
    pub(super) host: String,
    pub(super) number: u64,
    pub(super) memory_bytes: u64,
    /// Bytes of entries that the member keeps in memory.
    pub(super) log_cache_bytes: usize,
    /// Where numbers of its process begin.
    pub(super) random: u64,
}

/// A member that runs.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) core: Arc<Core>,
    pub(super) agreement: Arc<Agreement<Turns>>,
    pub(super) service: Service,
    /// Whether its process has ended.
    pub(super) gone: Arc<AtomicBool>,
}

/// Virtual time, and how threads wait in it.
#[derive(Debug)]
pub(super) struct Virtual {
    began: Instant,
    /// By how much the clock of the machine is ahead.
    ahead_ms: i64,
    random: Mutex<Rng>,
}

impl Virtual {
    pub(super) fn new(began: Instant, ahead_ms: i64, seed: u64) -> Self {
        Self { began, ahead_ms, random: Mutex::new(Rng::new(seed)) }
    }
}

impl Environment for Virtual {
    fn now_ms(&self) -> i64 {
        BEGAN_MS + self.ahead_ms + i64::try_from(self.began.elapsed().as_millis()).unwrap()
    }

    fn random(&self) -> u64 {
        self.random.lock().number()
    }

    fn rest(&self, time: Duration) {
        turns::rest(time);
    }

    fn concurrent(&self) -> bool {
        false
    }
}

/// How a member catches up in the simulation, where no time is asked for that no member showed.
#[derive(Debug)]
struct Follower(Database);

impl CatchUp for Follower {
    fn catch_up(&self, to: Timestamp, _: bool, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let began = Instant::now();
        while visible(&self.0) < to {
            check()?;
            if began.elapsed() > CATCH_UP {
                let what = "the member does not reach the time";
                return Err(spinney_document::Error::new(ErrorCode::MAX_TIME_MS_EXPIRED, what));
            }
            turns::rest(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// The time of the newest commit that readers see.
fn visible(database: &Database) -> Timestamp {
    database.catalog().recorder().clock().visible(database.engine()).0
}

/// What a command came to.
#[derive(Debug)]
pub(super) enum Answer {
    Done(DocumentBuf),
    /// It failed with a code, and what it said.
    Failed(i32, String),
}

impl Answer {
    fn of(reply: DocumentBuf) -> Self {
        let code = |document: Document<'_>| match document.get("code") {
            Some(Value::Int32(code)) => code,
            _ => 0,
        };
        let failure = match reply.view().get("writeErrors") {
            Some(Value::Array(errors)) => errors.get(0).and_then(|error| match error {
                Value::Document(error) => Some(code(error)),
                _ => None,
            }),
            _ if reply.view().get("ok") == Some(Value::Double(1.0)) => None,
            _ => Some(code(reply.view())),
        };
        match failure {
            Some(code) => Self::Failed(code, reply.view().to_json()),
            None => Self::Done(reply),
        }
    }
}

impl Running {
    /// Opens what a member has on its machine. Called in a task.
    pub(super) fn open(machine: Machine, caller: Arc<dyn Caller>) -> Self {
        let Machine { env, clock, host, number, memory_bytes, log_cache_bytes, random } = machine;
        let options = Options::default().memory_bytes(memory_bytes).log_segment_bytes(64 << 10).log_bytes_max(8 << 20);
        let engine =
            spinney::Database::builder("/db").options(options.log_keep_bytes(4 << 20)).env(env.clone()).open().unwrap();
        let rows = Rows::open(&engine).unwrap();
        let identity = rows.identity(|| 100 + number).unwrap();
        let log = Log::open(rows.clone(), log_cache_bytes, &*env.threads).unwrap();
        let applier = Applier::new(rows, log.stored(), &*env.threads).unwrap();
        let core = Arc::new(Core::new(Settings::new("rs", host), identity, log, applier, caller));
        let turns = Arc::new(Turns(Handle::current()));
        let agreement = Arc::new(Agreement::new(&core, turns, engine.clone(), random));
        let database = Database::with_committer(engine, clock, Arc::clone(&agreement) as _).unwrap();
        let options = ServiceOptions { replica_set: true, ..ServiceOptions::default() };
        let service = Service::with_options(database.clone(), options);
        assert!(service.state().catch_up.set(Box::new(Follower(database))).is_ok());
        Self { core, agreement, service, gone: Arc::default() }
    }

    /// Lets it take part in its set. Called in the runtime's thread, whose randomness is the seed's.
    pub(super) async fn take_part(&self) {
        take_part(&self.core, &self.agreement, self.database()).await.unwrap();
    }

    pub(super) fn database(&self) -> &Database {
        self.service.database()
    }

    /// Whether it takes writes.
    pub(super) fn is_writable(&self) -> bool {
        self.core.watch().borrow().writable
    }

    /// The time of the newest commit that its readers see.
    pub(super) fn shows(&self) -> Timestamp {
        visible(self.database())
    }

    /// Runs a command in a task.
    pub(super) fn run(&self, database: &str, command: &str) -> Answer {
        if self.gone.load(Ordering::Relaxed) {
            return Answer::Failed(GONE, "nobody answers".to_owned());
        }
        let command = DocumentBuf::from_json(command).unwrap();
        let client = Client::default();
        Answer::of(self.service.run(&Request { database, body: command.view(), sequences: &[], client: &client }))
    }

    /// All that the member has, in lines.
    pub(super) fn dump(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let all = |database: &str, command: &str| {
            let Answer::Done(reply) = self.run(database, command) else { return Vec::new() };
            let Some(Value::Document(cursor)) = reply.view().get("cursor") else { return Vec::new() };
            let Some(Value::Array(batch)) = cursor.get("firstBatch") else { return Vec::new() };
            let of = batch.values().filter_map(|one| match one {
                Value::Document(one) => Some(DocumentBuf::from(one)),
                _ => None,
            });
            of.collect::<Vec<_>>()
        };
        for collection in all("app", r#"{"listCollections": 1}"#) {
            lines.push(collection.view().to_json());
            let Some(Value::String(name)) = collection.view().get("name") else { continue };
            let indexes = all("app", &format!(r#"{{"listIndexes": "{name}"}}"#));
            lines.extend(indexes.iter().map(|index| format!("{name} index {}", index.view().to_json())));
            let documents = all("app", &format!(r#"{{"find": "{name}", "sort": {{"_id": 1}}, "batchSize": 100000}}"#));
            lines.extend(documents.iter().map(|document| format!("{name} {}", document.view().to_json())));
            match self.run("app", &format!(r#"{{"validate": "{name}", "full": true}}"#)) {
                Answer::Done(report) if report.view().get("valid") == Some(Value::Bool(true)) => {}
                other => lines.push(format!("{name} is not valid: {other:?}")),
            }
        }
        lines
    }
}
