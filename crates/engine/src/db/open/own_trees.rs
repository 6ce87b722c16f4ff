//! A database that is to be written has the files of its B-trees for itself.
//!
//! A checkpoint can share the files of B-trees with an earlier one ([`crate::db::maintenance::checkpoint_base`]). Runs
//! never change; but a B-tree's file is written in place, so a database that is opened to be written first replaces
//! each that has another name by a copy.
//!
//! # Recovery
//! A copy gets the name of a file that the manifest does not name, is durable before it takes the place of the shared
//! one, and that is durable before anything is written. A crash on the way leaves the shared file in place.

use std::path::Path;

use crate::base::{Error, FileId, Result};
use crate::db::maintenance::file_copy::{copy, open_file};
use crate::env::{Access, Env};
use crate::table::catalog::Catalog;
use crate::table::files::FileKind;

/// Replaces shared files of B-trees by copies; `unused` is the id of no file.
pub(super) fn own_trees(env: &Env, dir: &Path, catalog: &Catalog, unused: FileId) -> Result<()> {
    let trees = catalog.tables.values().filter_map(|table| table.tree.as_ref());
    let written = trees.filter(|(_, meta)| !meta.is_unwritten());
    let paths = written.map(|(id, _)| FileKind::Tree.path(dir, *id));
    // Where it is not known how many names a file has, none is given a second one.
    let shared: Vec<_> = paths.filter(|path| env.fs.link_count(path).is_ok_and(|count| count > 1)).collect();
    for path in &shared {
        let new = FileKind::Tree.path(dir, unused);
        let source = open_file(env, path, Access::Read)?;
        let made = copy(env, &*source, (path, &new), 0, &[])
            .and_then(|_| env.fs.rename(&new, path).map_err(|error| Error::io("rename", &new, error)));
        made.inspect_err(|_| drop(env.fs.remove(&new)))?;
    }
    if !shared.is_empty() {
        env.fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
    }
    Ok(())
}
