//! Statements over many documents: the matches of one snapshot, a part at a time, each part a transaction.

use std::sync::Arc;

use super::handle::{Collection, WriteOptions};
use super::transaction::DocumentTransaction;
use crate::base::Result;
use crate::exec::{Execution, Match, StoredDocument};
use crate::plan::Query;

/// The most documents of one transaction.
const DOCUMENTS_MAX: usize = 1000;

/// The most bytes of documents of one transaction.
const BYTES_MAX: usize = 4 << 20;

impl Collection {
    /// Runs `each` for every document that matches a query now, in transactions of some documents each. A document
    /// that changed meanwhile is matched again, and left out when it no longer does; each is met once at most. An
    /// error of `each` ends the statement, and what was done before it stays.
    ///
    /// # Errors
    /// Those of the query, of `each`, and of the commits.
    pub(super) fn for_each_match(
        &self,
        query: &Arc<Query>,
        options: WriteOptions,
        mut each: impl FnMut(&mut DocumentTransaction, &Match) -> Result<Tally>,
    ) -> Result<Tally> {
        let mut found = self.search(Box::new(self.snapshot()), query)?;
        let mut total = Tally::default();
        loop {
            let part = take_part(&mut found)?;
            if part.is_empty() {
                return Ok(total);
            }
            let (tally, failed) = self.transact(options, |txn| {
                let mut tally = Tally::default();
                for matched in &part {
                    let done = match self.matched_again(txn, query, matched) {
                        Ok(Some(matched)) => each(txn, &matched),
                        Ok(None) => continue,
                        Err(error) => Err(error),
                    };
                    match done {
                        Ok(one) => tally.add(one),
                        Err(error) if error.is_conflict() => return Err(error),
                        // What was done before stays.
                        Err(error) => return Ok((tally, Some(error))),
                    }
                }
                Ok((tally, None))
            })?;
            total.add(tally);
            if let Some(error) = failed {
                return Err(error);
            }
        }
    }

    /// The document as the transaction sees it, if it still matches.
    fn matched_again(&self, txn: &DocumentTransaction, query: &Query, matched: &Match) -> Result<Option<Match>> {
        let Some(now) = txn.engine().get(&self.state().table, &matched.key)? else {
            return Ok(None);
        };
        let document = StoredDocument::new(now);
        if document.bytes() == matched.document.bytes() {
            return Ok(Some(matched.clone()));
        }
        let (matches, position) = query.filter.matches_at(document.view())?;
        Ok(matches.then_some(Match { key: matched.key.clone(), document, position }))
    }
}

/// How many documents a statement met, and how many it changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) matched: u64,
    pub(super) changed: u64,
}

impl Tally {
    pub(super) const fn add(&mut self, other: Self) {
        self.matched += other.matched;
        self.changed += other.changed;
    }
}

fn take_part(found: &mut Execution<'_>) -> Result<Vec<Match>> {
    let (mut part, mut bytes) = (Vec::new(), 0);
    while part.len() < DOCUMENTS_MAX && bytes < BYTES_MAX {
        let Some(matched) = found.next_match()? else { break };
        bytes += matched.document.bytes().len();
        part.push(matched);
    }
    Ok(part)
}

impl DocumentTransaction {
    /// All documents that match a query in this transaction, with its own writes: they are found before the first of
    /// them is changed.
    pub(super) fn matches(&self, collection: &Collection, query: &Arc<Query>) -> Result<Vec<Match>> {
        let mut found = collection.search(Box::new(self.engine()), query)?;
        let mut matches = Vec::new();
        while let Some(matched) = found.next_match()? {
            matches.push(matched);
        }
        Ok(matches)
    }
}
