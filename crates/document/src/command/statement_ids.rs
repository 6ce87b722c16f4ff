//! The numbers of a command's statements, under which retryable writes are known.

use super::call::{Call, Reply};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorCode, Result};

/// The numbers of the statements: those of `stmtIds`, or those from `stmtId` on.
#[derive(Debug)]
pub(super) struct StatementIds {
    first: i32,
    listed: Option<Vec<i32>>,
}

impl StatementIds {
    /// The numbers of a command with so many statements.
    ///
    /// # Errors
    /// `InvalidOptions` (72) for both fields, or for another count of numbers.
    pub(super) fn of(call: &Call<'_>, count: usize) -> Result<Self> {
        let first = call.long("stmtId").map(|number| i32::try_from(number).unwrap_or_default());
        let listed: Option<Vec<i32>> = call.array("stmtIds").map(|ids| {
            ids.values().map(|id| id.as_exact_i64().and_then(|id| i32::try_from(id).ok()).unwrap_or_default()).collect()
        });
        let invalid = |what: String| Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        match &listed {
            Some(_) if first.is_some() => return invalid("May not specify both stmtId and stmtIds".to_owned()),
            Some(ids) if ids.len() != count => {
                let name = call.command.name;
                return invalid(format!("Number of statement ids must match the number of {name} statements"));
            }
            _ => {}
        }
        Ok(Self { first: first.unwrap_or(0), listed })
    }

    /// The number of the statement at a place.
    pub(super) fn get(&self, at: usize) -> i32 {
        match &self.listed {
            Some(ids) => ids.get(at).copied().unwrap_or(-1),
            None => i32::try_from(u64_of(at)).unwrap_or(i32::MAX).saturating_add(self.first),
        }
    }

    /// Appends `retriedStmtIds`, when there are any.
    pub(super) fn append_retried(&self, reply: &mut Reply, places: &[usize]) {
        if places.is_empty() {
            return;
        }
        reply.open_array("retriedStmtIds");
        places.iter().for_each(|at| {
            reply.push(self.get(*at));
        });
        reply.close();
    }
}
