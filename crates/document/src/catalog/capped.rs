//! Capped collections: their limits, and what they hold.
//!
//! A capped collection keeps its documents in the order in which they were inserted, and removes the oldest beyond its
//! limits. Its documents are stored under record ids, numbers that grow, and `_id` has a unique index with a table.
//!
//! # Concurrency
//! A transaction that writes to a capped collection has the lock of its [`Holdings`] from before its snapshot until it
//! has committed: documents become visible in the order of their record ids. A second lock, held for a moment only,
//! guards the number of commits, for the threads that wait for one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{ArcMutexGuard, Condvar, Mutex, RawMutex};
use spinney::Table;

use crate::base::num::u64_of;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value, long_of};
use crate::expr::value::{int, truth};
use crate::keys::{Direction, TypeReader, decode_field, encode_id};

/// The greatest size of a capped collection in bytes: a pebibyte.
const BYTES_MAX: i64 = 1 << 50;

/// Sizes are multiples of this many bytes.
const BYTES_STEP: i64 = 256;

/// The limits of a capped collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CappedLimits {
    /// The most bytes of documents.
    pub bytes_max: i64,
    /// The most documents, if that is limited.
    pub documents_max: Option<i64>,
}

/// What a capped collection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// No document has a lower record id.
    pub oldest: u64,
    /// The record id of the next document.
    pub next: u64,
    /// How many documents there are.
    pub documents: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The exclusive right to write to a capped collection, with what it holds once that was counted.
pub type CappedLock = ArcMutexGuard<RawMutex, Option<Holdings>>;

/// What a capped collection has beside its table.
#[derive(Debug, Default)]
pub struct Capped {
    holdings: Arc<Mutex<Option<Holdings>>>,
    commits: Mutex<u64>,
    committed: Condvar,
}

impl CappedLimits {
    /// The limits in options such as `{capped: true, size: 4096, max: 10}`; nothing without `capped`.
    ///
    /// # Errors
    /// `InvalidOptions` (72) without a size, or with limits and without `capped`; `BadValue` (2) for a size that is
    /// not from 1 to a pebibyte, or a number of documents from 2^31 on.
    pub(super) fn parse(options: Document<'_>) -> Result<Option<Self>> {
        let given = |name: &str| options.get(name).filter(|value| !value.is_nullish());
        let invalid = |what: &str| Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        if !given("capped").is_some_and(|capped| truth(&capped)) {
            return match given("size").or(given("max")) {
                Some(_) => {
                    invalid("the 'capped' field needs to be true when either the 'size' or 'max' fields are present")
                }
                None => Ok(None),
            };
        }
        let Some(size) = given("size") else { return invalid("the 'size' field is required when 'capped' is true") };
        let bytes_max = Self::bytes_of(&size)?;
        let documents_max = match given("max").map(|max| Self::documents_of(&max)) {
            Some(max) => Some(max?).filter(|max| *max > 0),
            None => None,
        };
        Ok(Some(Self { bytes_max, documents_max }))
    }

    /// A size in bytes, a multiple of 256.
    ///
    /// # Errors
    /// `BadValue` (2) when it is not from 1 to a pebibyte, `TypeMismatch` (14) for what is no number.
    fn bytes_of(size: &Value<'_>) -> Result<i64> {
        match number_of("size", size)? {
            bytes @ 1..=BYTES_MAX => Ok((bytes + BYTES_STEP - 1) / BYTES_STEP * BYTES_STEP),
            bytes if bytes > BYTES_MAX => Err(Error::bad_value("'size' cannot exceed 1 petabyte")),
            _ => Err(Error::bad_value("'size' must be at least 1")),
        }
    }

    /// A number of documents; not positive for no limit.
    fn documents_of(max: &Value<'_>) -> Result<i64> {
        match number_of("max", max)? {
            max if max > i64::from(i32::MAX) => {
                Err(Error::bad_value("max in a capped collection has to be < 2^31 or not set"))
            }
            max => Ok(max),
        }
    }

    /// Options with these limits, as they are listed.
    pub(super) fn listed(self, options: Document<'_>) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        builder.append("capped", true).append("size", int(self.bytes_max));
        if let Some(max) = self.documents_max {
            builder.append("max", int(max));
        }
        let others = options.elements().filter(|element| !["capped", "size", "max"].iter().any(|n| element.name == *n));
        others.for_each(|element| {
            builder.append_element(&element);
        });
        builder.finish()
    }

