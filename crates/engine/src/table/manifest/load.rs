//! Reading a manifest and its copy, damaged or not.

use std::path::{Path, PathBuf};

use super::current::{in_force, read_file};
use super::format::{FRAME_HEADER_BYTES, HEADER_BYTES, check_header, frame_at, has_frame_after, identity};
use crate::base::checksum::checksum;
use crate::base::codec::Decoder;
use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, FileId, Result};
use crate::env::Env;
use crate::table::catalog::Catalog;
use crate::table::edit::Edit;
use crate::table::files::{self, FileKind};

/// What can be read of the manifest of a database.
#[derive(Debug)]
pub struct LoadedManifest {
    /// What it says.
    pub catalog: Catalog,
    /// What is wrong with it.
    pub damage: Option<ManifestDamage>,
    /// How many bulk loads it tells of behind its first record.
    pub loads: u64,
}

/// What is wrong with the manifest, or with the file that names it.
#[derive(Debug)]
pub struct ManifestDamage {
    /// The first thing that is wrong.
    pub error: Error,
    /// Whether other files told all that is damaged. Else what was read may be an older state.
    pub is_mended: bool,
}

/// Reads the manifest in force; `None` when `CURRENT` does not exist.
///
/// # Errors
/// `Corruption` naming file and offset, `Unsupported` for a newer format, `Io`.
pub(super) fn load(env: &Env, dir: &Path) -> Result<Option<(Catalog, FileId)>> {
    let Some(id) = in_force(env, dir)? else { return Ok(None) };
    let files = read_files(env, dir, id);
    let before = files.as_ref().ok().map(Files::digest);
    match files.and_then(Files::read) {
        Ok(LoadedManifest { catalog, damage: None, .. }) => Ok(Some((catalog, id))),
        // A process that has the database open may have put another in force during the read, or appended to this one
        // between the reads of its two files.
        _ if in_force(env, dir)? != Some(id) => load(env, dir),
        _ if read_files(env, dir, id).ok().map(|files| files.digest()) != before => load(env, dir),
        Ok(LoadedManifest { damage: Some(damage), .. }) => Err(damage.error),
        Err(error) => Err(error),
    }
}

/// As [`load`], of a manifest that may not be in force any more.
pub(super) fn load_by_id(env: &Env, dir: &Path, id: FileId) -> Result<Catalog> {
    let files = read_files(env, dir, id);
    let before = files.as_ref().ok().map(Files::digest);
    match files.and_then(Files::read) {
        Ok(LoadedManifest { catalog, damage: None, .. }) => Ok(catalog),
        _ if read_files(env, dir, id).ok().map(|files| files.digest()) != before => load_by_id(env, dir, id),
        Ok(LoadedManifest { damage: Some(damage), .. }) => Err(damage.error),
        Err(error) => Err(error),
    }
}

/// How many bulk loads the manifests tell of from the one with this id on, as far as they can be read.
pub(super) fn loads_since(env: &Env, dir: &Path, id: FileId) -> Result<u64> {
    let later = ids(env, dir)?.into_iter().filter(|later| *later >= id);
    Ok(later.filter_map(|id| read(env, dir, id).ok()).map(|read| read.loads).sum())
}

/// What can be read of the manifest in force and its copy or, where nothing can, of the newest other one; `None`
/// when there is none. Without `CURRENT` the newest one counts: what a crash leaves of a newer one cannot be read,
/// or says the same.
///
/// # Errors
/// What is wrong with the one in force, when no other can be read either; `Unsupported` for a newer format, `Io`.
pub(super) fn load_damaged(env: &Env, dir: &Path) -> Result<Option<LoadedManifest>> {
    let mut ids = ids(env, dir)?;
    let (mut error, in_force) = match in_force(env, dir) {
        Ok(None) if ids.is_empty() => return Ok(None),
        Ok(None) => (Some(Error::corruption(&dir.join(files::CURRENT), 0, "the file is missing")), None),
        Ok(Some(id)) => (None, Some(id)),
        Err(error) if error.kind() == ErrorKind::Corruption => (Some(error), None),
        Err(error) => return Err(error),
    };
    let wanted = in_force.or(ids.last().copied());
    ids.retain(|id| Some(*id) != wanted);
    for id in wanted.into_iter().chain(ids.into_iter().rev()) {
        match read(env, dir, id) {
            Ok(LoadedManifest { catalog, damage, loads }) => {
                let is_mended = Some(id) == wanted && damage.as_ref().is_none_or(|damage| damage.is_mended);
                let error = error.or(damage.map(|damage| damage.error));
                let damage = error.map(|error| ManifestDamage { error, is_mended });
                return Ok(Some(LoadedManifest { catalog, damage, loads }));
            }
            Err(new) if new.kind() == ErrorKind::Corruption => error = error.or(Some(new)),
            Err(new) => return Err(new),
        }
    }
    error.map_or(Ok(None), Err)
}

