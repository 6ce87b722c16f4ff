//! The compaction filter of the tables, whose work no reader must see.
//!
//! In a table with the filter a key is not deleted but gets a *doomed* value: to every reader it has none. The filter
//! removes such values, or makes shorter ones of them, whenever it is asked; so every history is that of a table
//! without it.

use spinney::{CompactionFilter, Decision, Value};

/// What doomed values begin with, and no other value does.
const DOOMED: &[u8] = b"doomed by the filter";

/// The name that tables know [`RemoveDoomed`] by.
pub const REMOVE: &str = "remove-doomed";

/// Removes short doomed values, and makes the long ones short.
#[derive(Clone, Copy, Debug)]
pub struct RemoveDoomed;

impl CompactionFilter for RemoveDoomed {
    fn filter(&self, _key: &[u8], value: &[u8]) -> Decision {
        match value.strip_prefix(DOOMED) {
            Some([]) => Decision::Remove,
            Some(_) => Decision::Change(DOOMED.to_vec()),
            None => Decision::Keep,
        }
    }
}

/// The value that a key gets instead of being deleted: a long one for half of the keys.
#[must_use]
pub fn doomed(key: &[u8]) -> Vec<u8> {
    let rest = if key.last().is_some_and(|last| last % 2 == 0) { 200 } else { 0 };
    [DOOMED, &vec![b'.'; rest]].concat()
}

/// Whether a value is doomed.
#[must_use]
pub fn is_doomed(value: &[u8]) -> bool {
    value.starts_with(DOOMED)
}

/// What readers make of a value.
#[must_use]
pub fn shown(value: Option<Value>) -> Option<Vec<u8>> {
    value.filter(|value| !is_doomed(value)).map(Vec::from)
}
