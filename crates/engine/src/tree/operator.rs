//! Merge operators: what a table makes of the operands that were merged into a key.
//!
//! A merge is a write that depends on the value before it and yet does not read it: the operand is stored as a version
//! of its own, and reads, flushes and compactions *fold* it with what is older. The interface is RocksDB's
//! (`MergeOperator`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::base::key::check_value;
use crate::base::{Error, Result};

/// What a table makes of the operands that were merged into a key. Registered under a name with
/// [`DatabaseBuilder::merge_operator`](crate::DatabaseBuilder::merge_operator), and named by the tables that use it
/// ([`TableOptions::merge`](crate::TableOptions::merge)).
///
/// It must be a pure function: the same operands give the same value at any time, also in the next release of the
/// program, since some of them are folded at once and others after years. It is called by readers and by background
/// threads, and must not panic nor use the database.
///
/// ```
/// use spinney::{Database, MergeOperator, Options, Result, TableOptions};
///
/// /// Values are lists with a comma behind each item.
/// #[derive(Debug)]
/// struct Append;
///
/// impl MergeOperator for Append {
///     fn full(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
///         Ok([base.unwrap_or_default(), &operands.concat()].concat())
///     }
///
///     fn partial(&self, _key: &[u8], operands: &[&[u8]]) -> Result<Option<Vec<u8>>> {
///         Ok(Some(operands.concat()))
///     }
/// }
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("db");
/// let db = Database::builder(&path).merge_operator("append", Append).open()?;
/// let table = db.create_table("tags", TableOptions::default().merge("append"))?;
/// let mut txn = db.begin();
/// txn.merge(&table, b"page", b"red,")?;
/// txn.merge(&table, b"page", b"blue,")?;
/// txn.commit()?;
/// assert_eq!(db.snapshot().get(&table, b"page")?.as_deref(), Some(b"red,blue,".as_slice()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait MergeOperator: Send + Sync + fmt::Debug {
    /// The value that `operands`, oldest first and at least one, make of `base`, the value before them if there was
    /// one.
    ///
    /// # Errors
    /// When that is nothing the operator can work with. A read tells the error; a flush or compaction leaves the
    /// operands as they are.
    fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>>;

    /// One operand that does to every base what `operands`, oldest first and at least two, do one after another; `None`
    /// when there is none (the default). It saves space and time where the base is out of reach, in runs above the last
    /// level.
    ///
    /// # Errors
    /// As [`MergeOperator::full`].
    fn partial(&self, key: &[u8], operands: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        let _ = (key, operands);
        Ok(None)
    }

    /// Whether `operand` may be written. Without a check a bad one is found when it is read.
    ///
    /// # Errors
    /// `Invalid`, saying what is wrong with it.
    fn check(&self, operand: &[u8]) -> Result<()> {
        let _ = operand;
        Ok(())
    }

    /// Whether `value` may be put. Every value that [`MergeOperator::full`] fails on as a base must be refused here:
    /// the key could not be read any more after the next merge. A value that is already stored is not checked. The
    /// default takes any value.
    ///
    /// # Errors
    /// `Invalid`, saying what is wrong with it.
    fn check_value(&self, value: &[u8]) -> Result<()> {
        let _ = value;
        Ok(())
    }

    /// Whether operands may be merged in any order, with the same value in the end. Merges of an operator that says so
    /// do not conflict with the merges of other transactions, only with other changes of the key: a counter can be part
    /// of any transaction. The default says no.
    fn commutes(&self) -> bool {
        false
    }
}

/// The built-in operator `add`: values and operands are 8-byte little-endian integers, a missing value is zero. The sum
/// wraps around at 64 bits, so that it is the same for `u64` and `i64` (to subtract, add a negative one), and in
/// whatever parts it is formed; a saturating sum would depend on them.
#[derive(Clone, Copy, Debug)]
pub struct Add;

/// The name of [`Add`].
pub const ADD: &str = "add";

impl Add {
    fn number(bytes: &[u8]) -> Result<u64> {
        let wrong =
            |_| Error::invalid(format!("the merge operator 'add' needs values of 8 bytes, not {}", bytes.len()));
        bytes.try_into().map(u64::from_le_bytes).map_err(wrong)
    }

    fn sum(first: u64, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let sum = operands.iter().try_fold(first, |sum, operand| Ok(sum.wrapping_add(Self::number(operand)?)));
        sum.map(|sum: u64| sum.to_le_bytes().to_vec())
    }
}

impl MergeOperator for Add {
    fn commutes(&self) -> bool {
        true
    }

    fn full(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Self::sum(base.map_or(Ok(0), Self::number)?, operands)
    }

    fn partial(&self, _key: &[u8], operands: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        Self::sum(0, operands).map(Some)
    }

    fn check(&self, operand: &[u8]) -> Result<()> {
        Self::number(operand).map(drop)
    }