/// The manifests in a directory of which one of both files is there, oldest first.
pub(super) fn ids(env: &Env, dir: &Path) -> Result<Vec<FileId>> {
    let entries = match env.fs.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(|error| Error::io("list", dir, error))?,
    };
    let is_manifest = |kind| matches!(kind, FileKind::Manifest | FileKind::ManifestCopy);
    let manifest = |name: &str| files::parse(name).filter(|(kind, _)| is_manifest(*kind)).map(|(_, id)| id);
    let mut ids: Vec<_> = entries.iter().filter_map(|entry| manifest(&entry.name)).collect();
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// What is wrong with the copy of a manifest that is sound, which may not be in force any more. A copy that is not
/// there, or lacks the last records, as after a power failure, is not damaged.
pub(super) fn damage_of_copy(env: &Env, dir: &Path, id: FileId) -> Option<Error> {
    let (path, copy_path) = (FileKind::Manifest.path(dir, id), FileKind::ManifestCopy.path(dir, id));
    // First: a process that has the database open writes each record there later.
    let copy = match read_file(env, &copy_path) {
        Ok(copy) => copy?,
        Err(error) => return Some(error),
    };
    let bytes = read_file(env, &path).ok()??;
    let identity = identity(check_header(&path, &bytes).ok()?, id);
    let first = frame_at(&bytes, identity, HEADER_BYTES).ok()?;
    let first_end = HEADER_BYTES + FRAME_HEADER_BYTES + first.len();
    let same = copy.iter().zip(&bytes).take_while(|(of_copy, byte)| of_copy == byte).count();
    let is_sound = same >= first_end && copy[same..].iter().all(|byte| *byte == 0);
    let what = format!("the copy of the manifest differs from {}", path.display());
    (!is_sound).then(|| Error::corruption(&copy_path, u64_of(same), what))
}

/// Reads a manifest from both of its files.
pub(super) fn read(env: &Env, dir: &Path, id: FileId) -> Result<LoadedManifest> {
    read_files(env, dir, id)?.read()
}

pub(super) fn read_files(env: &Env, dir: &Path, id: FileId) -> Result<Files> {
    let (path, copy_path) = (FileKind::Manifest.path(dir, id), FileKind::ManifestCopy.path(dir, id));
    let bytes = read_file(env, &path)?;
    // What cannot be read of the copy is not there.
    let copy = read_file(env, &copy_path).ok().flatten().unwrap_or_default();
    let missing = || {
        let what = format!("{} names this manifest, but it is missing", files::CURRENT);
        Error::corruption(&path, 0, what)
    };
    let mended = bytes.is_none().then(missing);
    Ok(Files { path, id, bytes: bytes.unwrap_or_default(), copy, mended })
}

/// The two files of a manifest.
pub(super) struct Files {
    pub(super) path: PathBuf,
    pub(super) id: FileId,
    pub(super) bytes: Vec<u8>,
    pub(super) copy: Vec<u8>,
    /// What is wrong with the first, and was read from the copy.
    pub(super) mended: Option<Error>,
}

impl Files {
    /// Tells whether the files change.
    fn digest(&self) -> (u64, u64) {
        (checksum(0, 0, &self.bytes), checksum(0, 0, &self.copy))
    }

    /// The first thing that is wrong with them.
    pub(super) fn damage(self) -> Option<Error> {
        self.read().map_or_else(Some, |loaded| loaded.damage.map(|damage| damage.error))
    }

    /// What they tell up to their end, or up to where both are damaged.
    pub(super) fn read(self) -> Result<LoadedManifest> {
        let Self { path, id, bytes, copy, mut mended } = self;
        let database_id = match (check_header(&path, &bytes), check_header(&path, &copy)) {
            (Ok(id), _) => id,
            (Err(error), Ok(id)) if error.kind() == ErrorKind::Corruption => {
                mended.get_or_insert(error);
                id
            }
            (Err(error), _) => return Err(mended.unwrap_or(error)),
        };
        let identity = identity(database_id, id);
        let bad = |at: usize, what| Error::corruption(&path, u64_of(at.min(bytes.len())), what);
        let bad_sum = |at| bad(at, "the record's checksum does not match");
        let mut at = HEADER_BYTES;
        let mut catalog: Option<Catalog> = None;
        let mut loads = 0;
        let mut damage = None;
        // Nothing is left of a record that the copy has.
        let mut is_cut = false;
        while at < bytes.len().max(copy.len()) && damage.is_none() {
            let (first, second) = (frame_at(&bytes, identity, at), frame_at(&copy, identity, at));
            if first.is_err() && second.is_ok() {
                mended.get_or_insert_with(|| bad_sum(at));
                is_cut |= bytes.get(at..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0));
            }
            let Ok(payload) = first.or(second) else {
                let goes_on = |bytes| has_frame_after(bytes, identity, at);
                damage = (catalog.is_none() || goes_on(&bytes) || goes_on(&copy)).then(|| bad_sum(at));
                break;
            };
            let mut decoder = Decoder::new(payload);
            let applied = match &mut catalog {
                None => Catalog::decode(&mut decoder).map(|first| catalog = Some(first)),
                Some(catalog) => Edit::decode(&mut decoder).and_then(|edit| {
                    loads += u64::from(matches!(edit, Edit::Load { .. }));
                    catalog.apply(&edit)
                }),
            };
            if applied.is_err() || !decoder.is_empty() {
                damage = Some(bad(at, "the record does not fit what is before it"));
            }
            at += FRAME_HEADER_BYTES + payload.len();
        }
        let missing = || bad(at, "the manifest ends before its first record");
        let Some(catalog) = catalog else { return Err(damage.unwrap_or_else(missing)) };
        if catalog.database_id != database_id {
            return Err(bad(16, "the manifest belongs to another database"));
        }
        // The copy may lack the last records, so that it does not tell where a manifest ended that was cut.
        let is_mended = damage.is_none() && !is_cut && at <= bytes.len();
        let damage = mended.or(damage).map(|error| ManifestDamage { error, is_mended });
        Ok(LoadedManifest { catalog, damage, loads })
    }
}
