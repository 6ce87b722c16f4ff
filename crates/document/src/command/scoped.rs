//! Commands within sessions: where their statements run, and what a failure ends.

use super::call::{Call, Reply};
use super::catch_up::ahead;
use super::generic::{GET_MORE, ReadLevel};
use super::scope::Scoped;
use super::spec::{Access, Declaration};
use crate::base::error::{RETRYABLE_WRITE_ERROR, TRANSIENT_TRANSACTION_ERROR};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Timestamp;
use crate::notes::ClusterClock;
use crate::session::{Scope, Session, SessionId};

/// The commands whose writes are done once, however often they are sent.
const RETRYABLE: [&str; 5] = ["insert", "update", "delete", "findAndModify", "bulkWrite"];

/// The commands that end a transaction.
const ENDS: [&str; 2] = ["commitTransaction", "abortTransaction"];

/// How far ahead of the time of day a time may be that a client tells which may move the cluster's time, in seconds.
const AHEAD_SECONDS_MAX: u32 = 24 * 3600;

/// The same of other clients, in seconds: as far as clocks of servers may be apart.
const DRIFT_SECONDS_MAX: u32 = 60;

/// Finds where a command runs.
///
/// # Errors
/// `NoSuchTransaction` (251), `TransactionTooOld` (225), `OperationNotSupportedInTransaction` (263) and others that
/// tell that the session cannot run the command.
pub(super) fn enter(call: &Call<'_>) -> Result<Scoped> {
    let (generic, sessions) = (&call.generic, &call.state.sessions);
    let clock = call.state.database.catalog().recorder().clock();
    follow_clock(call, clock)?;
    if let Some(after) = generic.read_concern.after {
        catch_up(call, after)?;
    }
    let mut scoped = Scoped::default();
    if let Some(uuid) = generic.session {
        let user = call.request.client.user.clone().unwrap_or_default();
        scoped.session = Some(sessions.enter(&SessionId { uuid, user }, call.now_ms));
    }
    if let (Some(session), Some(number)) = (&scoped.session, generic.txn_number) {
        scoped.scope = scope(call, session, number)?;
    }
    let opens = call.command.name != GET_MORE;
    if generic.read_concern.level == Some(ReadLevel::Snapshot) && generic.autocommit.is_none() && opens {
        scoped.snapshot_at = Some(snapshot_time(call)?);
    }
    Ok(scoped)
}

