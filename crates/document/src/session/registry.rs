//! The sessions of a database.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use spinney::{Durability, Lsn};

use super::id::SessionId;
use super::retry::RetryableWrites;
use super::transaction::{OpenTransaction, aborted};
use crate::base::error::TRANSIENT_TRANSACTION_ERROR;
use crate::base::{Environment, Error, ErrorCode, Result};
use crate::catalog::{KnownSession, SessionListener, UnknownCommits};
use crate::collection::DocumentTransaction;
use crate::database::Database;
use crate::notes::SessionNote;

/// After how many milliseconds without use a session is forgotten.
pub const SESSION_IDLE_MS: i64 = 30 * 60 * 1000;

/// How many milliseconds a transaction may stay open, unless another time is set.
pub const TRANSACTION_MS: i64 = 60_000;

/// How long a session's lock is waited for, which is held for a moment unless a transaction commits.
const STATE_WAIT: Duration = Duration::from_millis(1);

/// How often sessions are looked through, in milliseconds.
const SWEEP_MS: i64 = 1000;

/// All sessions.
#[derive(Debug)]
pub struct Sessions {
    database: Database,
    known: Arc<Listener>,
}

/// The sessions, as far as other members of a replica set have to do with them.
#[derive(Debug)]
struct Listener {
    environment: Arc<dyn Environment>,
    known: Mutex<Known>,
    /// How many milliseconds a transaction may stay open.
    transaction_ms: AtomicI64,
}

#[derive(Debug, Default)]
struct Known {
    sessions: HashMap<SessionId, Arc<Session>>,
    swept_ms: i64,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    /// When it was used last, in milliseconds since 1970. Only the sweep reads it.
    used_ms: AtomicI64,
    unknown: Arc<UnknownCommits>,
    state: Mutex<State>,
}

/// What a session does with its newest number.
#[derive(Debug, Default)]
pub struct State {
    /// The newest number.
    number: Option<i64>,
    use_: Use,
}

#[derive(Debug, Default)]
enum Use {
    #[default]
    Nothing,
    Writes(Arc<RetryableWrites>),
    Open(Arc<OpenTransaction>),
    Committed,
    Aborted,
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.database.catalog().recorder().leave(self.known.done().0);
    }
}

