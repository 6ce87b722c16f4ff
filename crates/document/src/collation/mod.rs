//! Collations: strings compared by the rules of a language, as MongoDB's `collation` documents ask for.
//!
//! [`Collation::parse`] reads such a document strictly and gives its comparison, [`Collation::compare`]. Where bytes
//! are needed that are in that order, in indexes and groups, a value is replaced by [`Collation::key_of`] it: the same
//! value with sort keys in the place of its strings. The functions of this module take an optional collation; without
//! one, strings are compared by their bytes.
//!
//! The rules come from ICU4X. Sort keys are stored in indexes, so its version is pinned, and a test pins their bytes.

pub mod collator;
mod locales;
pub mod options;

use std::cmp::Ordering;
use std::hash::Hasher;

use crate::bson::{self, Value};

pub use collator::{Collated, Collation, collation_key, has_text};
pub use options::CollationOptions;

/// The version of the rules by which sort keys are made, that of ICU4X. The catalog keeps it beside what holds sort
/// keys: it is to change whenever the test fails that pins their bytes.
pub const SORT_KEYS: &str = "ICU4X 2.4";

/// The order of two values.
#[inline]
#[must_use]
pub fn compare(collation: Option<&Collation>, a: &Value<'_>, b: &Value<'_>) -> Ordering {
    match collation {
        None => bson::compare(a, b),
        Some(collation) => collation.compare(a, b),
    }
}

/// Whether two values are equal.
#[inline]
#[must_use]
pub fn equal(collation: Option<&Collation>, a: &Value<'_>, b: &Value<'_>) -> bool {
    compare(collation, a, b).is_eq()
}

/// Feeds a value to a hasher such that equal values give equal hashes.
pub fn hash(collation: Option<&Collation>, value: &Value<'_>, state: &mut impl Hasher) {
    match collation.and_then(|collation| collation.key_of(value)) {
        None => bson::hash(value, state),
        Some(key) => bson::hash(&key.view(), state),
    }
}