fn scope(call: &Call<'_>, session: &Session, number: i64) -> Result<Scope> {
    let (generic, sessions, name) = (&call.generic, &call.state.sessions, call.command.name);
    if generic.autocommit.is_none() {
        if !RETRYABLE.contains(&name) {
            let what = format!(
                "txnNumber may only be provided for multi-document transactions and retryable write commands. \
                 autocommit:false was not provided, and {name} is not a retryable write command."
            );
            return Err(Error::new(ErrorCode::new(50768), what));
        }
        return Ok(Scope::Once(sessions.writes(session, number)?));
    }
    if ENDS.contains(&name) {
        return Ok(Scope::Alone);
    }
    check_in_transaction(call.command, call.request.database)?;
    if generic.write_concern.is_some() {
        let what = "writeConcern is not allowed within a multi-statement transaction";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    if generic.start_transaction {
        if generic.read_concern.at.is_some() {
            let what = "readConcern atClusterTime is not supported in transactions";
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        }
        close_cursors(call, session, |of| of < number);
        return Ok(Scope::Within(sessions.begin(session, number)?));
    }
    if generic.read_concern.level.is_some() {
        let what = "Only the first command in a transaction may specify a readConcern";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    Ok(Scope::Within(sessions.resume(session, number)?))
}

fn check_in_transaction(command: &Declaration, database: &str) -> Result<()> {
    let name = command.name;
    let what = if !command.in_transaction {
        format!("Cannot run '{name}' in a multi-document transaction.")
    } else if matches!(database, "config" | "local") || (database == "admin" && command.access == Access::Write) {
        format!("Cannot run command against the '{database}' database in a transaction.")
    } else {
        return Ok(());
    };
    // This one is sent to `admin` and tells its namespaces itself.
    if name == "bulkWrite" {
        return Ok(());
    }
    Err(Error::new(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, what))
}

/// Takes over the time that a client has heard of elsewhere. How far that may be ahead is measured from the time of
/// day, and never from the clock that it moves.
fn follow_clock(call: &Call<'_>, clock: &ClusterClock) -> Result<()> {
    let Some(time) = call.generic.cluster_time.filter(|time| *time > clock.last()) else { return Ok(()) };
    let is_limited = call.request.client.keeps_clock;
    let most = if is_limited { DRIFT_SECONDS_MAX } else { AHEAD_SECONDS_MAX };
    let wall = clock.wall();
    if time.time <= wall.time.saturating_add(most) {
        clock.advance(time);
        return Ok(());
    }
    let told = format!("Timestamp({}, {})", time.time, time.increment);
    Err(match is_limited {
        true => {
            let what = format!(
                "the $clusterTime {told} is more than {most} seconds ahead of this server, and the client may not \
                 advance the cluster time: send none, or one that this server has given"
            );
            Error::new(ErrorCode::TIME_PROOF_MISMATCH, what)
        }
        false => {
            let what = format!(
                "New cluster time, {told}, is too far from this node's wall clock time, Timestamp({}, {}): a client may \
                 advance it to {most} seconds ahead",
                wall.time, wall.increment
            );
            Error::new(ErrorCode::CLUSTER_TIME_FAILS_RATE_LIMITER, what)
        }
    })
}

/// Waits until this server has all commits up to a time.
fn catch_up(call: &Call<'_>, to: Timestamp) -> Result<()> {
    let clock = call.state.database.catalog().recorder().clock();
    let visible = clock.visible(call.state.database.engine()).0;
    if visible >= to {
        return Ok(());
    }
    let is_known = clock.last() >= to;
    match call.state.catch_up.get() {
        Some(member) => member.catch_up(to, is_known, &|| call.check()),
        None if is_known => Ok(()),
        None => Err(ahead()),
    }
}

/// The time of the snapshot that a command reads from: the one that it names, or a new one.
fn snapshot_time(call: &Call<'_>) -> Result<Timestamp> {
    let (recorder, engine) = (call.state.database.catalog().recorder(), call.state.database.engine());
    // Only members apply commits one after the other, and have all states between.
    let is_member = recorder.is_on() && call.state.database.catalog().committer().is_some();
    if is_member {
        // Before the time is waited for: the state is kept when it is reached.
        recorder.keep_states(engine, call.now_ms);
    }
    let clock = recorder.clock();
    let Some(at) = call.generic.read_concern.at else {
        let (snapshot, visible) = clock.snapshot(engine);
        // Where commits have no times each snapshot has its own.
        let at = if recorder.is_on() { visible } else { clock.tick() };
        call.state.snapshots.add(at, snapshot, call.now_ms);
        return Ok(at);
    };
    let kept = call.state.snapshots.at(at, call.now_ms);
    if kept.is_ok() {
        return Ok(at);
    }
    catch_up(call, at)?;
    let snapshot = if is_member {
        recorder.state_at(engine, at)?
    } else {
        let (snapshot, visible) = clock.snapshot(engine);
        // Commits have times where they are recorded.
        if !recorder.is_on() || clock.newest_commit() > at {
            return kept.map(|_| at);
        }
        if visible < at {
            let what = "this server does not have all commits up to the time yet: try again";
            return Err(Error::new(ErrorCode::SNAPSHOT_UNAVAILABLE, what));
        }
        snapshot
    };
    call.state.snapshots.add(at, snapshot, call.now_ms);
    Ok(at)
}

/// What follows a command: a failure within a transaction ends it.
///
/// # Errors
/// That of the command, with the labels that tell the driver what to do.
pub(super) fn leave(call: &Call<'_>, done: Result<Reply>) -> Result<Reply> {
    let error = match done {
        Ok(reply) => return Ok(reply),
        Err(error) => error,
    };
    let (name, number) = (call.command.name, call.generic.txn_number);
    let code = error.code();
    let in_transaction = call.generic.autocommit == Some(false);
    let is_down = code.is_of_the_server();
    if in_transaction {
        call.fail_transaction();
        if (code.is_transient() || is_down) && !ENDS.contains(&name) {
            return Err(error.with_label(TRANSIENT_TRANSACTION_ERROR));
        }
    }
    let is_retryable = number.is_some() && (!in_transaction || ENDS.contains(&name));
    Err(if is_down && is_retryable { error.with_label(RETRYABLE_WRITE_ERROR) } else { error })
}

/// Closes the cursors of a session's transactions.
pub(super) fn close_cursors(call: &Call<'_>, session: &Session, is_meant: impl Fn(i64) -> bool) {
    let id = session.id();
    call.state.cursors.remove_where(|owner| {
        owner.session == Some(id.uuid)
            && owner.user.as_deref().unwrap_or_default() == id.user
            && owner.txn_number.is_some_and(&is_meant)
    });
}

impl Call<'_> {
    /// Ends the transaction that the command is part of: a statement of it has failed.
    pub fn fail_transaction(&self) {
        if let (Some(session), Scope::Within(open)) = (&self.scoped.session, &self.scoped.scope) {
            // It may have ended already.
            let _ended = self.state.sessions.abort(session, open.number);
            close_cursors(self, session, |number| number == open.number);
        }
    }

    /// Whether the command is part of a transaction.
    #[must_use]
    pub const fn is_in_transaction(&self) -> bool {
        matches!(self.scoped.scope, Scope::Within(_))
    }
}
