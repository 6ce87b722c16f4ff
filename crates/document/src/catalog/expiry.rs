//! After how many seconds documents expire: the one check of the values, for every way in which they come.

use crate::bson::Value;

/// The most seconds of an index.
pub const INDEX_SECONDS_MAX: i64 = i32::MAX as i64;

/// The most seconds of a collection: as many as can be counted in milliseconds.
pub const COLLECTION_SECONDS_MAX: i64 = i64::MAX / 1000;

/// The value of `expireAfterSeconds`, of which the fraction is dropped.
///
/// # Errors
/// What is wrong with a value that is no number, NaN, below 0 or above `most`: no value is made to fit, as one that is
/// taken for 0 has all documents removed.
pub fn seconds_of(value: &Value<'_>, most: i64) -> Result<i64, String> {
    let number = value.as_number().filter(|number| !number.is_nan()).and_then(|number| number.trunc_to_i64());
    number
        .filter(|seconds| (0..=most).contains(seconds))
        .ok_or_else(|| format!("'expireAfterSeconds' must be a number of seconds from 0 to {most}, it is {value}"))
}
