//! The merge operators of the tables, as the engine gets them and as the model computes them.

use spinney::tree::operator::Add;
use spinney::{MergeOperator, Result};

/// Appends operands to the value. Makes one operand of several when their length is even, so that both cases happen.
#[derive(Clone, Copy, Debug)]
pub struct Append;

/// The name that tables know [`Append`] by.
pub const APPEND: &str = "append";

impl MergeOperator for Append {
    fn full(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }

    fn partial(&self, _key: &[u8], operands: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        Ok(Some(operands.concat()).filter(|operand| operand.len().is_multiple_of(2)))
    }
}

/// Adds numbers as the built-in operator `add` does, but takes values of any length: beside its counters, which are the
/// only keys with operands, a table has keys with values of all kinds.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

/// The name that tables know [`Sum`] by.
pub const SUM: &str = "sum";

impl MergeOperator for Sum {
    fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Add.full(key, base, operands)
    }

    fn partial(&self, key: &[u8], operands: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        Add.partial(key, operands)
    }

    fn check(&self, operand: &[u8]) -> Result<()> {
        Add.check(operand)
    }
}

/// Whether a table adds numbers; the others append.
#[must_use]
pub fn adds(table: usize) -> bool {
    !table.is_multiple_of(2)
}
