//! What a transaction has written of one key.

use crate::base::num::u64_of;
use crate::base::{Kind, Result, Value};
use crate::tree::operator::TableOperator;

/// Memory that a change takes beside its key and value.
const CHANGE_OVERHEAD_BYTES: u64 = 32;

/// The changes of one key that are still of account, in their order.
#[derive(Clone, Debug)]
pub(crate) struct KeyWrites {
    /// A single-delete comes before `first`: it is for a put of an earlier commit, and `first` is a put of its own.
    single: bool,
    first: (Kind, Vec<u8>),
    /// All of them operands.
    more: Vec<Vec<u8>>,
}

impl KeyWrites {
    pub(crate) fn new(kind: Kind, value: &[u8]) -> Self {
        Self { single: false, first: (kind, value.to_vec()), more: Vec::new() }
    }

    /// Adds a change. What hides the ones before takes their place.
    pub(crate) fn push(&mut self, kind: Kind, value: &[u8]) {
        match kind {
            Kind::Merge => self.more.push(value.to_vec()),
            Kind::Put | Kind::PutPointer => {
                let single = self.single || self.first.0 == Kind::SingleDelete;
                *self = Self { single, ..Self::new(kind, value) };
            }
            // It goes with a put made here, or with one of an earlier commit.
            Kind::SingleDelete if self.first.0 != Kind::Delete => *self = Self::new(kind, value),
            Kind::Delete | Kind::SingleDelete | Kind::RangeDelete => *self = Self::new(Kind::Delete, value),
        }
    }

    /// Bytes of memory that a change with such a value takes beside the key.
    pub(crate) fn bytes_of(value: &[u8]) -> u64 {
        u64_of(value.len()) + CHANGE_OVERHEAD_BYTES
    }

    /// Bytes of memory of all changes, beside the key.
    pub(crate) fn bytes(&self) -> u64 {
        self.iter().skip(usize::from(self.single)).map(|(_, value)| Self::bytes_of(value)).sum()
    }

    /// The changes in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Kind, &[u8])> {
        let more = self.more.iter().map(|operand| (Kind::Merge, &**operand));
        let single = self.single.then_some((Kind::SingleDelete, &b""[..]));
        single.into_iter().chain([(self.first.0, &*self.first.1)]).chain(more)
    }

    /// Whether the key's value follows from what is below: of the changes all are operands.
    pub(crate) fn shows_below(&self) -> bool {
        self.first.0 == Kind::Merge
    }

    /// Whether the key is gone after the changes.
    pub(crate) fn removes(&self) -> bool {
        let is_removal = matches!(self.first.0, Kind::Delete | Kind::SingleDelete | Kind::RangeDelete);
        is_removal && self.more.is_empty()
    }

    /// What the key has after the changes, where the snapshot shows `below` under it.
    ///
    /// # Errors
    /// Those of `below`, and what the operator says when there are operands.
    pub(crate) fn over(
        &self,
        key: &[u8],
        below: impl FnOnce() -> Result<Option<Value>>,
        operator: &TableOperator,
    ) -> Result<Option<Value>> {
        let (kind, value) = &self.first;
        let base = match kind {
            Kind::Put | Kind::PutPointer => Some(Value::owned(value)),
            Kind::Delete | Kind::SingleDelete | Kind::RangeDelete => None,
            Kind::Merge => below()?,
        };
        let first = (*kind == Kind::Merge).then_some(value);
        let operands: Vec<&[u8]> = first.into_iter().chain(&self.more).map(Vec::as_slice).collect();
        if operands.is_empty() {
            return Ok(base);
        }
        operator.full(key, base.as_deref(), &operands).map(|value| Some(Value::owned(&value)))
    }
}