    fn check_value(&self, value: &[u8]) -> Result<()> {
        Self::number(value).map(drop)
    }
}

/// The operators that were registered, by name.
pub type Operators = BTreeMap<String, Arc<dyn MergeOperator>>;

/// The operators that need not be registered.
#[must_use]
pub fn built_in() -> Operators {
    let add: Arc<dyn MergeOperator> = Arc::new(Add);
    Operators::from([(ADD.to_owned(), add)])
}

/// A table's merge operator: named or not, and registered or not.
#[derive(Clone, Debug, Default)]
pub struct TableOperator(Option<Arc<Named>>);

#[derive(Debug)]
struct Named {
    name: String,
    registered: Option<Arc<dyn MergeOperator>>,
}

impl TableOperator {
    /// The operator of a table whose options name it so.
    #[must_use]
    pub fn find(name: Option<&str>, operators: &Operators) -> Self {
        let named = |name: &str| Named { name: name.to_owned(), registered: operators.get(name).cloned() };
        Self(name.map(|name| Arc::new(named(name))))
    }

    /// Whether merges do not conflict with each other.
    #[must_use]
    pub fn commutes(&self) -> bool {
        self.registered().is_some_and(MergeOperator::commutes)
    }

    /// The operator, if it can be used.
    #[inline]
    #[must_use]
    pub fn registered(&self) -> Option<&dyn MergeOperator> {
        self.0.as_ref()?.registered.as_deref()
    }

    /// The operator.
    ///
    /// # Errors
    /// `Invalid` when the table names none, or one that was not registered.
    pub fn get(&self) -> Result<&dyn MergeOperator> {
        self.registered().ok_or_else(|| match &self.0 {
            None => Error::invalid("the table has no merge operator: name one in TableOptions::merge when it is created"),
            Some(named) => Error::invalid(format!(
                "the table's merge operator '{}' is not registered: open the database with DatabaseBuilder::merge_operator",
                named.name
            )),
        })
    }

    /// Whether `value` may be put into the table.
    ///
    /// # Errors
    /// What the operator says; `Invalid` when the table names one that was not registered, which therefore cannot check
    /// the value.
    #[inline]
    pub fn check_value(&self, value: &[u8]) -> Result<()> {
        if self.0.is_none() {
            return Ok(());
        }
        self.get()?.check_value(value)
    }

    /// The value that `operands`, oldest first, make of `base`.
    ///
    /// # Errors
    /// As [`Self::get`], and what the operator says; `Invalid` for a value that cannot be stored.
    pub fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let operator = self.get()?;
        let value = operator.full(key, base, operands);
        let value = value.and_then(|value| check_value(&value).map(|()| value));
        value.map_err(|error| error.context(format_args!("cannot merge into the key {}", shown(key))))
    }
}

/// The beginning of a key as text.
fn shown(key: &[u8]) -> String {
    const BYTES_MAX: usize = 64;
    let more = if key.len() > BYTES_MAX { ".." } else { "" };
    format!("{}{more}", key[..key.len().min(BYTES_MAX)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_wraps_around_whatever_the_parts() {
        let numbers = [u64::MAX, 7, 1 << 63, (-9i64).cast_unsigned(), 3].map(u64::to_le_bytes);
        let operands: Vec<&[u8]> = numbers.iter().map(<[u8; 8]>::as_slice).collect();
        let whole = Add.full(b"k", None, &operands).unwrap();
        for cut in 1..operands.len() {
            let upper = Add.partial(b"k", &operands[cut..]).unwrap().unwrap();
            let lower = Add.full(b"k", None, &operands[..cut]).unwrap();
            assert_eq!(Add.full(b"k", Some(&lower), &[&upper]).unwrap(), whole);
        }
        assert_eq!(whole, ((1u64 << 63) + u64::MAX.wrapping_add(7 + 3 - 9)).to_le_bytes());
    }

    #[test]
    fn add_refuses_what_is_no_number() {
        assert!(Add.check(b"7 bytes").is_err() && Add.check(b"8 bytes.").is_ok());
        assert!(Add.check_value(b"7 bytes").is_err() && Add.check_value(b"8 bytes.").is_ok());
        assert!(Add.full(b"k", Some(b"base"), &[b"8 bytes."]).is_err());
    }

    #[test]
    fn an_operator_that_is_missing_is_named() {
        let missing = TableOperator::find(Some("sum"), &Operators::new());
        let message = missing.full(b"k", None, &[b"1"]).unwrap_err().to_string();
        assert!(message.contains("'sum' is not registered"), "{message}");
        assert!(missing.check_value(b"8 bytes.").is_err(), "nobody can check the value");
        assert!(TableOperator::find(None, &Operators::new()).check_value(b"any").is_ok());
        let none = TableOperator::find(None, &Operators::new()).get().unwrap_err().to_string();
        assert!(none.contains("TableOptions::merge"), "{none}");
    }
}
