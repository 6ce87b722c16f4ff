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
//! `CURRENT` is text: the line `spinney 2` (the format version), then the name of the manifest in force.
//!
//! # Recovery
//! Each frame is durable before the change it tells of is used, so a frame that is torn at the end of the file was never relied on
//! and ends the manifest. A bad frame with a good one after it is corruption. The good one is looked for at every offset: the length's own
//! checksum tells in a few bytes where none begins, so that the search takes time in proportion to the file. A manifest is never appended to after a crash: each
//! open writes a new one and switches `CURRENT` to it by write, sync, rename, sync of the directory.

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
        let mut manifest = Self { file, path, id, identity, end, reserved_to: end, long_from };
        manifest.file.write_at(&bytes, 0).map_err(|error| manifest.failed(error))?;
        match manifest.reserve(end + RESERVE_BYTES) {
            // It is needed without, too; each edit tries again.
            Err(error) if error.kind() != ErrorKind::Full => return Err(error),
            _ => {}
        }
        manifest.file.sync().map_err(|error| manifest.failed(error))?;
        set_current(env, dir, id)?;
        Ok(manifest)
    }

    /// Appends edits and returns when they are durable.
    ///
    /// # Errors
    /// `Io` or `Full`; unless the error is unchanged, it is unknown whether the edits are durable, and the database must be reopened.
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

    /// There was no room for a new one, although it is long: it is tried again when as much was appended as is reserved.
    pub const fn stay_long(&mut self) {
        self.long_from = self.end + RESERVE_BYTES;
    }

    /// Gives the file system back what is reserved behind a manifest that nothing is appended to any more. A torn end stays.
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

    /// The id of the manifest in force: the one that `CURRENT` names; `None` when `CURRENT` does not exist.
    ///
    /// # Errors
    /// `Corruption`, `Unsupported` for a newer format, `Io`.
    pub fn in_force(env: &Env, dir: &Path) -> Result<Option<FileId>> {
        let path = dir.join(files::CURRENT);
        let Some(bytes) = read_file(env, &path)? else { return Ok(None) };
        let damaged = || {
            Error::corruption(
                &path,
                0,
                format_args!("it must hold 'spinney {FORMAT_VERSION}' and the name of a manifest"),
            )
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
        let (first, rest) = text.split_once('\n').ok_or_else(damaged)?;
        let version = first.strip_prefix("spinney ").and_then(|version| version.parse().ok()).ok_or_else(damaged)?;
        check_version(version, &path)?;
        match rest.strip_suffix('\n').and_then(files::parse) {
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
        let path = FileKind::Manifest.path(dir, id);
        let Some(bytes) = read_file(env, &path)? else {
            // Whoever has the database open may have put another in force meanwhile.
            if Self::in_force(env, dir)? != Some(id) {
                return Self::load(env, dir);
            }
            let what = format!("{} names this manifest, but it is missing", files::CURRENT);
            return Err(Error::corruption(&path, 0, what));
        };
        let (catalog, damage) = read(&path, id, &bytes)?;
        damage.map_or(Ok(Some((catalog, id))), Err)
    }

    /// The newest manifest of which anything can be read, up to where it is damaged, and what is wrong with the one in force. Without
    /// `CURRENT` that is the newest: what a crash leaves of a newer one cannot be read, or says the same.
    ///
    /// # Errors
    /// What is wrong with the one in force, when no other can be read either; `Unsupported` for a newer format, `Io`.
    pub fn load_damaged(env: &Env, dir: &Path) -> Result<(Option<Catalog>, Option<Error>)> {
        let ids = ids(env, dir)?;
        let error = match Self::load(env, dir) {
            Ok(None) if !ids.is_empty() => Error::corruption(&dir.join(files::CURRENT), 0, "the file is missing"),
            Ok(loaded) => return Ok((loaded.map(|(catalog, _)| catalog), None)),
            Err(error) if error.kind() == ErrorKind::Corruption => error,
            Err(error) => return Err(error),
        };
        for id in ids.iter().rev() {
            let path = FileKind::Manifest.path(dir, *id);
            let Some(bytes) = read_file(env, &path)? else { continue };
            let Ok((catalog, damage)) = read(&path, *id, &bytes) else { continue };
            let is_whole =
                damage.is_none() && Some(id) == ids.last() && error.place() == Some((&dir.join(files::CURRENT), 0));
            return Ok((Some(catalog), if is_whole { None } else { Some(error) }));
        }
        Err(error)
    }
}

/// The manifests in a directory, oldest first.
fn ids(env: &Env, dir: &Path) -> Result<Vec<FileId>> {
    let entries = env.fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
    let manifest = |name: &str| files::parse(name).filter(|(kind, _)| *kind == FileKind::Manifest).map(|(_, id)| id);
    let mut ids: Vec<_> = entries.iter().filter_map(|entry| manifest(&entry.name)).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// What a manifest tells up to its end, or up to where it is damaged.
fn read(path: &Path, id: FileId, bytes: &[u8]) -> Result<(Catalog, Option<Error>)> {
    let database_id = check_header(path, bytes)?;
    let identity = identity(database_id, id);
    let mut at = HEADER_BYTES;
    let mut catalog: Option<Catalog> = None;
    let mut damage = None;
    while at < bytes.len() && damage.is_none() {
        if catalog.is_some() && bytes[at..].iter().all(|byte| *byte == 0) {
            break;
        }
        let Ok(payload) = frame_at(bytes, identity, at) else {
            if catalog.is_none() || has_frame_after(bytes, identity, at) {
                damage = Some(Error::corruption(path, u64_of(at), "the record's checksum does not match"));
            }
            break;
        };
        let mut decoder = Decoder::new(payload);
        let applied = match &mut catalog {
            None => Catalog::decode(&mut decoder).map(|first| catalog = Some(first)),
            Some(catalog) => Edit::decode(&mut decoder).and_then(|edit| catalog.apply(&edit)),
        };
        if applied.is_err() || !decoder.is_empty() {
            damage = Some(Error::corruption(path, u64_of(at), "the record does not fit what is before it"));
        }
        at += FRAME_HEADER_BYTES + payload.len();
    }
    let missing = || Error::corruption(path, u64_of(at), "the manifest ends before its first record");
    let Some(catalog) = catalog else { return Err(damage.unwrap_or_else(missing)) };
    if catalog.database_id != database_id {
        return Err(Error::corruption(path, 16, "the manifest belongs to another database"));
    }
    Ok((catalog, damage))
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
    // Before the checksum, which a newer version may place elsewhere.
    check_version(version, path)?;
    if checksum(0, 0, &bytes[..24]) != sum {
        return Err(damaged());
    }
    Ok(database_id)
}

fn check_version(version: u32, path: &Path) -> Result<()> {
    if version != FORMAT_VERSION {
        let other = if version > FORMAT_VERSION { "newer" } else { "older" };
        let message = format!(
            "{}: the database has format version {version}, this program reads {FORMAT_VERSION}: use one that is {other}",
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
    let text = format!("spinney {FORMAT_VERSION}\n{}\n", FileKind::Manifest.name(id));
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
