//! Value files: large values of runs, apart from their keys, so that a compaction moves pointers and not the values.
//!
//! A flush, and a bulk load, write each put with a large value to a value file ([`ValueBuilder`]) and an entry of
//! [`Kind::PutPointer`](crate::base::Kind::PutPointer) to the run, which holds a [`ValuePointer`] instead of the value.
//! Cursors and lookups show the pointer; [`ValueFiles`] reads what it points to, when a reader wants the value.
//! (WiscKey, Lu et al. 2016; integrated BlobDB of RocksDB.)
//!
//! # Format
//! A value file is frames of raw blocks ([`crate::block::frame`]) back to back, and nothing else: each block is one
//! value, compressed by itself where that pays. The entries that point to them alone say where they are.
//!
//! # Invariants
//! 1. A value file does not change after the runs that refer to it were shown to readers.
//! 2. Of each value file that a run's entries point into, the run's meta says how many bytes these values take
//!    ([`Reference`](super::run::Reference)). The sum over all runs of the table are the file's live bytes; a file to
//!    which no run refers is removed.
//! 3. The run holds the files open, so a reader of a version can read its values, also when the files are removed
//!    before it does.

mod builder;
mod file;
mod pointer;
mod set;
#[cfg(test)]
mod tests;

pub use builder::ValueBuilder;
pub use file::ValueFile;
pub use pointer::ValuePointer;
pub use set::ValueFiles;