impl Sessions {
    /// The sessions of a database, with what the notes in its log said of those of before when it was opened.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let environment = Arc::clone(database.environment());
        let known =
            Arc::new(Listener { environment, known: Mutex::default(), transaction_ms: AtomicI64::new(TRANSACTION_MS) });
        let listener: Arc<dyn SessionListener> = Arc::<Listener>::clone(&known);
        database.catalog().recorder().listen(&listener);
        Self { database, known }
    }

    fn now(&self) -> i64 {
        self.database.environment().now_ms()
    }

    /// How many milliseconds a transaction may stay open.
    #[must_use]
    pub fn transaction_ms(&self) -> i64 {
        // A number that stands alone.
        self.known.transaction_ms.load(Ordering::Relaxed)
    }

    /// Sets how many milliseconds a transaction may stay open, those that are open included.
    pub fn set_transaction_ms(&self, ms: i64) {
        self.known.transaction_ms.store(ms, Ordering::Relaxed);
    }

    /// Whether a transaction has been open for too long.
    fn is_late(&self, open: &OpenTransaction) -> bool {
        self.now().saturating_sub(open.started_ms) >= self.transaction_ms()
    }

    /// The session with an id, which begins when there is none.
    pub fn enter(&self, id: &SessionId, now_ms: i64) -> Arc<Session> {
        self.known.enter(id, now_ms)
    }

    /// The ids of all sessions.
    #[must_use]
    pub fn list(&self) -> Vec<SessionId> {
        self.known.known.lock().sessions.keys().cloned().collect()
    }

    /// The ids of all sessions, and when each was used last, in milliseconds since 1970.
    #[must_use]
    pub fn used(&self) -> Vec<(SessionId, i64)> {
        let known = self.known.known.lock();
        known.sessions.iter().map(|(id, session)| (id.clone(), session.used_ms.load(Ordering::Relaxed))).collect()
    }

    /// The transactions that are open: of which session, their numbers, and when they began.
    #[must_use]
    pub fn open(&self) -> Vec<(SessionId, i64, i64)> {
        let sessions: Vec<Arc<Session>> = self.known.known.lock().sessions.values().cloned().collect();
        let open = sessions.iter().filter_map(|session| Some((session, session.open()?)));
        open.map(|(session, open)| (session.id.clone(), open.number, open.started_ms)).collect()
    }

    /// How many transactions are open.
    #[must_use]
    pub fn open_transactions(&self) -> usize {
        let sessions: Vec<Arc<Session>> = self.known.known.lock().sessions.values().cloned().collect();
        sessions.iter().filter(|session| session.open().is_some()).count()
    }

    /// Ends sessions: their open transactions are aborted.
    pub fn end(&self, is_meant: impl Fn(&SessionId) -> bool) -> Vec<SessionId> {
        let ended: Vec<Arc<Session>> = {
            let mut known = self.known.known.lock();
            let ids: Vec<SessionId> = known.sessions.keys().filter(|id| is_meant(id)).cloned().collect();
            ids.iter().filter_map(|id| known.sessions.remove(id)).collect()
        };
        ended
            .iter()
            .map(|session| {
                session.abort_open();
                session.id.clone()
            })
            .collect()
    }

    /// Aborts the open transactions of sessions, which go on.
    pub fn kill(&self, is_meant: impl Fn(&SessionId) -> bool) -> Vec<SessionId> {
        let sessions: Vec<Arc<Session>> = self.known.known.lock().sessions.values().cloned().collect();
        let meant = sessions.into_iter().filter(|session| is_meant(&session.id));
        meant
            .map(|session| {
                session.abort_open();
                session.id.clone()
            })
            .collect()
    }

    /// Aborts transactions that have been open for too long, and forgets sessions that were not used.
    pub fn sweep(&self, now_ms: i64) {
        self.known.known.lock().sweep(now_ms, self.transaction_ms());
    }

    /// Begins the transaction of a number in a session.
    ///
    /// # Errors
    /// `TransactionTooOld` (225), `ConflictingOperationInProgress` (117).
    pub fn begin(&self, session: &Session, number: i64) -> Result<Arc<OpenTransaction>> {
        let mut state = session.state.lock();
        match state.number {
            Some(newest) if newest > number => return Err(too_old(session, number, newest)),
            Some(newest) if newest == number => {
                let what = "Only servers in a sharded cluster can start a new transaction at the active transaction \
                            number";
                return Err(Error::new(ErrorCode::CONFLICTING_OPERATION_IN_PROGRESS, what));
            }
            _ => {}
        }
        state.leave();
        let transaction = DocumentTransaction::locking(Arc::clone(self.database.catalog()));
        let open = Arc::new(OpenTransaction::new(number, self.now(), transaction));
        state.number = Some(number);
        state.use_ = Use::Open(Arc::clone(&open));
        Ok(open)
    }

    /// The open transaction of a number in a session.
    ///
    /// # Errors
    /// `NoSuchTransaction` (251), `TransactionTooOld` (225), `TransactionCommitted` (256).
    pub fn resume(&self, session: &Session, number: i64) -> Result<Arc<OpenTransaction>> {
        let mut state = session.state.lock();
        state.check(session, number)?;
        match &state.use_ {
            Use::Open(open) if !self.is_late(open) => Ok(Arc::clone(open)),
            Use::Open(open) => {
                open.abort();
                state.use_ = Use::Aborted;
                Err(aborted(number))
            }
            Use::Committed => Err(committed(number)),
            Use::Aborted => Err(aborted(number)),
            Use::Nothing | Use::Writes(_) => Err(no_such(number, state.number)),
        }
    }

    /// The writes of a number in a session that are done once.
    ///
    /// # Errors
    /// `TransactionTooOld` (225); `ConflictingOperationInProgress` (117) when the number is a transaction's.
    pub fn writes(&self, session: &Session, number: i64) -> Result<Arc<RetryableWrites>> {
        let mut state = session.state.lock();
        match (state.number, &state.use_) {
            (Some(newest), _) if newest > number => return Err(too_old(session, number, newest)),
            (Some(newest), Use::Writes(writes)) if newest == number => return Ok(Arc::clone(writes)),
            (Some(newest), _) if newest == number => {
                let what = format!("Transaction number {number} is the number of a transaction of the session");
                return Err(Error::new(ErrorCode::CONFLICTING_OPERATION_IN_PROGRESS, what));
            }
            _ => {}
        }
        state.leave();
        let writes = Arc::new(RetryableWrites::new(session.id.clone(), number, Arc::clone(&session.unknown)));
        state.number = Some(number);
        state.use_ = Use::Writes(Arc::clone(&writes));
        Ok(writes)
    }

    /// Commits the transaction of a number; again, when it is committed already.
    ///
    /// # Errors
    /// `NoSuchTransaction` (251), `TransactionTooOld` (225); `WriteConflict` (112) with the label
    /// `TransientTransactionError`; `TransactionTooLarge` (257); others with `UnknownTransactionCommitResult`.
    pub fn commit(&self, session: &Session, number: i64, durability: Option<Durability>) -> Result<()> {
        let mut state = session.state.lock();
        let _unknown = session.unknown.begin(self.database.engine());
        state.check(session, number)?;
        let open = match &state.use_ {
            Use::Committed => return Ok(()),
            Use::Open(open) => Arc::clone(open),
            Use::Aborted => return Err(aborted(number)),
            Use::Nothing | Use::Writes(_) => return Err(no_such(number, state.number)),
        };
        let note = session.transaction_note(number);
        let done = if self.is_late(&open) {
            open.abort();
            Err(aborted(number))
        } else {
            open.commit(note, durability)
        };
        state.use_ = if done.is_ok() { Use::Committed } else { Use::Aborted };
        done
    }

    /// Ends the transaction of a number without its writes.
    ///
    /// # Errors
    /// `NoSuchTransaction` (251), `TransactionTooOld` (225), `TransactionCommitted` (256).
    pub fn abort(&self, session: &Session, number: i64) -> Result<()> {
        let mut state = session.state.lock();
        state.check(session, number)?;
        match &state.use_ {
            Use::Open(open) => open.abort(),
            Use::Committed => return Err(committed(number)),
            Use::Aborted => return Err(aborted(number)),
            Use::Nothing | Use::Writes(_) => return Err(no_such(number, state.number)),
        }
        state.use_ = Use::Aborted;
        Ok(())
    }
}

