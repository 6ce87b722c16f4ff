//! The statements of a command that a replica set agrees on together, in one commit in place of one for each.
//!
//! Each statement of `update`, `delete` and `bulkWrite` is a transaction of its own. Several may be one as well, which
//! the set agrees on once; that nobody sees some of them without the others, nobody may rely on. When one of them fails
//! nothing is committed, and they run one after the other: those before it are done, and it alone is refused.

use std::ops::Range;

use super::call::Call;
use super::statement_ids::StatementIds;
use super::written::{Written, ends_command};
use crate::base::{ErrorCode, Result};
use crate::collection::{Collection, DocumentTransaction};
use crate::notes::Outcome;
use crate::session::Scope;

/// The most statements of one commit.
pub(super) const TOGETHER_MAX: usize = 256;

/// What statements did that were done together, and whether that was before.
pub(super) type Together = Vec<(Outcome, bool)>;

/// Whether statements of a command that change one document each may be done together: where each commit is agreed on,
/// outside of a transaction.
pub(super) fn may_be_together(call: &Call<'_>) -> bool {
    call.state.database.catalog().committer().is_some() && !matches!(call.scoped.scope, Scope::Within(_))
}

/// Runs the statements of a range in one commit; nothing when they have to run one after the other, as nothing is done.
///
/// # Errors
/// Those of the commit, and those that end a command.
pub(super) fn run_together(
    target: &Written<'_, '_>,
    ids: &StatementIds,
    places: Range<usize>,
    creates: bool,
    mut statement: impl FnMut(&mut DocumentTransaction, &Collection, usize) -> Result<Outcome>,
) -> Result<Option<Together>> {
    let collection = match target.collection(creates) {
        Ok(Some(collection)) if collection.state().capped.is_none() => collection,
        // What is wrong with it is told for each statement.
        _ => return Ok(None),
    };
    let statements: Vec<(usize, i32)> = places.map(|at| (at, ids.get(at))).collect();
    let mut refused = false;
    let done = target.call.scoped.scope.run_several(&collection, target.options, &statements, |txn, at| {
        target.call.check()?;
        statement(txn, &collection, at).inspect_err(|error| refused |= !error.is_conflict())
    });
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if ends_command(target.call, &error) => Err(error),
        Err(error) if refused || error.is_conflict() || error.code() == ErrorCode::TRANSACTION_TOO_LARGE => Ok(None),
        Err(error) => Err(error),
    }
}
