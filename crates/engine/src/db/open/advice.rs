//! What to do about a database that cannot be opened because it is damaged.

use std::error::Error as _;
use std::io;
use std::path::Path;

use crate::base::{Error, ErrorKind};
use crate::env::Env;
use crate::table::manifest::{LoadedManifest, Manifest};

/// The error of what names the files, with advice if it is damage: the salvage that does not refuse it.
pub(super) fn of_manifest(error: Error, env: &Env, dir: &Path) -> Error {
    if error.kind() != ErrorKind::Corruption {
        return error;
    }
    let at = dir.display();
    match Manifest::load_damaged(env, dir) {
        Ok(Some(LoadedManifest { damage: Some(damage), .. })) if !damage.is_mended => error.advice(format_args!(
            "to copy what can be read by its copy or another manifest, run spinney salvage {at} OUT"
        )),
        Ok(Some(_)) => {
            error.advice(format_args!("to go on with its copy or another manifest, run spinney salvage {at}"))
        }
        _ => error.advice("no copy and no other manifest can be read: go back to a checkpoint or a dump"),
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