impl Listener {
    fn enter(&self, id: &SessionId, now_ms: i64) -> Arc<Session> {
        let mut known = self.known.lock();
        if now_ms.saturating_sub(known.swept_ms) >= SWEEP_MS {
            known.sweep(now_ms, self.transaction_ms.load(Ordering::Relaxed));
        }
        let session = known.sessions.entry(id.clone()).or_insert_with(|| Arc::new(Session::new(id.clone())));
        // A time for the sweep, which orders nothing.
        session.used_ms.store(now_ms, Ordering::Relaxed);
        Arc::clone(session)
    }
}

impl SessionListener for Listener {
    fn done(&self) -> (Vec<KnownSession>, Option<Lsn>) {
        let sessions: Vec<Arc<Session>> = self.known.lock().sessions.values().cloned().collect();
        let (mut done, mut position) = (Vec::new(), None);
        for session in sessions {
            // Before the look: what a statement has told the session that has ended is found.
            let begin = session.unknown.from();
            let used = u32::try_from(session.used_ms.load(Ordering::Relaxed) / 1000).unwrap_or_default();
            done.extend(session.done().map(|note| KnownSession { note, used }));
            let begin = begin.or_else(|| session.unknown.from());
            position = [position, begin].into_iter().flatten().min();
        }
        (done, position)
    }

