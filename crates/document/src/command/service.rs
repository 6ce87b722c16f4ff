//! The service that runs commands.

use std::sync::Arc;

use super::call::{Call, Needs, Reply, no_such_command};
use super::generic::{self, Generic};
use super::needs::of_privileges;
use super::operations::{Operation, Running};
use super::parse;
use super::profile;
use super::reply::{append_details, short};
use super::request::{Client, Request};
use super::scope::Scoped;
use super::scoped;
use super::spec::{Access, Declaration};
use super::state::{Counters, ServiceOptions, State};
use super::statement_log::StatementLog;
use super::table::table;
use super::write_gate::Writing;
use crate::base::{Error, ErrorCode, Interrupt, Need, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder};
use crate::catalog::Namespace;
use crate::database::Database;

/// Runs commands on a database. Cheap to clone.
///
/// ```
/// use spinney_document::command::Service;
/// use spinney_document::{Database, doc};
///
/// # let dir = tempfile::tempdir()?;
/// let service = Service::new(Database::open(dir.path().join("db"), spinney::Options::default())?);
/// let insert = spinney_document::bson::DocumentBuf::from_json(r#"{"insert":"people","documents":[{"_id":1}]}"#)?;
/// let reply = service.run_command("app", insert.view())?;
/// assert_eq!(reply.view().to_json(), r#"{"n":1,"ok":1.0}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Service {
    state: Arc<State>,
}

impl Service {
    /// The service of a database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self::with_options(database, ServiceOptions::default())
    }

    /// The service of a database, with options.
    #[must_use]
    pub fn with_options(database: Database, options: ServiceOptions) -> Self {
        Self { state: Arc::new(State::new(database, options, &table().all())) }
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.state.database
    }

    /// What the commands share: counters, cursors, options.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The declaration of a command, for example to see which privileges it needs.
    #[must_use]
    pub fn command(&self, name: &str) -> Option<&'static Declaration> {
        table().find(name)
    }

    /// What a command needs of its client, as it declares it: for a command of the library or of the server above it.
    ///
    /// # Errors
    /// Those of the fields, which the command would return as well.
    pub fn need(&self, command: &Declaration, needs: Option<Needs>, request: &Request<'_>) -> Result<Need> {
        let is_own = needs.is_none();
        let need = match needs.unwrap_or_else(|| table().needs(command.name)) {
            Needs::By(need) => need,
            // The fields say nothing, and are checked when the command runs.
            Needs::Undeclared => return Ok(Need::NEVER),
            Needs::Nothing | Needs::Login => return Ok(Need::NOTHING),
            Needs::All(privileges) => return Ok(of_privileges(privileges, command, request)),
        };
        let fields = parse::check(command, generic::FIELDS, request)?;
        let generic = if is_own { Generic::parse(command, &fields)? } else { Generic::default() };
        let call = Call {
            state: &self.state,
            table: table(),
            command,
            request,
            fields,
            generic,
            interrupt: Arc::new(Interrupt::after(Arc::clone(self.state.database.environment()), 0)),
            now_ms: self.state.now_ms(),
            scoped: Scoped::default(),
            executes: false,
            statements: StatementLog::default(),
        };
        need(&call)
    }

    /// Closes cursors, transactions and sessions that have not been used for too long, and stores the counts of
    /// collections when that is due. A server calls it every few seconds.
    pub fn sweep(&self) {
        let now = self.state.now_ms();
        self.state.sessions.sweep(now);
        self.state.snapshots.sweep(now);
        self.database().catalog().recorder().sweep(now);
        self.state.cursors.sweep(now, self.state.cursor_limits());
        self.database().catalog().store_when_due();
    }

    /// Removes expired documents, unless `fsync` has closed the database to writes. A server calls it as often as the
    /// settings say.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn expire(&self) -> Result<()> {
        let Some(_writing) = self.state.write_gate.try_enter() else { return Ok(()) };
        let expired = self.database().expire()?;
        Counters::add(&self.state.counters.expired, expired);
        Counters::add(&self.state.counters.expiry_passes, 1);
        Ok(())
    }

    /// Runs a command for a program that embeds the database.
    ///
    /// # Errors
    /// Those of the command.
    pub fn run_command(&self, database: &str, command: Document<'_>) -> Result<DocumentBuf> {
        self.try_run(&Request { database, body: command, sequences: &[], client: &Client::default() })
    }

    /// Runs a command. The reply says what went wrong: `{ok: 0, errmsg: .., code: .., codeName: ..}`.
    #[must_use]
    pub fn run(&self, request: &Request<'_>) -> DocumentBuf {
        self.try_run(request).unwrap_or_else(|error| {
            Counters::add(&self.state.counters.failed, 1);
            failed(&error)
        })
    }

    /// Shows what a request does now among the operations, until the answer is dropped: `currentOp` tells of it, and
    /// `killOp` and the server's end reach its interrupt. For what a server waits for behind a command.
    pub fn begin(&self, request: &Request<'_>, interrupt: &Arc<Interrupt>, session: Option<[u8; 16]>) -> Running<'_> {
        self.state.operations.begin(Operation {
            id: 0,
            database: request.database.to_owned(),
            command: short(request.body),
            connection: request.client.connection,
            address: request.client.address.clone(),
            application: request.client.application.clone(),
            user: request.client.user.clone(),
            session,
            started_ms: self.state.now_ms(),
            interrupt: Arc::clone(interrupt),
        })
    }

    fn try_run(&self, request: &Request<'_>) -> Result<DocumentBuf> {
        let name = request.body.first().map(|first| first.name.to_str_lossy()).unwrap_or_default();
        let command = table().find(&name).ok_or_else(|| no_such_command(&name))?;
        if request.body.get("help").is_some_and(|help| crate::expr::value::truth(&help)) {
            return Ok(help(command));
        }
        self.count(command);
        let began_us = self.state.database.environment().monotonic_us();
        let mut call = self.call(command, request)?;
        let _running = self.begin(request, &call.interrupt, call.generic.session);
        let working = call.interrupt.begin();
        let done = enter_gate(&call).and_then(|_writing| dispatch(&mut call)).map_err(|error| call.placed(error)).map(
            |mut reply| {
                if let Some(error) = call.write_concern_error() {
                    reply.append("writeConcernError", &error);
                }
                reply.append("ok", 1.0);
                reply.finish()
            },
        );
        drop(working);
        self.note(&call, began_us, &done);
        done
    }

    /// Notes a command that has ended: how long it took, and whether it was slow. Time for which it waited for
    /// documents that others insert is not its own.
    fn note(&self, call: &Call<'_>, began_us: u64, done: &Result<DocumentBuf>) {
        let elapsed = self.state.database.environment().monotonic_us().saturating_sub(began_us);
        let micros = elapsed.saturating_sub(call.interrupt.waited_us());
        self.state.timings.add(call.command.name, micros, done.is_err());
        self.note_usage(call, micros);
        profile::note(call, micros, done);
    }

    /// A command whose fields are checked.
    fn call<'r>(&'r self, command: &'r Declaration, request: &'r Request<'r>) -> Result<Call<'r>> {
        if !command.everywhere && request.database != "admin" {
            let what = format!("{} may only be run against the admin database.", command.name);
            return Err(Error::new(ErrorCode::UNAUTHORIZED, what));
        }
        let fields = parse::check(command, generic::FIELDS, request)?;
        let generic = Generic::parse(command, &fields)?;
        if generic.read_concern.after.is_some() && !self.state.options.replica_set {
            let what = "Cannot specify afterClusterTime readConcern where there is no replica set";
            return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
        }
        let now_ms = self.state.now_ms();
        let mut limit_ms = generic.max_time_ms;
        if command.access == Access::Read && fields.get("maxTimeMS").is_none() {
            limit_ms = self.state.parameters.read_ms(&self.state.database)?;
        }
        let interrupt = Interrupt::after(Arc::clone(self.state.database.environment()), limit_ms);
        let interrupt = Arc::new(interrupt.of_caller(request.client.caller.clone()));
        let scoped = Scoped::default();
        let call = Call {
            state: &self.state,
            table: table(),
            command,
            request,
            fields,
            generic,
            interrupt,
            now_ms,
            scoped,
            executes: false,
            statements: match self.state.profiler.is_profiled(request.database) {
                true => StatementLog::on(),
                false => StatementLog::default(),
            },
        };
        if command.access == Access::Write {
            call.write_options()?;
        }
        Ok(call)
    }

    /// Notes how long a command took on its collection.
    fn note_usage(&self, call: &Call<'_>, micros: u64) {
        // A name that is none is not counted, and neither is one that is none any more.
        let Some(collection) = call.collection_name().filter(|_| call.command.name != "drop") else { return };
        if let Ok(namespace) = Namespace::new(call.request.database, collection) {
            self.state.usage.add(namespace.as_str(), call.command.name, micros);
        }
    }

    fn count(&self, command: &Declaration) {
        let counters = &self.state.counters;
        let counter = match command.name {
            "find" => &counters.query,
            "getMore" => &counters.getmore,
            // These count their statements.
            "insert" | "update" | "delete" => return,
            _ => &counters.command,
        };
        Counters::add(counter, 1);
    }
}

