//! Statements of a session: alone, once however often they are sent, or in an open transaction.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::id::SessionId;
use super::transaction::OpenTransaction;
use crate::base::{Error, Result, interrupt};
use crate::bson::Document;
use crate::collection::insert::Noted;
use crate::collection::{Collection, DocumentTransaction, InsertMany, WriteOptions};
use crate::notes::{Outcome, SessionNote};

/// The statements of a session's newest number that have been done.
#[derive(Debug)]
pub struct RetryableWrites {
    session: SessionId,
    number: i64,
    /// Held while a statement runs: a client that has waited for too long sends it again while it still does.
    running: Mutex<()>,
    /// The first `stmtId`, how many statements, and what each did.
    done: Mutex<Vec<(i32, u64, Outcome)>>,
}

/// Where a statement runs.
#[derive(Clone, Debug, Default)]
pub enum Scope {
    /// In a transaction of its own.
    #[default]
    Alone,
    /// In a transaction of its own, whose note tells what it did, unless it was done before.
    Once(Arc<RetryableWrites>),
    /// In an open transaction.
    Within(Arc<OpenTransaction>),
}

impl RetryableWrites {
    pub(super) fn new(session: SessionId, number: i64) -> Self {
        Self { session, number, running: Mutex::default(), done: Mutex::default() }
    }

    /// Waits until no other statement of the number runs.
    fn alone(&self) -> Result<MutexGuard<'_, ()>> {
        interrupt::wait(|nap| self.running.try_lock_for(nap))
    }

    fn add(&self, outcomes: impl IntoIterator<Item = (i32, u64, Outcome)>) {
        self.done.lock().extend(outcomes);
    }

    /// Adds what another member has done, or what this one has done unknowingly, unless it is known.
    pub(super) fn remember(&self, outcomes: Vec<(i32, u64, Outcome)>) {
        let mut done = self.done.lock();
        for outcome in outcomes {
            if !done.iter().any(|(first, ..)| *first == outcome.0) {
                done.push(outcome);
            }
        }
    }

    /// What a statement did, if it was done.
    #[must_use]
    pub fn outcome(&self, statement: i32) -> Option<Outcome> {
        let done = self.done.lock();
        let is_of = |(first, count, _): &&(i32, u64, Outcome)| {
            statement.checked_sub(*first).is_some_and(|at| u64::try_from(at).is_ok_and(|at| at < *count))
        };
        done.iter().find(is_of).map(|(_, _, outcome)| outcome.clone())
    }

    fn note(&self, outcomes: Vec<(i32, u64, Outcome)>) -> SessionNote {
        SessionNote {
            id: self.session.uuid,
            user: self.session.user.clone(),
            txn_number: self.number,
            is_transaction: false,
            outcomes,
        }
    }
}

impl Scope {
    /// Runs a statement that changes at most one document; what it did, and whether that was before.
    ///
    /// # Errors
    /// What `body` says, and those of the commit.
    pub fn run(
        &self,
        collection: &Collection,
        options: WriteOptions,
        statement: i32,
        mut body: impl FnMut(&mut DocumentTransaction) -> Result<Outcome>,
    ) -> Result<(Outcome, bool)> {
        match self {
            Self::Alone => Ok((collection.transact_one(options, body)?, false)),
            Self::Within(open) => {
                let done = open.with(|txn| {
                    txn.bypass_validation(options.bypass_validation);
                    body(txn)
                })?;
                Ok((done, false))
            }
            Self::Once(writes) => {
                let _alone = writes.alone()?;
                if let Some(outcome) = writes.outcome(statement) {
                    return Ok((outcome, true));
                }
                let outcome = collection.transact_one(options, |txn| {
                    let outcome = body(txn)?;
                    txn.set_session(writes.note(vec![(statement, 1, outcome.clone())]));
                    Ok(outcome)
                })?;
                writes.add([(statement, 1, outcome.clone())]);
                Ok((outcome, false))
            }
        }
    }

