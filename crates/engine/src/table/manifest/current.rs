//! `CURRENT`: the file that names the manifest in force.

use std::path::Path;

use super::format::{FORMAT_VERSION, check_version, current_lines, current_sum};
use crate::base::num::usize_of;
use crate::base::{Error, FileId, Result};
use crate::env::{Access, Env, OpenOptions};
use crate::table::files::{self, FileKind};

/// The id of the manifest that `CURRENT` names; `None` when `CURRENT` does not exist.
///
/// # Errors
/// `Corruption`, `Unsupported` for a newer format, `Io`.
pub(super) fn in_force(env: &Env, dir: &Path) -> Result<Option<FileId>> {
    let path = dir.join(files::CURRENT);
    let Some(bytes) = read_file(env, &path)? else { return Ok(None) };
    let what = format!("it must hold 'spinney {FORMAT_VERSION}', the name of a manifest, and their checksum");
    let damaged = || Error::corruption(&path, 0, &what);
    let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
    let (version, name) = current_lines(text).ok_or_else(damaged)?;
    check_version(version, &path)?;
    match files::parse(name) {
        Some((FileKind::Manifest, id)) => Ok(Some(id)),
        _ => Err(damaged()),
    }
}

/// Puts manifest `id`, which is durable, in force.
pub(super) fn set_current(env: &Env, dir: &Path, id: FileId) -> Result<()> {
    let new = dir.join(files::CURRENT_NEW);
    let lines = format!("spinney {FORMAT_VERSION}\n{}", FileKind::Manifest.name(id));
    let text = format!("{lines}\n{}\n", current_sum(&lines));
    let wrong = |error| Error::io("write", &new, error);
    match env.fs.remove(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(wrong(error)),
        _ => {}
    }
    let file = env.fs.open(&new, OpenOptions { access: Access::CreateNew, direct: false });
    let file = file.map_err(|error| wrong(error).unchanged())?;
    file.write_at(text.as_bytes(), 0).and_then(|()| file.sync()).map_err(wrong)?;
    // The manifest's own directory entry must be durable before CURRENT can name it.
    env.fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
    let path = dir.join(files::CURRENT);
    env.fs.rename(&new, &path).map_err(|error| Error::io("replace", &path, error))?;
    env.fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
}

/// All bytes of a file; `None` when it does not exist.
pub(super) fn read_file(env: &Env, path: &Path) -> Result<Option<Vec<u8>>> {
    let wrong = |error| Error::io("read", path, error);
    let file = match env.fs.open(path, OpenOptions { access: Access::Read, direct: false }) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    let mut bytes = vec![0; usize_of(file.len().map_err(wrong)?)];
    let read = file.read_at(&mut bytes, 0).map_err(wrong)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}
