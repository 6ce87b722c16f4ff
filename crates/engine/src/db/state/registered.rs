//! What the program has registered under names.

use crate::tree::compaction_filter::CompactionFilters;
use crate::tree::operator::{self, Operators};

use super::events::Events;

/// What the program has registered for its tables to name.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) operators: Operators,
    pub(crate) filters: CompactionFilters,
    pub(crate) events: Events,
}

impl Default for Registered {
    fn default() -> Self {
        Self { operators: operator::built_in(), filters: CompactionFilters::new(), events: Events::default() }
    }
}
