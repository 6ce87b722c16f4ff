//! What to do about a database that cannot be opened because it is damaged.

use std::error::Error as _;
use std::io;
use std::path::Path;

use crate::base::{Error, ErrorKind};

/// The error of what names the files, with advice if it is damage.
pub(super) fn of_manifest(error: Error, dir: &Path) -> Error {
    match error.kind() {
        ErrorKind::Corruption => error
            .advice(format_args!("to go on with its copy or another manifest, run spinney salvage {}", dir.display())),
        _ => error,
    }
}

/// The error of the trees, with advice if one is damaged or its file is missing.
pub(super) fn of_trees(error: Error, dir: &Path) -> Error {
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let is_missing = cause.is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound);
    if error.kind() != ErrorKind::Corruption && !is_missing {
        return error;
    }
    error.advice(format_args!("to copy what can be read, run spinney salvage {} OUT", dir.display()))
}