    /// Whether these are too many documents or bytes.
    #[must_use]
    pub fn are_passed(self, holdings: Holdings) -> bool {
        let above = |number: u64, limit: i64| i64::try_from(number).unwrap_or(i64::MAX) > limit;
        above(holdings.bytes, self.bytes_max) || self.documents_max.is_some_and(|max| above(holdings.documents, max))
    }
}

fn number_of(option: &str, value: &Value<'_>) -> Result<i64> {
    long_of(value).ok_or_else(|| {
        let kind = value.kind().name();
        let what = format!("BSON field 'create.{option}' is the wrong type '{kind}', expected a number");
        Error::new(ErrorCode::TYPE_MISMATCH, what)
    })
}

impl Capped {
    /// Waits for the exclusive right to write.
    ///
    /// # Errors
    /// `Interrupted` (11601) and the like, when the thread's operation is to end.
    pub fn lock(&self) -> Result<CappedLock> {
        interrupt::wait(|nap| self.holdings.try_lock_arc_for(nap))
    }

    /// How many commits there were since the collection was opened.
    #[must_use]
    pub fn commits(&self) -> u64 {
        *self.commits.lock()
    }

    /// Wakes the threads that wait for a commit.
    pub fn committed(&self) {
        *self.commits.lock() += 1;
        self.committed.notify_all();
    }

    /// Waits for a commit behind the first `seen` ones, for some time at most.
    pub fn wait(&self, seen: u64, limit: Duration) {
        let mut commits = self.commits.lock();
        if *commits == seen {
            self.committed.wait_for(&mut commits, limit);
        }
    }
}

impl Holdings {
    /// Counts what is in a table as it is now.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn count(table: &Table) -> Result<Self> {
        let mut holdings = Self { oldest: 1, next: 1, documents: 0, bytes: 0 };
        let mut entries = table.range(..);
        while let Some((key, document)) = entries.advance()? {
            let number = record_number(key).unwrap_or_default();
            if holdings.documents == 0 {
                holdings.oldest = number;
            }
            holdings.next = number + 1;
            holdings.documents += 1;
            holdings.bytes += u64_of(document.len());
        }
        Ok(holdings)
    }
}

/// The key of a document under a record id: the id encoded as the `_id` of that number would be.
#[must_use]
pub fn record_key(number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(10);
    encode_id(&mut key, &Value::Int64(number.cast_signed()), None);
    key
}

/// The record id of a key; nothing for a key of another collection.
#[must_use]
pub fn record_number(key: &[u8]) -> Option<u64> {
    let (number, _) = decode_field(key, Direction::Ascending, &mut TypeReader::new(&[]))?;
    u64::try_from(number.view().as_exact_i64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_records_ascend_with_their_numbers() {
        let numbers = [1, 2, 9, 10, 127, 128, 65_535, 65_536, 1 << 31, 1 << 40, (1 << 53) - 1];
        let keys: Vec<_> = numbers.iter().map(|number| record_key(*number)).collect();
        assert!(keys.is_sorted());
        assert_eq!(keys.iter().filter_map(|key| record_number(key)).collect::<Vec<_>>(), numbers);
    }

    #[test]
    fn limits_are_whole_numbers_within_bounds() {
        let parse = |json: &str| CappedLimits::parse(DocumentBuf::from_json(json).unwrap().view());
        let limits = |bytes_max, documents_max| Some(CappedLimits { bytes_max, documents_max });
        for (json, expected) in [
            ("{}", None),
            (r#"{"capped":false}"#, None),
            (r#"{"capped":true,"size":1}"#, limits(256, None)),
            (r#"{"capped":true,"size":4096.9,"max":3}"#, limits(4096, Some(3))),
            (r#"{"capped":1,"size":4097,"max":0}"#, limits(4352, None)),
            (r#"{"capped":true,"size":{"$numberDecimal":"0.6"},"max":-5}"#, limits(256, None)),
        ] {
            assert_eq!(parse(json).unwrap(), expected, "{json}");
        }
        for (json, code) in [
            (r#"{"capped":true}"#, 72),
            (r#"{"size":1}"#, 72),
            (r#"{"capped":false,"max":1}"#, 72),
            (r#"{"capped":true,"size":0.9}"#, 2),
            (r#"{"capped":true,"size":{"$numberDouble":"NaN"}}"#, 2),
            (r#"{"capped":true,"size":1125899906842625}"#, 2),
            (r#"{"capped":true,"size":"1"}"#, 14),
            (r#"{"capped":true,"size":1,"max":2147483648}"#, 2),
        ] {
            assert_eq!(parse(json).unwrap_err().code().number(), code, "{json}");
        }
    }
}
