//! The manifest in force: it is created from a catalog, and appended to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::current::{self, read_file, set_current};
use super::format::{FRAME_HEADER_BYTES, HEADER_BYTES, check_header, frame_at, header, identity, put_frame};
use super::load::{self, Files, LoadedManifest, read_files};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, FileId, Result};
use crate::env::{Access, Env, File, OpenOptions};
use crate::table::catalog::Catalog;
use crate::table::edit::Edit;
use crate::table::files::FileKind;

/// A manifest longer than this, and than four times its first frame, is rewritten.
const REWRITE_BYTES: u64 = 1 << 20;
/// Bytes reserved behind the manifest's end, so that edits which give space back can be written on a full disk.
pub const RESERVE_BYTES: u64 = 64 << 10;

/// The manifest in force, open for appending.
#[derive(Debug)]
pub struct Manifest {
    file: Arc<dyn File>,
    path: PathBuf,
    id: FileId,
    identity: u64,
    end: u64,
    /// There is space for the bytes before it, also on a full disk.
    reserved_to: u64,
    /// When it is longer, a new one is due.
    long_from: u64,
    /// The second file; `None` since a write to it failed.
    copy: Option<Arc<dyn File>>,
}

impl Manifest {
    /// Writes a new manifest that begins with `catalog`, makes it durable, and puts it in force.
    ///
    /// # Errors
    /// `Io` or `Full`. The old manifest is then still in force, or the new one is: both tell the same.
    pub fn create(env: &Env, dir: &Path, id: FileId, catalog: &Catalog) -> Result<Self> {
        let path = FileKind::Manifest.path(dir, id);
        let file = env
            .fs
            .open(&path, OpenOptions { access: Access::CreateNew, direct: false })
            .map_err(|error| Error::io("create", &path, error).unchanged())?;
        let identity = identity(catalog.database_id, id);
        let mut bytes = header(catalog.database_id);
        let mut payload = Vec::new();
        catalog.encode(&mut payload);
        put_frame(&mut bytes, identity, u64_of(HEADER_BYTES), &payload);
        let end = u64_of(bytes.len());
        let long_from = REWRITE_BYTES.max(4 * end);
        let mut manifest = Self { file, path, id, identity, end, reserved_to: end, long_from, copy: None };
        manifest.file.write_at(&bytes, 0).map_err(|error| manifest.failed(error))?;
        match manifest.reserve(end + RESERVE_BYTES) {
            // It is needed without, too; each edit tries again.
            Err(error) if error.kind() != ErrorKind::Full => return Err(error),
            _ => {}
        }
        manifest.file.sync().map_err(|error| manifest.failed(error))?;
        manifest.copy = create_copy(env, &FileKind::ManifestCopy.path(dir, id), &bytes);
        set_current(env, dir, id)?;
        Ok(manifest)
    }

