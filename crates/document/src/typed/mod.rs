//! Collections of Rust types: documents are values of a type that serde reads and writes.
//!
//! [`Database::typed`](crate::Database::typed) gives a [`TypedCollection`]. Filters and updates are documents, as of
//! the macro [`doc!`](crate::doc), or built of [`field`]s and [`update`]s.

pub mod collection;
pub mod condition;
pub mod find;
pub mod within;

pub use collection::TypedCollection;
pub use condition::{Change, Condition, IntoDocument, all, any, field, none, update};
pub use find::{Documents, Find};
pub use within::Within;
