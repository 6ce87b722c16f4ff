//! Statements over many documents: the matches of one snapshot, a part at a time, each part a transaction.

use std::sync::Arc;

use super::handle::{Collection, WriteOptions};
use super::transaction::DocumentTransaction;
use crate::base::num::{u32_of, u64_of, usize_of, usize_of32};
use crate::base::{Error, ErrorCode, Result};
use crate::exec::{Execution, Match, StoredDocument};
use crate::plan::Query;

/// The most documents of one transaction.
const DOCUMENTS_MAX: usize = 1000;

/// The most bytes of documents of one transaction, and of those that a statement within a transaction keeps.
const BYTES_MAX: usize = 4 << 20;

/// The most bytes of the keys of documents that a statement within a transaction has found: some millions.
const KEYS_BYTES_MAX: usize = 64 << 20;

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

/// What a statement within a transaction has found. All is found before the first document is changed, so that none is
/// met again where a change has moved it to. The first documents are in memory, and of those beyond [`BYTES_MAX`] the
/// keys alone: each is read again in its turn, and is as it was found, because a statement changes each document once.
#[derive(Debug)]
pub(super) struct Matches {
    first: std::vec::IntoIter<Match>,
    /// Of each further one the length of its key, u32, the key, and where in an array the filter matched, u64: 0 for
    /// nowhere, else one more.
    rest: Vec<u8>,
    at: usize,
}

impl Matches {
    /// The next one.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn next(&mut self, txn: &DocumentTransaction, collection: &Collection) -> Result<Option<Match>> {
        if let Some(first) = self.first.next() {
            return Ok(Some(first));
        }
        while let Some((len, rest)) = self.rest[self.at..].split_first_chunk::<4>() {
            let len = usize_of32(u32::from_le_bytes(*len));
            let (key, position) = rest.split_at(len);
            let position = position.first_chunk::<8>().map_or(0, |place| u64::from_le_bytes(*place));
            self.at += 4 + len + 8;
            if let Some(document) = txn.engine().get(&collection.state().table, key)? {
                let position = position.checked_sub(1).map(usize_of);
                return Ok(Some(Match { key: key.to_vec(), document: StoredDocument::new(document), position }));
            }
        }
        Ok(None)
    }
}

impl DocumentTransaction {
    /// All documents that match a query in this transaction, with its own writes.
    ///
    /// # Errors
    /// Those of the query; `TransactionTooLarge` (257) when the keys alone take more than [`KEYS_BYTES_MAX`].
    pub(super) fn matches(&self, collection: &Collection, query: &Arc<Query>) -> Result<Matches> {
        let mut found = collection.search(Box::new(self.engine()), query)?;
        let (mut first, mut bytes, mut rest) = (Vec::new(), 0, Vec::new());
        while let Some(matched) = found.next_match()? {
            if bytes < BYTES_MAX {
                bytes += matched.document.bytes().len() + size_of::<Match>();
                first.push(matched);
                continue;
            }
            let position = matched.position.map_or(0, |position| u64_of(position) + 1);
            rest.extend_from_slice(&u32_of(matched.key.len()).to_le_bytes());
            rest.extend_from_slice(&matched.key);
            rest.extend_from_slice(&position.to_le_bytes());
            if rest.len() > KEYS_BYTES_MAX {
                let what = format!(
                    "a statement within a transaction matches too many documents: {KEYS_BYTES_MAX} bytes \
                                    do not hold their keys"
                );
                return Err(Error::new(ErrorCode::TRANSACTION_TOO_LARGE, what));
            }
        }
        Ok(Matches { first: first.into_iter(), rest, at: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::{DocumentBuf, DocumentBuilder};
    use crate::collection::{DeleteStatement, UpdateStatement};
    use crate::database::Database;
    use crate::expr::Context;
    use crate::query::Filter;
    use crate::update::Update;

    fn query(filter: &str) -> Query {
        let filter = DocumentBuf::from_json(filter).unwrap();
        Query::new(Filter::parse(filter.view(), &Context::default()).unwrap())
    }

    /// A statement over many documents within a transaction kept all that it had found, with the documents: of 400 MB a
    /// server of 64 MiB took 500.
    #[test]
    fn a_statement_within_a_transaction_keeps_few_documents_and_changes_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path().join("db"), spinney::Options::default()).unwrap();
        let c = db.collection_or_create("app.c").unwrap();
        let filling = "x".repeat(10_000);
        let documents: Vec<_> = (0..1500)
            .map(|id| {
                let mut builder = DocumentBuilder::new();
                builder.append("_id", id).append("n", id % 100).append("f", filling.as_str());
                builder.open_array("a").push(1).push(3).push(7).close();
                builder.finish()
            })
            .collect();
        c.insert_many(documents.iter().map(DocumentBuf::view), true, WriteOptions::default()).unwrap();
        db.create_indexes("app.c", &[DocumentBuf::from_json(r#"{"key":{"n":1},"name":"n"}"#).unwrap()]).unwrap();
        let mut txn = db.begin();
        let matches = txn.matches(&c, &Arc::new(query("{}"))).unwrap();
        let (documents, keys) = (matches.first.len(), matches.rest.len());
        assert!(documents < 500 && keys < 64 * 1500, "{documents} documents and {keys} bytes of keys are kept");
        // What a change moves behind the search is not met again.
        let change = DocumentBuf::from_json(r#"{"$inc":{"n":1000},"$set":{"a.$":8}}"#).unwrap();
        let update = Update::parse(change.view().into(), None, &Context::default()).unwrap();
        let update = UpdateStatement::new(query(r#"{"n":{"$gte":0},"a":7}"#), update, true, false).unwrap();
        let done = txn.update(&c, &update).unwrap();
        assert_eq!((done.matched, done.modified), (1500, 1500));
        let deletes = |txn: &mut DocumentTransaction, filter: &str| {
            txn.delete_matches(&c, &DeleteStatement::new(query(filter), true)).unwrap()
        };
        assert_eq!(deletes(&mut txn, r#"{"n":{"$gte":1050,"$lt":1100},"a.2":8}"#), 750);
        assert_eq!(deletes(&mut txn, "{}"), 750);
    }
}
