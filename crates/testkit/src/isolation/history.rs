//! A history: transactions, their steps, and how they ended.

/// A key.
pub type Key = u64;
/// What was written; no two writes of a history have the same.
pub type Id = u64;

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It appended to a list.
    Append(Key, Id),
    /// It gave a register a value.
    Put(Key, Id),
    /// It read the items of a list, or the value of a register if it has one.
    Read(Key, Vec<Id>),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is durable and visible.
    Committed,
    /// It has done nothing.
    Aborted,
    /// A crash came between: it is committed if anybody has seen any of it, and then whole.
    Unknown,
}

/// A transaction of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn {
    /// When it began, in the order of all begins and ends.
    pub begun: u64,
    /// When its end was known.
    pub ended: u64,
    /// What it did.
    pub steps: Vec<Step>,
    /// What became of it.
    pub end: End,
}
