//! What an operator makes of a value.

use crate::bson::ValueBuf;

/// What becomes of a value.
#[derive(Debug)]
pub(super) enum Outcome {
    Keep,
    New(ValueBuf),
    Gone,
}
