//! What `$out` and `$merge` ask of the storage.

use crate::bson::ValueBuf;

/// What a pipeline writes with its last stage.
#[derive(Debug)]
pub enum Output<'o> {
    /// `$out`: the documents replace the collection.
    Replace,
    /// `$merge`: each document is merged into the collection.
    Merge(&'o Merge),
}

/// What `$merge` does with a document.
#[derive(Debug)]
pub struct Merge {
    /// The fields that identify a document; a unique index must have them.
    pub on: Vec<String>,
    /// What happens when there is such a document.
    pub matched: WhenMatched,
    /// What happens when there is none.
    pub not_matched: WhenNotMatched,
    /// The variables of `let`, as expressions over the new document; without it, `new` is the document.
    pub variables: Option<ValueBuf>,
}

/// What `$merge` does when there is a document.
#[derive(Debug)]
pub enum WhenMatched {
    /// It is replaced.
    Replace,
    /// It stays.
    KeepExisting,
    /// The new fields are merged into it.
    Merge,
    /// The command fails.
    Fail,
    /// It is updated by a pipeline, an array of stages.
    Pipeline(ValueBuf),
}

/// What `$merge` does when there is no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// The new one is inserted.
    Insert,
    /// The new one is dropped.
    Discard,
    /// The command fails.
    Fail,
}
