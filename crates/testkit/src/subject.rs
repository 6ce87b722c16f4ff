//! What the engine and the model have in common: operations can be applied to them.

use crate::ops::Op;
use crate::outcome::Outcome;

/// Something that operations can be applied to.
pub trait Subject {
    /// Applies an operation.
    fn apply(&mut self, op: &Op) -> Outcome;
}
