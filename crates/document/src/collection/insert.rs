//! Inserts of many documents.

use super::handle::{Collection, WriteOptions};
use super::prepare::Prepared;
use super::transaction::DocumentTransaction;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Document;

/// The most documents of one transaction.
const INSERT_DOCUMENTS_MAX: usize = 1000;

/// The most bytes of documents of one transaction.
const INSERT_BYTES_MAX: usize = 4 << 20;

/// What became of the documents of an `insert_many`.
#[derive(Debug, Default)]
pub struct InsertMany {
    /// How many were inserted.
    pub inserted: usize,
    /// The positions of those that were not, and why, in ascending order.
    pub errors: Vec<(usize, Error)>,
}

/// What a program does at the commits of an `insert_many`.
#[derive(Clone, Copy)]
pub struct Noted<'n> {
    /// Before each try of a commit, with the positions of the documents that it inserts.
    pub before_commit: &'n dyn Fn(&mut DocumentTransaction, &[usize]),
    /// After the commit.
    pub committed: &'n dyn Fn(),
}

impl std::fmt::Debug for Noted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Noted").finish_non_exhaustive()
    }
}

impl Collection {
    /// Inserts documents, in transactions of up to a thousand. With `ordered`, it stops at the first that cannot be
    /// inserted; else all others are inserted.
    ///
    /// # Errors
    /// Those of the engine; what was inserted before stays. Documents that cannot be inserted are told in the result.
    pub fn insert_many<'d>(
        &self,
        documents: impl IntoIterator<Item = Document<'d>>,
        ordered: bool,
        options: WriteOptions,
    ) -> Result<InsertMany> {
        self.insert_many_noted(documents, ordered, options, None)
    }

    /// As [`Self::insert_many`], with parts of the program that take part in each commit.
    ///
    /// # Errors
    /// As [`Self::insert_many`].
    pub fn insert_many_noted<'d>(
        &self,
        documents: impl IntoIterator<Item = Document<'d>>,
        ordered: bool,
        options: WriteOptions,
        noted: Option<Noted<'_>>,
    ) -> Result<InsertMany> {
        let mut result = InsertMany::default();
        let (mut part, mut bytes): (Vec<(usize, Prepared<'d>)>, _) = (Vec::new(), 0);
        for (position, document) in documents.into_iter().enumerate() {
            let refused = match self.prepare(document) {
                Ok(prepared) => {
                    bytes += prepared.view().as_bytes().len();
                    part.push((position, prepared));
                    None
                }
                Err(error) => Some(error),
            };
            // Those before one that is refused come first.
            if refused.is_some() || part.len() == INSERT_DOCUMENTS_MAX || bytes >= INSERT_BYTES_MAX {
                self.insert_part(&mut part, ordered, options, noted, &mut result)?;
                bytes = 0;
                if ordered && !result.errors.is_empty() {
                    return Ok(result);
                }
            }
            if let Some(error) = refused {
                result.errors.push((position, error));
                if ordered {
                    return Ok(result);
                }
            }
        }
        self.insert_part(&mut part, ordered, options, noted, &mut result)?;
        Ok(result)
    }

    /// Inserts documents in one transaction, without those that cannot be.
    fn insert_part(
        &self,
        part: &mut Vec<(usize, Prepared<'_>)>,
        ordered: bool,
        options: WriteOptions,
        noted: Option<Noted<'_>>,
        result: &mut InsertMany,
    ) -> Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        let (inserted, errors) = self.transact(options, |txn| {
            let (mut inserted, mut errors) = (Vec::new(), Vec::new());
            match part.len() {
                1 => txn.change_one(self.state()),
                _ => txn.insert_only(self.state()),
            }
            for (position, prepared) in part.iter() {
                match txn.insert(self.state(), prepared.view()) {
                    Ok(()) => inserted.push(*position),
                    Err(error) if is_of_document(&error) => {
                        errors.push((*position, error));
                        if ordered {
                            break;
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
            if let Some(noted) = noted {
                (noted.before_commit)(txn, &inserted);
            }
            Ok((inserted.len(), errors))
        })?;
        if let Some(noted) = noted {
            (noted.committed)();
        }
        result.inserted += inserted;
        result.errors.extend(errors);
        part.clear();
        Ok(())
    }
}

impl DocumentTransaction {
    /// Inserts a document, which gets an `_id` when it has none.
    ///
    /// # Errors
    /// As [`Self::insert`], and those of [`prepare`](super::prepare::prepare).
    pub fn insert_one(&mut self, collection: &Collection, document: Document<'_>) -> Result<()> {
        let prepared = collection.prepare(document)?;
        self.insert(collection.state(), prepared.view())
    }
}

/// Whether an error is about one document, so that others may still be inserted.
fn is_of_document(error: &Error) -> bool {
    let code = error.code();
    let is_of_all = matches!(
        code,
        ErrorCode::WRITE_CONFLICT
            | ErrorCode::LOCK_TIMEOUT
            | ErrorCode::OUT_OF_DISK_SPACE
            | ErrorCode::TRANSACTION_TOO_LARGE
            | ErrorCode::DATA_CORRUPTION_DETECTED
            | ErrorCode::SHUTDOWN_IN_PROGRESS
            | ErrorCode::FILE_STREAM_FAILED
            | ErrorCode::INTERNAL_ERROR
            | ErrorCode::NAMESPACE_NOT_FOUND
    );
    !is_of_all && !code.is_interruption() && !code.is_of_the_server()
}
