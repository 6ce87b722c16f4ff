//! Tables whose keys and values have types.

mod codec;
mod table;

pub use codec::{KeyCodec, KeyFor, ValueCodec, ValueFor};
pub use table::{TypedRange, TypedTable};
