//! Values that are there twice.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::bson::{Value, hash};

/// The first of some values that is equal to one before it. Equal values have equal hashes; each value is compared with
/// those of its hash alone.
pub(super) fn repeated<'v>(
    values: impl IntoIterator<Item = Value<'v>>,
    hash: impl Fn(&Value<'v>, &mut dyn Hasher),
    equal: impl Fn(&Value<'v>, &Value<'v>) -> bool,
) -> Option<Value<'v>> {
    let (state, mut seen) = (RandomState::new(), HashMap::<u64, Vec<Value<'v>>>::new());
    values.into_iter().find(|value| {
        let mut hasher = state.build_hasher();
        hash(value, &mut hasher);
        let alike = seen.entry(hasher.finish()).or_default();
        let again = alike.iter().any(|other| equal(other, value));
        alike.push(*value);
        again
    })
}

/// Adds a value to a hash in which the order of fields in documents does not count.
pub(super) fn hash_unordered(value: &Value<'_>, mut state: &mut dyn Hasher) {
    match value {
        Value::Document(document) => {
            // The same whatever the order is; how many there are is in it, as each adds an odd number.
            let mut sum = 0_u64;
            for element in *document {
                let mut of_field = Fields(0xCBF2_9CE4_8422_2325);
                of_field.write(element.name.as_bytes());
                hash_unordered(&element.value, &mut of_field);
                sum = sum.wrapping_add(of_field.finish() | 1);
            }
            state.write_u64(sum);
        }
        Value::Array(array) => array.values().for_each(|value| hash_unordered(&value, state)),
        value => hash(value, &mut state),
    }
}

/// Hashes a field within a document (FNV-1a), whose sum is hashed with a secret then.
struct Fields(u64);

impl Hasher for Fields {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
