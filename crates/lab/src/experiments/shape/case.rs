//! One data set with one fanout.

use super::params::Shape;
use crate::command::common::Common;

/// One data set with one fanout.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) args: &'a Shape,
    pub(super) common: &'a Common,
    pub(super) values: u64,
    pub(super) fanout: u32,
}

impl Case<'_> {
    /// What the names of steps begin with, where there is more than one case.
    pub(super) fn prefix(&self) -> String {
        if self.args.values.len() * self.args.fanout.len() == 1 {
            return String::new();
        }
        format!("{} f{} ", short(self.values), self.fanout)
    }
}

/// A count as people write it: `10M`.
pub(super) fn short(count: u64) -> String {
    match count {
        count if count > 0 && count.is_multiple_of(1_000_000) => format!("{}M", count / 1_000_000),
        count if count > 0 && count.is_multiple_of(1_000) => format!("{}K", count / 1_000),
        count => count.to_string(),
    }
}