/// Commands that declare a write, and change no document.
const NOT_HELD: [&str; 2] = ["abortTransaction", "setParameter"];

/// Lets a command that writes begin, which waits while `fsync` has locked the database; nothing for another one.
fn enter_gate<'g>(call: &Call<'g>) -> Result<Option<Writing<'g>>> {
    let writes = call.command.access == Access::Write && !NOT_HELD.contains(&call.command.name);
    if !writes && !generic::writes_by_pipeline(&call.fields) {
        return Ok(None);
    }
    call.state.write_gate.enter(|| call.check()).map(Some)
}

/// Runs a command within its session.
fn dispatch(call: &mut Call<'_>) -> Result<Reply> {
    let entered = scoped::enter(call);
    let done = entered.and_then(|scoped| {
        call.scoped = scoped;
        call.table.run(call)
    });
    scoped::leave(call, done)
}

/// The reply that tells what a command does.
#[must_use]
pub fn help(command: &Declaration) -> DocumentBuf {
    doc! {"help": &format!("help for: {} {}", command.name, command.help), "ok": 1.0}
}

/// The reply that tells an error.
#[must_use]
pub fn failed(error: &Error) -> DocumentBuf {
    let mut reply = DocumentBuilder::new();
    reply.append("ok", 0.0).append("errmsg", error.message()).append("code", error.code().number());
    reply.append("codeName", error.code_name().as_str());
    append_details(&mut reply, error);
    reply.finish()
}
