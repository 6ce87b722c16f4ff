//! What an operator makes of a value, and what it needs to know for that.

use crate::bson::{Document, ValueBuf};
use crate::collation::Collation;

/// What becomes of a value.
#[derive(Debug)]
pub(super) enum Outcome {
    Keep,
    New(ValueBuf),
    Gone,
}

/// What operators need to know beside the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'u> {
    /// The whole document, for messages.
    pub(super) document: Document<'u>,
    /// How strings are compared.
    pub(super) collation: Option<&'u Collation>,
}
