//! Keys: values as bytes whose order is the order of values, and the keys that an index has of a document.
//!
//! [`encode`] and [`decode`] are the encoding, [`types`] what the order leaves out (the types of numbers). A
//! [`KeyPattern`] says which fields an index has; [`extract()`] finds their keys in a document, several where the
//! document has arrays.

pub mod decode;
pub mod encode;
pub mod extract;
pub mod hashed;
pub mod key_set;
mod number;
pub mod pattern;
mod sink;
pub mod types;
mod wildcard;

pub use decode::{decode_field, decode_number, field_len, skip_field};
pub use encode::{append, encode_id};
pub use extract::extract;
pub use key_set::{Key, KeySet};
pub use pattern::{Direction, FieldKind, KeyField, KeyPattern};
pub use types::{TypeBits, TypeReader};
pub use wildcard::wildcard_takes;