    /// Appends edits and returns when they are durable.
    ///
    /// # Errors
    /// `Io` or `Full`; unless the error is unchanged, it is unknown whether the edits are durable, and the database
    /// must be reopened.
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        let mut payload = Vec::new();
        edit.encode(&mut payload);
        let mut bytes = Vec::with_capacity(payload.len() + FRAME_HEADER_BYTES);
        put_frame(&mut bytes, self.identity, self.end, &payload);
        let end = self.end + u64_of(bytes.len());
        if end + RESERVE_BYTES / 2 > self.reserved_to {
            match self.reserve(end + RESERVE_BYTES) {
                // The reserve is for this.
                Err(error) if error.kind() == ErrorKind::Full && edit.gives_back() && end <= self.reserved_to => {}
                reserved => reserved?,
            }
        }
        // A torn record is overwritten by the next.
        self.file.write_at(&bytes, self.end).map_err(|error| self.refused(error))?;
        self.file.sync().map_err(|error| self.failed(error))?;
        self.copy.take_if(|copy| copy.write_at(&bytes, self.end).is_err());
        self.end = end;
        Ok(())
    }

    /// Has space for the bytes before `end`.
    fn reserve(&mut self, end: u64) -> Result<()> {
        self.file.allocate(end).map_err(|error| self.refused(error))?;
        self.reserved_to = end;
        Ok(())
    }

    /// The error of a call before the sync.
    fn refused(&self, error: std::io::Error) -> Error {
        let error = self.failed(error);
        if error.kind() == ErrorKind::Full { error.unchanged() } else { error }
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io("write", &self.path, error)
    }

    /// There was no room for a new one, although it is long: it is tried again when as much was appended as is
    /// reserved.
    pub const fn stay_long(&mut self) {
        self.long_from = self.end + RESERVE_BYTES;
    }

    /// Gives the file system back what is reserved behind a manifest that nothing is appended to any more. A torn end
    /// stays.
    ///
    /// # Errors
    /// When the manifest cannot be read or cut.
    pub fn give_reserve_back(env: &Env, dir: &Path, id: FileId) -> Result<()> {
        let path = FileKind::Manifest.path(dir, id);
        let Some(bytes) = read_file(env, &path)? else { return Ok(()) };
        let (identity, mut end) = (identity(check_header(&path, &bytes)?, id), HEADER_BYTES);
        while let Ok(payload) = frame_at(&bytes, identity, end) {
            end += FRAME_HEADER_BYTES + payload.len();
        }
        if end < bytes.len() && bytes[end..].iter().all(|byte| *byte == 0) {
            let file = env.fs.open(&path, OpenOptions { access: Access::Write, direct: false });
            let cut = file.and_then(|file| file.set_len(u64_of(end)).and_then(|()| file.sync()));
            cut.map_err(|error| Error::io("cut", &path, error))?;
        }
        Ok(())
    }

    /// Whether the manifest is long enough for a new one to be due.
    #[must_use]
    pub const fn is_long(&self) -> bool {
        self.end > self.long_from
    }

    /// The file's id.
    #[must_use]
    pub const fn id(&self) -> FileId {
        self.id
    }

    /// Removes both files of a manifest that is not in force, as far as they are there and that can be done.
    pub fn remove(env: &Env, dir: &Path, id: FileId) {
        for kind in [FileKind::Manifest, FileKind::ManifestCopy] {
            drop(env.fs.remove(&kind.path(dir, id)));
        }
    }

    /// What is wrong with the manifest on disk, and with the file that names it.
    ///
    /// # Errors
    /// `Io` when they cannot be read.
    pub fn verify(&self, env: &Env, dir: &Path) -> Result<Vec<Error>> {
        let mut wrong = Vec::new();
        let mut note = |error: Error| match error.kind() {
            ErrorKind::Io => Err(error),
            _ => {
                wrong.push(error);
                Ok(())
            }
        };
        current::in_force(env, dir).map(drop).or_else(&mut note)?;
        read_files(env, dir, self.id).map(Files::damage)?.map_or(Ok(()), &mut note)?;
        Ok(wrong)
    }

    /// What is wrong with the second file on disk, which has all that the first has.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub fn verify_copy(&self, env: &Env, dir: &Path) -> Result<Option<Error>> {
        if !self.has_copy() {
            return Ok(None);
        }
        let path = FileKind::ManifestCopy.path(dir, self.id);
        let bytes = read_file(env, &path)?.unwrap_or_default();
        let is_short = u64_of(bytes.len()) < self.end;
        let cut = || Error::corruption(&path, u64_of(bytes.len()), "the file ends before the manifest does");
        let cut = is_short.then(cut);
        let files = Files { path, id: self.id, bytes, copy: Vec::new(), mended: None };
        Ok(files.damage().or(cut))
    }

    /// What is wrong with the copy of a manifest that is sound, which may not be in force any more. A copy that is not
    /// there, or lacks the last records, as after a power failure, is not damaged.
    #[must_use]
    pub fn damage_of_copy(env: &Env, dir: &Path, id: FileId) -> Option<Error> {
        load::damage_of_copy(env, dir, id)
    }

    /// Whether a second file has all that the first has.
    #[must_use]
    pub const fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// The id of the manifest that `CURRENT` names; `None` when `CURRENT` does not exist.
    ///
    /// # Errors
    /// `Corruption`, `Unsupported` for a newer format, `Io`.
    pub fn in_force(env: &Env, dir: &Path) -> Result<Option<FileId>> {
        current::in_force(env, dir)
    }

    /// Reads the manifest in force; `None` when `CURRENT` does not exist.
    ///
    /// # Errors
    /// `Corruption` naming file and offset, `Unsupported` for a newer format, `Io`.
    pub fn load(env: &Env, dir: &Path) -> Result<Option<(Catalog, FileId)>> {
        load::load(env, dir)
    }

    /// Reads a manifest that may not be in force any more.
    ///
    /// # Errors
    /// As [`Manifest::load`].
    pub fn load_by_id(env: &Env, dir: &Path, id: FileId) -> Result<Catalog> {
        load::load_by_id(env, dir, id)
    }

    /// How many bulk loads the manifests in the directory tell of, from the one with this id on, as far as they can be
    /// read.
    ///
    /// # Errors
    /// `Io` when the directory cannot be read.
    pub fn loads_since(env: &Env, dir: &Path, id: FileId) -> Result<u64> {
        load::loads_since(env, dir, id)
    }

    /// What can be read of the manifest in force and its copy or, where nothing can, of the newest other one; `None`
    /// when there is none. Without `CURRENT` the newest one counts: what a crash leaves of a newer one cannot be read,
    /// or says the same.
    ///
    /// # Errors
    /// What is wrong with the one in force, when no other can be read either; `Unsupported` for a newer format, `Io`.
    pub fn load_damaged(env: &Env, dir: &Path) -> Result<Option<LoadedManifest>> {
        load::load_damaged(env, dir)
    }
}

/// Writes the second file of a manifest; `None` where that fails, since it says nothing that the first does not.
fn create_copy(env: &Env, path: &Path, bytes: &[u8]) -> Option<Arc<dyn File>> {
    let file = env.fs.open(path, OpenOptions { access: Access::CreateNew, direct: false }).ok()?;
    if file.write_at(bytes, 0).and_then(|()| file.sync()).is_err() {
        drop(env.fs.remove(path));
        return None;
    }
    Some(file)
}
