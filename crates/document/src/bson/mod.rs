//! BSON: documents read in place, built, compared, hashed, and as extended JSON.
//!
//! - Read: [`Document::parse`] checks bytes once; [`Document`], [`Array`] and [`Value`] then borrow from them and are
//!   cheap to copy. `document.get("a")` finds a field by its name, `document.elements()` walks over [`Element`]s,
//!   `array.values()` over values; [`Fields`] is for many lookups in one document. Names and strings are [`Text`],
//!   bytes that are UTF-8 nearly always.
//! - Own: [`DocumentBuf`] and [`ValueBuf`]; `.view()` gives the borrowed form, `ValueBuf::from(value)` the owned one.
//! - Build: [`DocumentBuilder`] appends to one buffer; the macro [`doc!`](crate::doc) is short for small documents.
//! - Compare: [`compare`] is MongoDB's order over values of all types, [`equal`] its equality, [`hash`] agrees with
//!   both; [`compare_documents`] and [`compare_numbers`] likewise. [`Kind`] is a value's type, [`Class`] what types
//!   are compared as.
//! - Numbers: [`Decimal128`] parses, prints and computes as IEEE 754 says, with 34 digits; [`number`] has the exact
//!   comparison and the conversions between the four number types.
//! - Text: [`Document::to_json`], [`Document::to_canonical_json`] and [`DocumentBuf::from_json`] are extended JSON 2.

pub mod buf;
pub mod builder;
pub mod convert;
pub mod date;
pub mod decimal;
pub mod depth;
mod field_list;
pub mod fields;
pub mod json;
pub mod kind;
pub mod number;
pub mod object_id;
pub mod order;
pub mod text;
pub mod validate;
pub mod view;

pub use buf::{DocumentBuf, ValueBuf};
pub use builder::DocumentBuilder;
pub use convert::DateTime;
pub use decimal::Decimal128;
pub(crate) use field_list::{FieldList, first_repeated};
pub use fields::{Fields, is_reference, is_reference_field, may_be_in_path};
pub use kind::{Class, Kind};
pub use number::{compare_numbers, long_of};
pub use object_id::{ObjectId, ObjectIds};
pub use order::{TextOrder, compare, compare_by, compare_documents, equal, hash};
pub use text::Text;
pub use validate::{Checks, DEPTH_MAX, DOCUMENT_BYTES_MAX, MESSAGE_DEPTH_MAX};
pub use view::{Array, ArrayValues, CodeWithScope, DbPointer, Document, Element, Elements, Regex, Timestamp, Value};
