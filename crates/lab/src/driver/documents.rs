//! What the lab asks of a document database, so that one workload runs on several.
//!
//! An engine with [`Engine::documents`](super::engine::Engine::documents) keeps collections in place of tables. Its
//! [`Client`](super::client::Client) answers [`documents`](super::client::Client::documents) with the operations below;
//! of the others it has the transactions alone. What an operation says is MongoDB's: each driver makes of it what a
//! program would write for its database.

use anyhow::Result;
use std::fmt;

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A 64-bit integer.
    Int(i64),
    /// A 64-bit IEEE 754 number.
    Double(f64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Milliseconds since 1970.
    Date(i64),
}

/// A field of a document: its name and value.
pub type Field<'a> = (&'static str, Value<'a>);

/// The order of an index's field, or of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The smallest value first.
    Ascending,
    /// The greatest value first.
    Descending,
}

/// An index of a collection.
#[derive(Clone, Copy, Debug)]
pub struct IndexSpec {
    /// Its name.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [(&'static str, Order)],
    /// Whether no two documents have the same values.
    pub unique: bool,
}

/// Which documents.
#[derive(Clone, Copy, Debug, Default)]
pub struct Condition<'a> {
    /// Fields that have these values.
    pub equal: &'a [Field<'a>],
    /// Those from these values on in the order of the result, compared one field after the other.
    pub from: &'a [Field<'a>],
    /// Those before this value of a field, in the order of the result.
    pub until: Option<Field<'a>>,
    /// Those of which a field has one of these values.
    pub any_of: Option<(&'static str, &'a [Value<'a>])>,
}

/// A query.
#[derive(Clone, Copy, Debug)]
pub struct Find<'a> {
    /// The collection.
    pub collection: &'static str,
    /// Which documents.
    pub which: Condition<'a>,
    /// The fields by which the result is ordered; any order when there is none.
    pub sorted_by: &'a [&'static str],
    /// The order of all of them.
    pub order: Order,
    /// The fields that are asked for; whole documents when there is none.
    pub shown: &'a [&'static str],
    /// How many of the first are left out.
    pub skip: u64,
    /// How many follow at most.
    pub limit: u64,
}

/// A change of the first document that meets a condition.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The collection.
    pub collection: &'static str,
    /// Which document.
    pub which: Condition<'a>,
    /// Fields that get these values.
    pub set: &'a [Field<'a>],
    /// Numbers that are added to fields.
    pub add: &'a [(&'static str, i64)],
    /// When no document meets the condition: whether one is inserted, with the fields of the condition, of the change
    /// and these.
    pub or_insert: Option<&'a [Field<'a>]>,
}

/// A document that was found, or the part of it that was asked for.
pub trait Found {
    /// Its bytes, in the database's form.
    fn bytes(&self) -> usize;

    /// The value of a field at the top that is an integer or a date; of one that was asked for, if there was a choice.
    fn int(&self, field: &str) -> Option<i64>;
}

/// The operations of a document database, of one thread. Each is a commit of its own, but for those in a transaction.
pub trait Documents {
    /// Makes a collection unless it is there.
    ///
    /// # Errors
    /// What the database says.
    fn create(&mut self, collection: &'static str) -> Result<()>;

    /// Makes indexes of a collection.
    ///
    /// # Errors
    /// What the database says.
    fn create_indexes(&mut self, collection: &'static str, indexes: &[IndexSpec]) -> Result<()>;

    /// Inserts documents in one commit, or as few as the database has for them.
    ///
    /// # Errors
    /// What the database says, also when one of them is there already. A conflict in a transaction is [`Conflict`].
    fn insert(&mut self, collection: &'static str, documents: &[&[Field<'_>]]) -> Result<()>;

    /// Calls `visit` with the documents that a query finds; returns how many there were.
    ///
    /// # Errors
    /// What the database says.
    fn find(&mut self, find: &Find<'_>, visit: &mut dyn FnMut(&dyn Found)) -> Result<u64>;

    /// Changes a document, or inserts it; returns how many documents met the condition.
    ///
    /// # Errors
    /// What the database says. A conflict in a transaction is [`Conflict`].
    fn update(&mut self, update: &Update<'_>) -> Result<u64>;

    /// Deletes the documents that meet a condition, of which there is one or, with `many`, may be many; returns how
    /// many there were.
    ///
    /// # Errors
    /// What the database says. A conflict in a transaction is [`Conflict`].
    fn delete(&mut self, collection: &'static str, which: &Condition<'_>, many: bool) -> Result<u64>;

    /// How many documents meet a condition.
    ///
    /// # Errors
    /// What the database says.
    fn count(&mut self, collection: &'static str, which: &Condition<'_>) -> Result<u64>;

    /// Groups all documents by a field, and in each group counts them and adds up another field; returns how many
    /// groups there were.
    ///
    /// # Errors
    /// What the database says.
    fn group(&mut self, collection: &'static str, by: &'static str, sum: &'static str) -> Result<u64>;

    /// Opens a change stream over all collections, from now on.
    ///
    /// # Errors
    /// [`Lacks`](super::lacks::Lacks), or what the database says.
    fn watch(&mut self) -> Result<()>;

    /// Reads the events of the stream that are there; returns how many there were.
    ///
    /// # Errors
    /// What the database says; that no stream is open.
    fn events(&mut self) -> Result<u64>;
}

/// Another transaction was first. This one is to be rolled back, and may be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict;

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another transaction was first")
    }
}

impl std::error::Error for Conflict {}

impl<'a> Condition<'a> {
    /// The documents with these values of fields.
    #[must_use]
    pub const fn equal(fields: &'a [Field<'a>]) -> Self {
        Self { equal: fields, from: &[], until: None, any_of: None }
    }

    /// The value of `_id` when that is all that is asked for.
    #[must_use]
    pub fn id(&self) -> Option<Value<'a>> {
        match self {
            Self { equal: [("_id", id)], from: [], until: None, any_of: None } => Some(*id),
            _ => None,
        }
    }
}

impl<'a> Find<'a> {
    /// All whole documents that meet a condition, in any order.
    #[must_use]
    pub const fn new(collection: &'static str, which: Condition<'a>) -> Self {
        Self { collection, which, sorted_by: &[], order: Order::Ascending, shown: &[], skip: 0, limit: u64::MAX }
    }
}
