//! What the member's part in its replica set lets a command do, and what the command waits for: reads that are to see
//! what others wrote, and writes that more members than a majority are to have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spinney_document::base::Interrupt;
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder};
use spinney_document::command::Request;
use spinney_document::command::spec::{Access, Declaration};
use spinney_document::{Error, ErrorCode, Result, base::error};
use spinney_replica::{Acknowledgement, Error as Refused};

use super::spec::Incoming;
use crate::base::clock::monotonic;
use crate::base::fields::whole;
use crate::state::fail_points::Place;
use crate::state::{Replica, Server, Standing};

/// Commands that show data and declare no read of documents.
const READS: [&str; 8] =
    ["listDatabases", "listCollections", "listIndexes", "collStats", "dbStats", "dataSize", "dbHash", "validate"];

/// Commands that declare a write and change this member only.
const LOCAL: [&str; 1] = ["setParameter"];

/// How long a linearizable read waits for other members that has no limit of its own.
const READ_WAIT: Duration = Duration::from_secs(10);

/// How long a step of a wait is, behind which it is looked whether the wait or the server ends.
const STEP: Duration = Duration::from_millis(100);

/// Refuses what only the primary does, and reads of clients that want those of the primary, when the server is a member
/// that is not primary.
///
/// # Errors
/// `NotWritablePrimary` (10107), `NotPrimaryNoSecondaryOk` (13435), `NotPrimaryOrSecondary` (13436), with the labels
/// that tell a driver to send the command again.
pub fn check(
    server: &Server,
    incoming: &Incoming<'_>,
    declared: &Declaration,
    place: impl FnOnce(&Incoming<'_>) -> Place,
) -> Result<()> {
    if server.replica().is_none() {
        return Ok(());
    }
    let standing = server.topology.standing();
    if standing == Standing::Primary {
        return Ok(());
    }
    let (name, place) = (declared.name, place(incoming));
    let writes = declared.access == Access::Write && !LOCAL.contains(&name);
    let reads = declared.access == Access::Read || READS.contains(&name);
    let refused =
        if writes || matches!(place, Place::Transaction | Place::EndOfTransaction) || writes_by_stage(incoming) {
            Error::new(ErrorCode::NOT_WRITABLE_PRIMARY, "not primary")
        } else if !reads {
            return Ok(());
        } else if standing == Standing::Other {
            Error::new(ErrorCode::NOT_PRIMARY_OR_SECONDARY, "node is not in primary or recovering state")
        } else if allows_secondaries(incoming) {
            return Ok(());
        } else {
            Error::new(ErrorCode::NOT_PRIMARY_NO_SECONDARY_OK, "not primary and secondaryOk=false")
        };
    Err(match place {
        Place::Alone => refused,
        Place::RetryableWrite | Place::EndOfTransaction => refused.with_label(error::RETRYABLE_WRITE_ERROR),
        Place::Transaction => refused.with_label(error::TRANSIENT_TRANSACTION_ERROR),
    })
}

/// Whether a pipeline of a command ends with a stage that writes.
fn writes_by_stage(incoming: &Incoming<'_>) -> bool {
    let stages = incoming.body.get("pipeline").and_then(|pipeline| pipeline.as_array());
    let last = stages.and_then(|stages| stages.values().last()).and_then(|stage| stage.as_document());
    let name = last.and_then(Document::first).map(|first| first.name);
    name.is_some_and(|name| name == "$out" || name == "$merge")
}

/// Whether the client allows that a member answers which is not the primary.
fn allows_secondaries(incoming: &Incoming<'_>) -> bool {
    let preference = incoming.body.get("$readPreference").and_then(|preference| preference.as_document());
    let mode = preference.and_then(|preference| preference.get("mode")).and_then(|mode| mode.as_str());
    mode.is_some_and(|mode| mode != "primary")
}

/// The time that a command is limited to.
fn limit(body: Document<'_>) -> Option<Duration> {
    let time = body.get("maxTimeMS").as_ref().and_then(whole).and_then(|time| u64::try_from(time).ok());
    time.filter(|time| *time > 0).map(Duration::from_millis)
}

/// Waits until the reads of a command see all that was acknowledged before it, where they are to be linearizable. What
/// a read at or after a time waits for is the library's.
///
/// # Errors
/// `NotWritablePrimary` (10107) on another member, `MaxTimeMSExpired` (50) when it takes too long.
pub fn wait_to_read(server: &Server, incoming: &Incoming<'_>) -> Result<()> {
    let Some(replica) = server.replica() else { return Ok(()) };
    let concern = incoming.body.get("readConcern").and_then(|concern| concern.as_document());
    let level = concern.and_then(|concern| concern.get("level"));
    if level.and_then(|level| level.as_str()) != Some("linearizable") {
        return Ok(());
    }
    replica.node.linearizable(limit(incoming.body).unwrap_or(READ_WAIT)).map_err(|error| match Error::from(error) {
        error if error.code() == ErrorCode::NOT_WRITABLE_PRIMARY => {
            let what = "cannot satisfy linearizable read concern on non-primary node";
            Error::new(ErrorCode::NOT_WRITABLE_PRIMARY, what)
        }
        error if error.code() == ErrorCode::EXCEEDED_TIME_LIMIT => {
            Error::new(ErrorCode::MAX_TIME_MS_EXPIRED, "operation exceeded time limit")
        }
        error => error,
    })
}

/// Waits until as many members have a write as its write concern asks for, which a majority has already; the
/// `writeConcernError` of the reply when they do not get it.
#[must_use]
pub fn wait_for_members(server: &Server, request: &Request<'_>, reply: Document<'_>) -> Option<DocumentBuf> {
    let replica = server.replica()?;
    let concern = request.body.get("writeConcern")?.as_document()?;
    let wanted = concern.get("w").as_ref().and_then(whole).filter(|wanted| *wanted > 1)?;
    let done = reply.get("ok").as_ref().and_then(whole) == Some(1);
    if !done || reply.element("writeConcernError").is_some() {
        return None;
    }
    let timeout = concern.get("wtimeout").as_ref().and_then(whole).filter(|time| *time > 0);
    let until = timeout.and_then(|time| u64::try_from(time).ok()).map(|time| monotonic() + Duration::from_millis(time));
    let count = usize::try_from(wanted).ok()?;
    let mut told = DocumentBuilder::new();
    match wait(server, replica, request, count, until) {
        Ok(()) => return None,
        Err(Unmet::Interrupted(error)) => {
            told.append("code", error.code().number()).append("codeName", error.code_name().as_str());
            told.append("errmsg", error.message());
            told.open_document("errInfo").append("writeConcern", concern).close();
        }
        Err(Unmet::Refused(Refused::TimedOut)) => {
            let code = ErrorCode::WRITE_CONCERN_FAILED;
            told.append("code", code.number()).append("codeName", code.name().as_str());
            told.append("errmsg", "waiting for replication timed out");
            told.open_document("errInfo").append("wtimeout", true).append("writeConcern", concern).close();
        }
        Err(Unmet::Refused(error)) => {
            let code = match &error {
                Refused::NotPrimary(_) => ErrorCode::PRIMARY_STEPPED_DOWN,
                other => other.code(),
            };
            told.append("code", code.number()).append("codeName", code.name().as_str());
            told.append("errmsg", error.to_string().as_str());
            told.open_document("errInfo").append("writeConcern", concern).close();
        }
    }
    Some(told.finish())
}

/// Why fewer members have a write than its write concern asks for.
enum Unmet {
    Refused(Refused),
    /// The wait was killed, its limit of time is over, or the client has left.
    Interrupted(Error),
}

fn wait(
    server: &Server,
    replica: &Replica,
    request: &Request<'_>,
    count: usize,
    until: Option<Instant>,
) -> Result<(), Unmet> {
    let limit_ms = limit(request.body).map_or(0, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    let interrupt = Interrupt::after(Arc::clone(server.service.database().environment()), limit_ms);
    let interrupt = Arc::new(interrupt.of_caller(request.client.caller.clone()));
    let _running = server.service.begin(request, &interrupt, None);
    let index = replica.node.written();
    loop {
        let left = until.map(|until| until.saturating_duration_since(monotonic()));
        let step = left.map_or(STEP, |left| left.min(STEP));
        match replica.node.wait_replicated(index, Acknowledgement::Count(count), step) {
            Err(Refused::TimedOut) if server.ending.is_asked() => {
                return Err(Unmet::Refused(Refused::Ended("the server ends".to_owned())));
            }
            Err(Refused::TimedOut) if left.is_none_or(|left| left > step) => {
                interrupt.check().map_err(Unmet::Interrupted)?;
            }
            waited => return waited.map_err(Unmet::Refused),
        }
    }
}
