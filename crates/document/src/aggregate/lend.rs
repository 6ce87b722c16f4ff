//! Rows that are lent to a stage, one after the other: no copy is made of what the stage only looks at.

use std::fmt;

use crate::base::Result;
use crate::bson::{Document, DocumentBuf};
use crate::keys::Direction;
use crate::path::Path;

/// A row as it is lent.
#[derive(Clone, Copy, Debug)]
pub enum Lent<'l> {
    /// A document, perhaps with more fields than the pipeline needs.
    Document(Document<'l>),
    /// The key that an index has of a document.
    Key(KeyRow<'l>),
}

/// The key that an index has of a document.
#[derive(Clone, Copy)]
pub struct KeyRow<'l> {
    /// The fields, behind which something else may follow.
    pub fields: &'l [u8],
    /// Their type bits.
    pub types: &'l [u8],
    /// Reads the document.
    pub document: &'l dyn Fn() -> Result<DocumentBuf>,
}

impl fmt::Debug for KeyRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRow").field("fields", &self.fields).field("types", &self.types).finish_non_exhaustive()
    }
}

/// What is done with a lent row; whether more are wanted.
pub type Take<'t> = dyn FnMut(Lent<'_>) -> Result<bool> + 't;

/// Lends rows.
pub trait Lender: fmt::Debug + Send {
    /// The fields of the index by which the rows are found, when its keys have all that the pipeline needs of them, but
    /// that null in a key may stand for a missing field. The paths have no positions of arrays, and none of the
    /// documents has an array in them.
    fn key_fields(&self) -> Option<Vec<(Path, Direction)>>;

    /// Lends the next rows, until `take` wants no more; whether there may be more. With `keys`, where there are
    /// [`Self::key_fields`], they are keys.
    ///
    /// # Errors
    /// Those of reading and of `take`.
    fn lend(&mut self, keys: bool, take: &mut Take<'_>) -> Result<bool>;
}
