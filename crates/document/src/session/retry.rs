//! Statements of a session: alone, once however often they are sent, or in an open transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::id::SessionId;
use super::transaction::OpenTransaction;
use crate::base::{Error, Result, interrupt};
use crate::bson::Document;
use crate::catalog::UnknownCommits;
use crate::collection::insert::Noted;
use crate::collection::{Collection, DocumentTransaction, InsertMany, WriteOptions};
use crate::notes::{Outcome, SessionNote};

/// The statements of a session's newest number that have been done.
#[derive(Debug)]
pub struct RetryableWrites {
    session: SessionId,
    number: i64,
    unknown: Arc<UnknownCommits>,
    /// Held while a statement runs: a client that has waited for too long sends it again while it still does.
    running: Mutex<()>,
    done: Mutex<DoneStatements>,
}

/// What statements did, by their `stmtId`s: of the first of each span, how many statements the span has, and what each
/// of them did. No two spans overlap, so that the one of a statement is the last that begins at or before it: a look-up
/// and an addition take the logarithm of how many spans there are.
#[derive(Debug, Default)]
struct DoneStatements(BTreeMap<i32, (u64, Outcome)>);

impl DoneStatements {
    /// Adds what statements did that follow each other, where that is not there yet.
    fn add(&mut self, first: i32, count: u64, outcome: &Outcome) {
        let end = i64::from(first).saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        let mut from = self.end_of(first).unwrap_or_else(|| i64::from(first));
        while from < end {
            let Ok(begin) = i32::try_from(from) else { return };
            let next = self.0.range(begin..).next().map(|(next, (count, _))| (i64::from(*next), *count));
            let gap_end = next.map_or(end, |(next, _)| next.min(end));
            if let Some(count) = u64::try_from(gap_end - from).ok().filter(|count| *count > 0) {
                match self.0.range_mut(..begin).next_back() {
                    Some((first, (before, of_before)))
                        if i64::from(*first).saturating_add_unsigned(*before) == from && of_before.is_same(outcome) =>
                    {
                        *before += count;
                    }
                    _ => drop(self.0.insert(begin, (count, outcome.clone()))),
                }
            }
            let Some((next, count)) = next else { return };
            from = next.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// The span that a statement is of.
    fn span_of(&self, statement: i32) -> Option<(i64, &Outcome)> {
        let (first, (count, outcome)) = self.0.range(..=statement).next_back()?;
        let end = i64::from(*first).saturating_add(i64::try_from(*count).unwrap_or(i64::MAX));
        (i64::from(statement) < end).then_some((end, outcome))
    }

    /// Where the span ends that a statement is of.
    fn end_of(&self, statement: i32) -> Option<i64> {
        self.span_of(statement).map(|(end, _)| end)
    }

    /// What a statement did.
    fn outcome(&self, statement: i32) -> Option<&Outcome> {
        self.span_of(statement).map(|(_, outcome)| outcome)
    }
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
    pub(super) fn new(session: SessionId, number: i64, unknown: Arc<UnknownCommits>) -> Self {
        Self { session, number, unknown, running: Mutex::default(), done: Mutex::default() }
    }

    /// Waits until no other statement of the number runs.
    fn alone(&self) -> Result<MutexGuard<'_, ()>> {
        interrupt::wait(|nap| self.running.try_lock_for(nap))
    }

    fn add(&self, outcomes: impl IntoIterator<Item = (i32, u64, Outcome)>) {
        let mut done = self.done.lock();
        outcomes.into_iter().for_each(|(first, count, outcome)| done.add(first, count, &outcome));
    }

    /// Adds what another member has done, or what this one has done unknowingly, unless it is known.
    pub(super) fn remember(&self, outcomes: Vec<(i32, u64, Outcome)>) {
        self.add(outcomes);
    }

    /// What a statement did, if it was done.
    #[must_use]
    pub fn outcome(&self, statement: i32) -> Option<Outcome> {
        self.done.lock().outcome(statement).cloned()
    }

    /// What was done.
    pub(super) fn done(&self) -> SessionNote {
        let done =
            self.done.lock().0.iter().map(|(first, (count, outcome))| (*first, *count, outcome.clone())).collect();
        self.note(done)
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
                let _unknown = writes.unknown.begin(collection.engine());
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
        let _unknown = writes.unknown.begin(collection.engine());
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
                let _unknown = writes.unknown.begin(collection.engine());
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
    spans(new.map(|((_, statement), (outcome, _))| (*statement, outcome)))
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
        let outcomes = spans(inserted.iter().map(|at| (statements(left[*at]), &Outcome::Inserted)));
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

/// Statements that follow each other, and have done the same, as one entry.
fn spans<'o>(statements: impl Iterator<Item = (i32, &'o Outcome)>) -> Vec<(i32, u64, Outcome)> {
    let mut spans: Vec<(i32, u64, Outcome)> = Vec::new();
    for (statement, outcome) in statements {
        match spans.last_mut() {
            Some((first, count, known)) if distance(*first, statement) == Some(*count) && known.is_same(outcome) => {
                *count += 1;
            }
            _ => spans.push((statement, 1, outcome.clone())),
        }
    }
    spans
}

fn distance(first: i32, statement: i32) -> Option<u64> {
    u64::try_from(i64::from(statement) - i64::from(first)).ok()
}

#[cfg(test)]
mod tests {
    use spinney_testkit::assert_growth;

    use super::*;

    fn changed(modified: u64) -> Outcome {
        Outcome::Changed { matched: 1, modified, upserted: None }
    }

    fn modified(done: &DoneStatements, statement: i32) -> Option<u64> {
        match done.outcome(statement)? {
            Outcome::Changed { modified, .. } => Some(*modified),
            Outcome::Inserted | Outcome::Returned(_) => Some(u64::MAX),
        }
    }

    #[test]
    fn the_first_outcome_of_a_statement_stays_whatever_overlaps_it() {
        let mut done = DoneStatements::default();
        done.add(10, 3, &changed(1));
        done.add(11, 1, &changed(2));
        done.add(5, 20, &changed(3));
        done.add(0, 6, &changed(4));
        done.add(i32::MAX, u64::MAX, &changed(5));
        done.add(i32::MIN, 1, &changed(6));
        let all: Vec<_> = (-1..26).map(|statement| modified(&done, statement)).collect();
        let mut expected = vec![None];
        expected.extend([Some(4); 5]);
        expected.extend([Some(3); 5]);
        expected.extend([Some(1); 3]);
        expected.extend([Some(3); 12]);
        expected.push(None);
        assert_eq!(all, expected);
        assert_eq!(
            [i32::MIN, i32::MIN + 1, i32::MAX - 1, i32::MAX].map(|at| modified(&done, at)),
            [Some(6), None, None, Some(5)]
        );
    }

    /// One number of a session had 100,000 updates, and each searched the outcomes of those before it one by one: 15
    /// seconds for what takes half a second without a number.
    #[test]
    fn statements_are_found_among_any_number_of_others() {
        for different in [1, 7] {
            let what = format!("statements of {different} outcomes");
            assert_growth(
                &what,
                10_000,
                9.0,
                |count| count,
                |count| {
                    let mut done = DoneStatements::default();
                    for statement in 0..i32::try_from(count).unwrap() {
                        assert!(done.outcome(statement).is_none());
                        done.add(statement, 1, &changed(u64::try_from(statement % different).unwrap()));
                    }
                    // Equal outcomes are one span.
                    assert_eq!(done.0.len(), if different == 1 { 1 } else { count });
                },
            );
        }
    }
}