    /// Runs statements that change at most one document each, in one transaction, unless they were done before; of each
    /// what it did, and whether that was before. The statements are given by their places and numbers.
    ///
    /// # Errors
    /// What `body` says, and those of the commit. In an open transaction what was done before an error is part of it,
    /// else nothing is done.
    pub fn run_several(
        &self,
        collection: &Collection,
        options: WriteOptions,
        statements: &[(usize, i32)],
        mut body: impl FnMut(&mut DocumentTransaction, usize) -> Result<Outcome>,
    ) -> Result<Vec<(Outcome, bool)>> {
        let mut all = |txn: &mut DocumentTransaction| -> Result<Vec<(Outcome, bool)>> {
            statements.iter().map(|(at, _)| Ok((body(txn, *at)?, false))).collect()
        };
        let writes = match self {
            Self::Alone => return collection.transact(options, all),
            Self::Within(open) => {
                return open.with(|txn| {
                    txn.bypass_validation(options.bypass_validation);
                    all(txn)
                });
            }
            Self::Once(writes) => writes,
        };
        let _alone = writes.alone()?;
        let before: Vec<_> = statements.iter().map(|(_, statement)| writes.outcome(*statement)).collect();
        let done = collection.transact(options, |txn| {
            let mut done = Vec::with_capacity(statements.len());
            for ((at, _), before) in statements.iter().zip(&before) {
                done.push(match before {
                    Some(outcome) => (outcome.clone(), true),
                    None => (body(txn, *at)?, false),
                });
            }
            txn.set_session(writes.note(new_outcomes(statements, &done)));
            Ok(done)
        })?;
        writes.add(new_outcomes(statements, &done));
        Ok(done)
    }

    /// Inserts documents, of which each is the statement that `statements` has in its place; the places of those that
    /// were done before are returned too, and count as inserted. `check` is asked before each whether to go on.
    ///
    /// # Errors
    /// Those of the engine; documents that cannot be inserted are told in the result.
    pub fn insert(
        &self,
        collection: &Collection,
        documents: &[Document<'_>],
        statements: impl Fn(usize) -> i32,
        ordered: bool,
        options: WriteOptions,
        check: impl Fn() -> Result<()>,
    ) -> Result<(InsertMany, Vec<usize>)> {
        match self {
            Self::Alone => {
                let checked = documents.iter().copied().map_while(|document| check().ok().map(|()| document));
                let inserted = collection.insert_many(checked, ordered, options)?;
                // Why it stopped early.
                check()?;
                Ok((inserted, Vec::new()))
            }
            Self::Within(open) => {
                let mut result = InsertMany::default();
                open.with(|txn| {
                    txn.bypass_validation(options.bypass_validation);
                    for (at, document) in documents.iter().enumerate() {
                        check()?;
                        match txn.insert_one(collection, *document) {
                            Ok(()) => result.inserted += 1,
                            Err(error) if error.code().is_transient() || error.code().is_interruption() => {
                                return Err(error);
                            }
                            Err(error) => {
                                result.errors.push((at, error));
                                break;
                            }
                        }
                    }
                    Ok(())
                })?;
                Ok((result, Vec::new()))
            }
            Self::Once(writes) => {
                let _alone = writes.alone()?;
                let places = 0..documents.len();
                let (before, left): (Vec<usize>, Vec<usize>) =
                    places.partition(|at| writes.outcome(statements(*at)).is_some());
                let mut result = insert_once(collection, documents, &left, writes, &statements, ordered, options)?;
                result.inserted += before.len();
                Ok((result, before))
            }
        }
    }
}

/// What the statements did that were not done before.
fn new_outcomes(statements: &[(usize, i32)], done: &[(Outcome, bool)]) -> Vec<(i32, u64, Outcome)> {
    let new = statements.iter().zip(done).filter(|(_, (_, before))| !before);
    new.map(|((_, statement), (outcome, _))| (*statement, 1, outcome.clone())).collect()
}

fn insert_once(
    collection: &Collection,
    documents: &[Document<'_>],
    left: &[usize],
    writes: &RetryableWrites,
    statements: &impl Fn(usize) -> i32,
    ordered: bool,
    options: WriteOptions,
) -> Result<InsertMany> {
    let made: Mutex<Vec<(i32, u64, Outcome)>> = Mutex::default();
    let note = |txn: &mut DocumentTransaction, inserted: &[usize]| {
        let outcomes = spans(inserted.iter().map(|at| statements(left[*at])));
        *made.lock() = outcomes.clone();
        txn.set_session(writes.note(outcomes));
    };
    let committed = || writes.add(made.lock().drain(..));
    let chosen = left.iter().map(|at| documents[*at]);
    let noted = Noted { before_commit: &note, committed: &committed };
    let mut result = collection.insert_many_noted(chosen, ordered, options, Some(noted))?;
    result.errors.iter_mut().for_each(|(at, _): &mut (usize, Error)| *at = left[*at]);
    Ok(result)
}

/// Statements that follow each other as one entry.
fn spans(statements: impl Iterator<Item = i32>) -> Vec<(i32, u64, Outcome)> {
    let mut spans: Vec<(i32, u64, Outcome)> = Vec::new();
    for statement in statements {
        match spans.last_mut() {
            Some((first, count, _)) if distance(*first, statement) == Some(*count) => *count += 1,
            _ => spans.push((statement, 1, Outcome::Inserted)),
        }
    }
    spans
}

fn distance(first: i32, statement: i32) -> Option<u64> {
    u64::try_from(i64::from(statement) - i64::from(first)).ok()
}
