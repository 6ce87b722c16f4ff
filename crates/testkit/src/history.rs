//! Histories: operations with their outcomes, told by two subjects that must agree.

use crate::engine::Engine;
use crate::model::Model;
use crate::ops::Op;
use crate::outcome::Outcome;
use crate::subject::Subject;
use std::fmt::{self, Write as _};

/// The first operation in which the engine was not the model.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// The operation's position in the list.
    pub index: usize,
    /// The operation.
    pub op: Op,
    /// What the model gave.
    pub expected: Outcome,
    /// What the engine gave.
    pub found: Outcome,
    /// All lines before.
    pub history: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}operation {}: {}", self.history, self.index, self.op)?;
        writeln!(f, "  expected {}", self.expected)?;
        write!(f, "  found    {}", self.found)
    }
}

/// Applies operations to both and tells what they gave, one line each.
///
/// # Errors
/// The first operation in which they differ.
pub fn compare(ops: &[Op], model: &mut Model, engine: &mut Engine) -> Result<String, Box<Divergence>> {
    let mut history = String::new();
    for (index, op) in ops.iter().enumerate() {
        let (expected, found) = (model.apply(op), engine.apply(op));
        if expected != found {
            return Err(Box::new(Divergence { index, op: op.clone(), expected, found, history }));
        }
        writeln!(history, "{index:4} {op} -> {found}").expect("a String takes any text");
    }
    Ok(history)
}

/// A shorter list of operations that still fails, found by leaving out ever smaller parts.
pub fn shorten<T: Clone>(ops: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut best = ops.to_vec();
    let mut part = best.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < best.len() {
            let end = (at + part).min(best.len());
            let candidate = [&best[..at], &best[end..]].concat();
            if fails(&candidate) {
                best = candidate;
            } else {
                at = end;
            }
        }
        part /= 2;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortening_keeps_only_what_fails() {
        let ops: Vec<_> = (0..100).map(Op::Flush).collect();
        let fails = |ops: &[Op]| ops.contains(&Op::Flush(17)) && ops.contains(&Op::Flush(71));
        assert_eq!(shorten(&ops, fails), [Op::Flush(17), Op::Flush(71)]);
    }
}
