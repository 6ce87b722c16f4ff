//! The manifest: the durable record of which tables, runs and roots make up the database.
//!
//! # Format
//! A file `NNN.manifest`: a header, then frames. The first frame is a [`Catalog`], each later one an [`Edit`].
//!
//! | offset | size | header |
//! |---|---|---|
//! | 0 | 8 | magic `SPNMANIF` |
//! | 8 | 4 | format version, [`FORMAT_VERSION`] |
//! | 12 | 4 | zero |
//! | 16 | 8 | database id |
//! | 24 | 8 | checksum of bytes 0 to 23 |
//!
//! | offset | size | frame |
//! |---|---|---|
//! | 0 | 8 | checksum of the rest, seeded with the database id, the manifest's file id and the frame's offset |
//! | 8 | 4 | length of the payload |
//! | 12 | 4 | the low half of the length's own checksum, with the same seed |
//! | 16 | n | payload |
//!
//! Zeros may follow the last frame: room for frames to come that a full disk cannot take away.
//!
//! The length, magic, version and checksum of the header are in the same places in every version of this format: a
//! version counts only with a checksum that is right, so that damage does not pass for a newer format.
//!
//! A file `NNN.manifest-copy` holds the same bytes a second time.
//!
//! `CURRENT` is text of three lines: `spinney 2` (the format version), the name of the manifest in force, and the
//! checksum of the two lines before it as 16 hexadecimal digits. Every version has these lines.
//!
//! # Recovery
//! The copy is written after the manifest: its first record is durable before `CURRENT` names the manifest; each later
//! one is written when it is durable in the manifest, without a sync of its own. So a record of the copy is one of the
//! manifest, always; a power failure may cost the copy its last records. No write depends on the copy: when one to it
//! fails, there is none until the next manifest. A damaged record is read from the copy by a salvage
//! ([`Manifest::load_damaged`]). An open refuses it, as it refuses a last record that is damaged in the manifest and
//! whole in the copy: without a copy that would be taken for a torn tail.
//!
//! Each frame is durable before the change it tells of is used, so a frame that is torn at the end of the file was
//! never relied on and ends the manifest. A bad frame with a good one after it is corruption. The good one is looked
//! for at every offset: the length's own checksum tells in a few bytes where none begins, so that the search takes time
//! in proportion to the file. A manifest is never appended to after a crash: each open writes a new one and switches
//! `CURRENT` to it by write, sync, rename, sync of the directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::checksum::checksum;
use crate::base::codec::{Decoder, Malformed};
use crate::base::num::{u32_of, u64_of, usize_of, usize_of32};
use crate::base::{Error, ErrorKind, FileId, Result};
use crate::env::{Access, Env, File, OpenOptions};

use super::catalog::Catalog;
use super::edit::Edit;
use super::files::{self, FileKind};

/// The version of the database's format that this code writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"SPNMANIF";
const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 16;
/// Where the length of a frame's payload stands in its header, and what its own checksum follows.
const LENGTH_AT: usize = 8;
const LENGTH_SUM_AT: usize = 12;
const _: () = assert!(LENGTH_SUM_AT == LENGTH_AT + 4 && FRAME_HEADER_BYTES == LENGTH_SUM_AT + 4);
/// A manifest longer than this, and than four times its first frame, is written anew.
const REWRITE_BYTES: u64 = 1 << 20;
/// So much space is reserved behind the manifest's end, so that edits which give space back find room on a full disk.
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

/// What can be read of the manifest of a database.
#[derive(Debug)]
pub struct LoadedManifest {
    /// What it says.
    pub catalog: Catalog,
    /// What is wrong with it.
    pub damage: Option<ManifestDamage>,
}

/// What is wrong with the manifest, or with the file that names it.
#[derive(Debug)]
pub struct ManifestDamage {
    /// The first thing that is wrong.
    pub error: Error,
    /// Whether other files told all that is damaged. Else what was read may be an older state.
    pub is_mended: bool,
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

    /// Whether the manifest has grown so long that a new one is due.
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