    fn remember(&self, note: SessionNote) {
        let id = SessionId { uuid: note.id, user: note.user.clone() };
        let session = self.enter(&id, self.environment.now_ms());
        let mut state = session.state.lock();
        if state.number.is_some_and(|newest| newest > note.txn_number) {
            return;
        }
        if state.number != Some(note.txn_number) {
            state.leave();
            state.number = Some(note.txn_number);
        }
        if note.is_transaction {
            state.leave();
            state.use_ = Use::Committed;
            return;
        }
        if !matches!(state.use_, Use::Writes(_)) {
            state.leave();
            state.use_ = Use::Writes(Arc::new(RetryableWrites::new(id, note.txn_number, Arc::clone(&session.unknown))));
        }
        if let Use::Writes(writes) = &state.use_ {
            writes.remember(note.outcomes);
        }
    }
}

impl Known {
    fn sweep(&mut self, now_ms: i64, transaction_ms: i64) {
        self.swept_ms = now_ms;
        self.sessions.retain(|_, session| {
            if let Some(open) = session.open() {
                if now_ms.saturating_sub(open.started_ms) >= transaction_ms && open.try_abort() {
                    session.abort_open();
                }
                return true;
            }
            // Orders nothing.
            now_ms.saturating_sub(session.used_ms.load(Ordering::Relaxed)) < SESSION_IDLE_MS
                || Arc::strong_count(session) > 1
        });
    }
}

impl Session {
    fn new(id: SessionId) -> Self {
        Self { id, used_ms: AtomicI64::default(), unknown: Arc::default(), state: Mutex::default() }
    }

    /// The id.
    #[must_use]
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// The note of a transaction that is committed.
    fn transaction_note(&self, number: i64) -> SessionNote {
        SessionNote {
            id: self.id.uuid,
            user: self.id.user.clone(),
            txn_number: number,
            is_transaction: true,
            outcomes: Vec::new(),
        }
    }

    /// What was done under the newest number, if anything; none while a transaction commits.
    fn done(&self) -> Option<SessionNote> {
        let state = loop {
            match self.state.try_lock_for(STATE_WAIT) {
                Some(state) => break state,
                // The thread that asks may be the one that applies the commit, or that has committed.
                None if self.unknown.from().is_some() => return None,
                None => {}
            }
        };
        match &state.use_ {
            Use::Writes(writes) => Some(writes.done()),
            Use::Committed => Some(self.transaction_note(state.number?)),
            Use::Nothing | Use::Open(_) | Use::Aborted => None,
        }
    }

    /// The open transaction, unless a command is changing that now.
    fn open(&self) -> Option<Arc<OpenTransaction>> {
        match &self.state.try_lock()?.use_ {
            Use::Open(open) => Some(Arc::clone(open)),
            _ => None,
        }
    }

    fn abort_open(&self) {
        let mut state: MutexGuard<'_, State> = self.state.lock();
        if let Use::Open(open) = &state.use_ {
            open.abort();
            state.use_ = Use::Aborted;
        }
    }
}

impl State {
    /// Ends what the session did with its number, for a newer one.
    fn leave(&mut self) {
        if let Use::Open(open) = &self.use_ {
            open.abort();
        }
        self.use_ = Use::Nothing;
    }

    fn check(&self, session: &Session, number: i64) -> Result<()> {
        match self.number {
            Some(newest) if newest > number => Err(too_old(session, number, newest)),
            Some(newest) if newest == number => Ok(()),
            newest => Err(no_such(number, newest)),
        }
    }
}

fn too_old(session: &Session, number: i64, newest: i64) -> Error {
    let what = format!(
        "Cannot start transaction with {{ txnNumber: {number} }} on session {} because a newer transaction with \
         txnNumber {newest} has already started on this session.",
        session.id
    );
    Error::new(ErrorCode::TRANSACTION_TOO_OLD, what)
}

fn no_such(number: i64, newest: Option<i64>) -> Error {
    let what = format!(
        "Given transaction number {number} does not match any in-progress transactions. The active transaction number \
         is {}",
        newest.unwrap_or(-1)
    );
    Error::new(ErrorCode::NO_SUCH_TRANSACTION, what).with_label(TRANSIENT_TRANSACTION_ERROR)
}

fn committed(number: i64) -> Error {
    let what = format!("Transaction with {{ txnNumber: {number} }} has been committed.");
    Error::new(ErrorCode::TRANSACTION_COMMITTED, what)
}