    /// What is wrong with either file on disk, and with the one that names them.
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
        Self::in_force(env, dir).map(drop).or_else(&mut note)?;
        let damage = |files: Files| files.read().map_or_else(Some, |loaded| loaded.damage.map(|damage| damage.error));
        read_files(env, dir, self.id).map(damage)?.map_or(Ok(()), &mut note)?;
        if self.has_copy() {
            let path = FileKind::ManifestCopy.path(dir, self.id);
            let bytes = read_file(env, &path)?.unwrap_or_default();
            let is_short = u64_of(bytes.len()) < self.end;
            let cut = || Error::corruption(&path, u64_of(bytes.len()), "the file ends before the manifest does");
            let cut = is_short.then(cut);
            let files = Files { path, id: self.id, bytes, copy: Vec::new(), mended: None };
            damage(files).or(cut).map_or(Ok(()), &mut note)?;
        }
        Ok(wrong)
    }

    /// Whether a second file has all that the first has.
    #[must_use]
    pub const fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// The id of the manifest in force: the one that `CURRENT` names; `None` when `CURRENT` does not exist.
    ///
    /// # Errors
    /// `Corruption`, `Unsupported` for a newer format, `Io`.
    pub fn in_force(env: &Env, dir: &Path) -> Result<Option<FileId>> {
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

    /// Reads the manifest in force; `None` when `CURRENT` does not exist.
    ///
    /// # Errors
    /// `Corruption` naming file and offset, `Unsupported` for a newer format, `Io`.
    pub fn load(env: &Env, dir: &Path) -> Result<Option<(Catalog, FileId)>> {
        let Some(id) = Self::in_force(env, dir)? else { return Ok(None) };
        match read(env, dir, id) {
            Ok(LoadedManifest { catalog, damage: None }) => Ok(Some((catalog, id))),
            // A process that has the database open may have put another in force meanwhile.
            _ if Self::in_force(env, dir)? != Some(id) => Self::load(env, dir),
            Ok(LoadedManifest { damage: Some(damage), .. }) => Err(damage.error),
            Err(error) => Err(error),
        }
    }

    /// What can be read of the manifest in force and its copy or, where nothing can, of the newest other one; `None`
    /// when there is none. Without `CURRENT` the newest one counts: what a crash leaves of a newer one cannot be read,
    /// or says the same.
    ///
    /// # Errors
    /// What is wrong with the one in force, when no other can be read either; `Unsupported` for a newer format, `Io`.
    pub fn load_damaged(env: &Env, dir: &Path) -> Result<Option<LoadedManifest>> {
        let mut ids = ids(env, dir)?;
        let (mut error, in_force) = match Self::in_force(env, dir) {
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
                Ok(LoadedManifest { catalog, damage }) => {
                    let is_mended = Some(id) == wanted && damage.as_ref().is_none_or(|damage| damage.is_mended);
                    let error = error.or(damage.map(|damage| damage.error));
                    let damage = error.map(|error| ManifestDamage { error, is_mended });
                    return Ok(Some(LoadedManifest { catalog, damage }));
                }
                Err(new) if new.kind() == ErrorKind::Corruption => error = error.or(Some(new)),
                Err(new) => return Err(new),
            }
        }
        error.map_or(Ok(None), Err)
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

/// The version and the name of the manifest in the text of `CURRENT`, if its checksum is right.
fn current_lines(text: &str) -> Option<(u32, &str)> {
    let (lines, sum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    if sum != current_sum(lines) {
        return None;
    }
    let (version, name) = lines.split_once('\n')?;
    Some((version.strip_prefix("spinney ")?.parse().ok()?, name))
}

fn current_sum(lines: &str) -> String {
    format!("{:016x}", checksum(0, 0, lines.as_bytes()))
}

/// The manifests in a directory of which one of both files is there, oldest first.
fn ids(env: &Env, dir: &Path) -> Result<Vec<FileId>> {
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

/// Reads a manifest from both of its files.
fn read(env: &Env, dir: &Path, id: FileId) -> Result<LoadedManifest> {
    read_files(env, dir, id)?.read()
}

fn read_files(env: &Env, dir: &Path, id: FileId) -> Result<Files> {
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
struct Files {
    path: PathBuf,
    id: FileId,
    bytes: Vec<u8>,
    copy: Vec<u8>,
    /// What is wrong with the first, and was read from the copy.
    mended: Option<Error>,
}

impl Files {
    /// What they tell up to their end, or up to where both are damaged.
    fn read(self) -> Result<LoadedManifest> {
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
                Some(catalog) => Edit::decode(&mut decoder).and_then(|edit| catalog.apply(&edit)),
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
        Ok(LoadedManifest { catalog, damage })
    }
}

fn identity(database_id: u64, id: FileId) -> u64 {
    database_id ^ id.0.rotate_left(32)
}

fn header(database_id: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&database_id.to_le_bytes());
    let sum = checksum(0, 0, &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    assert_eq!(bytes.len(), HEADER_BYTES);
    bytes
}

fn check_header(path: &Path, bytes: &[u8]) -> Result<u64> {
    let mut decoder = Decoder::new(bytes);
    let mut read = || {
        let magic = decoder.array::<8>()?;
        let version = decoder.u32()?;
        let _zero = decoder.u32()?;
        Ok((magic, version, decoder.u64()?, decoder.u64()?))
    };
    let (magic, version, database_id, sum) =
        read().map_err(|_: Malformed| Error::corruption(path, 0, "the manifest is shorter than its header"))?;
    let damaged = || Error::corruption(path, 0, "the manifest's header is damaged");
    if magic != MAGIC {
        return Err(damaged());
    }
    if checksum(0, 0, &bytes[..24]) != sum {
        return Err(damaged());
    }
    check_version(version, path)?;
    Ok(database_id)
}

fn check_version(version: u32, path: &Path) -> Result<()> {
    if version != FORMAT_VERSION {
        let other = if version > FORMAT_VERSION { "a newer" } else { "an older" };
        let message = format!(
            "{}: the database has format version {version}, this program reads {FORMAT_VERSION}: use {other} spinney",
            path.display()
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

fn put_frame(out: &mut Vec<u8>, identity: u64, offset: u64, payload: &[u8]) {
    let start = out.len();
    let len = u32_of(payload.len());
    out.extend_from_slice(&[0; LENGTH_AT]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&length_sum(identity, offset, len).to_le_bytes());
    out.extend_from_slice(payload);
    let sum = checksum(identity, offset, &out[start + LENGTH_AT..]);
    out[start..start + LENGTH_AT].copy_from_slice(&sum.to_le_bytes());
}

/// What the header of a frame at `offset` says of its length besides the length.
fn length_sum(identity: u64, offset: u64, len: u32) -> u32 {
    let [a, b, c, d, ..] = checksum(identity, offset, &len.to_le_bytes()).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The payload of the frame at `at`.
fn frame_at(bytes: &[u8], identity: u64, at: usize) -> Result<&[u8], Malformed> {
    let frame = bytes.get(at..).ok_or(Malformed)?;
    let mut decoder = Decoder::new(frame);
    let (sum, len, length) = (decoder.u64()?, decoder.u32()?, decoder.u32()?);
    if length_sum(identity, u64_of(at), len) != length {
        return Err(Malformed);
    }
    let payload = decoder.bytes(usize_of32(len))?;
    let covered = &frame[LENGTH_AT..FRAME_HEADER_BYTES + payload.len()];
    if checksum(identity, u64_of(at), covered) == sum { Ok(payload) } else { Err(Malformed) }
}

/// Whether some good frame starts after the bad one at `at`: then the bad one is no torn tail.
fn has_frame_after(bytes: &[u8], identity: u64, at: usize) -> bool {
    (at + 1..bytes.len()).any(|at| frame_at(bytes, identity, at).is_ok())
}

fn set_current(env: &Env, dir: &Path, id: FileId) -> Result<()> {
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

fn read_file(env: &Env, path: &Path) -> Result<Option<Vec<u8>>> {
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
