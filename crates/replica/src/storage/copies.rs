//! Files of copies of a database: read to be sent, received, and put in the place of a database.
//!
//! A primary makes a checkpoint in the folder `outgoing` of its database and sends its files, with the file `counts`:
//! how many documents collections have, which the log would tell that a copy does not have. A member receives them
//! into the folder `incoming` of its own. When all are there and durable, and its log has nothing that the copy lacks,
//! it writes the file `replica` with its identity and vote, which it keeps, and last the file `complete`. The program
//! then closes the database, calls [`install_copy`] and opens it again.
//!
//! # Recovery
//! Without `complete` what is in `incoming` is no copy, and is removed. With it the copy is moved to its place, however
//! often that is begun; `complete` goes last. The old log is removed before, once: `log-removed` says that it was.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use spinney::base::codec::Decoder;
use spinney::base::num::{u64_of, usize_of};
use spinney::env::{Access, Env, File, OpenOptions};
use spinney_document::catalog::{CopiedCounts, adopt};

use super::rows::Rows;
use crate::entry::copying::CopiedFile;

const INCOMING: &str = "incoming";
const OUTGOING: &str = "outgoing";
const COMPLETE: &str = "complete";
const COUNTS: &str = "counts";
const LOG_REMOVED: &str = "log-removed";
const REPLICA: &str = "replica";
const LOG: &str = "log";
const CURRENT: &str = "CURRENT";

/// Bytes that are received before they are made durable while others come. Syncs of commits on the same disk wait
/// behind no more than these.
const SYNC_BYTES: u64 = 512 << 10;

/// A checkpoint that is sent. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Outgoing {
    dir: PathBuf,
    pub(crate) files: Vec<CopiedFile>,
}

impl Outgoing {
    /// Makes a checkpoint of a database by `checkpoint`.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn make(
        engine: &spinney::Database,
        copy: u64,
        checkpoint: impl FnOnce(&Path) -> spinney::Result<CopiedCounts>,
    ) -> io::Result<Self> {
        let dir = engine.path().join(OUTGOING).join(format!("{copy:016x}"));
        let mut outgoing = Self { dir, files: Vec::new() };
        fs::create_dir_all(&outgoing.dir)?;
        let counts = checkpoint(&outgoing.dir).map_err(|error| io::Error::other(error.to_string()))?;
        // The member makes it durable.
        open(&outgoing.dir.join(COUNTS), Access::CreateNew)?.write_at(&counts.encode(), 0)?;
        outgoing.files = files_of(&outgoing.dir)?;
        Ok(outgoing)
    }

    /// A part of a file, of up to `bytes`.
    ///
    /// # Errors
    /// What the system says; `UnexpectedEof` when the file ends before.
    pub(crate) fn read(&self, file: usize, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let CopiedFile { name, bytes: len } = self.files.get(file).ok_or(io::ErrorKind::NotFound)?;
        let mut part = vec![0; usize_of(bytes.min(len.saturating_sub(offset)))];
        let read = open(&self.dir.join(name), Access::Read)?.read_at(&mut part, offset)?;
        if read == part.len() { Ok(part) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // What is left is removed when the database is opened again.
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// A copy that is received.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) copy: u64,
    dir: PathBuf,
    files: Vec<CopiedFile>,
    /// Bytes of each file so far, which come in their order.
    received: Vec<u64>,
    open: Option<(usize, Arc<dyn File>)>,
    /// Bytes that came since a file was synced.
    unsynced: u64,
}

impl Incoming {
    /// Begins to receive a copy, in place of what is left of an earlier one.
    ///
    /// # Errors
    /// `InvalidInput` for names that lead out of the folder; what the system says.
    pub(crate) fn begin(database: &Path, copy: u64, files: Vec<CopiedFile>) -> io::Result<Self> {
        let dir = database.join(INCOMING);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        for file in &files {
            let path = Path::new(&file.name);
            let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
            if !is_plain || path.components().count() > 2 || [COMPLETE, LOG_REMOVED, REPLICA].contains(&&*file.name) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a file of a copy has no usable name"));
            }
            fs::create_dir_all(dir.join(path).parent().unwrap_or(&dir))?;
            open(&dir.join(path), Access::CreateNew)?;
        }
        let received = vec![0; files.len()];
        Ok(Self { copy, dir, files, received, open: None, unsynced: 0 })
    }

    /// Writes a part. A part that was received already is passed over.
    ///
    /// # Errors
    /// `InvalidInput` for a part that is not the next; what the system says.
    pub(crate) fn write(&mut self, file: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = usize_of(file);
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "a part of a copy is not the next");
        let (Some(received), Some(known)) = (self.received.get_mut(file), self.files.get(file)) else {
            return Err(wrong());
        };
        let end = offset.saturating_add(u64_of(bytes.len()));
        if end <= *received {
            return Ok(());
        }
        if offset != *received || end > known.bytes {
            return Err(wrong());
        }
        if self.open.as_ref().is_none_or(|(open, _)| *open != file) {
            self.open = Some((file, open(&self.dir.join(&known.name), Access::Write)?));
        }
        if let Some((_, open)) = &self.open {
            open.write_at(bytes, offset)?;
        }
        self.unsynced += end - *received;
        *received = end;
        Ok(())
    }

    /// The file to sync now, so that the disk is not idle until all has come.
    pub(crate) fn due(&mut self) -> Option<Arc<dyn File>> {
        let (_, file) = self.open.as_ref().filter(|_| self.unsynced >= SYNC_BYTES)?;
        self.unsynced = 0;
        Some(Arc::clone(file))
    }

    /// Makes all that was received durable; whether it is all.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn sync(&mut self) -> io::Result<bool> {
        self.open = None;
        if self.files.iter().zip(&self.received).any(|(file, received)| file.bytes != *received) {
            return Ok(false);
        }
        for file in &self.files {
            open(&self.dir.join(&file.name), Access::Write)?.sync()?;
        }
        sync_folders(&self.dir)?;
        Ok(true)
    }

    /// Declares it complete, for a member with an identity and a vote.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn complete(&self, identity: u64, vote: &[u8]) -> io::Result<()> {
        let mut kept = identity.to_le_bytes().to_vec();
        kept.extend_from_slice(vote);
        write_durable(&self.dir, REPLICA, &kept)?;
        write_durable(&self.dir, COMPLETE, b"")
    }
}

/// Puts a copy of the primary's database that was received in the place of the database in `dir`, which must not be
/// open; whether there was one that is complete. One that is not complete is removed. Call it before every open of a
/// database that is, or was, part of a set. A crash meanwhile is harmless: call it again. The redo log of the database
/// must be in its own folder ([`spinney::Options::log_dir`]).
///
/// # Errors
/// Those of the file system.
pub fn install_copy(dir: impl AsRef<Path>) -> io::Result<bool> {
    let dir = dir.as_ref();
    let incoming = dir.join(INCOMING);
    for left in [dir.join(OUTGOING), incoming.clone()] {
        if left.exists() && !left.join(COMPLETE).exists() {
            fs::remove_dir_all(&left)?;
        }
    }
    if !incoming.exists() {
        return Ok(false);
    }
    if !incoming.join(LOG_REMOVED).exists() {
        let log = dir.join(LOG);
        if log.exists() {
            fs::remove_dir_all(&log)?;
            sync_dir(dir)?;
        }
        write_durable(&incoming, LOG_REMOVED, b"")?;
    }
    // Files of the old database that no new one replaces are removed when it is opened: no manifest names them.
    let mut names: Vec<String> = files_of(&incoming)?.into_iter().map(|file| file.name).collect();
    names.retain(|name| ![COMPLETE, LOG_REMOVED].contains(&&**name));
    names.sort_by_key(|name| name == CURRENT);
    for name in &names {
        let to = dir.join(name);
        fs::create_dir_all(to.parent().unwrap_or(dir))?;
        if name == CURRENT {
            sync_folders(dir)?;
        }
        fs::rename(incoming.join(name), to)?;
    }
    sync_folders(dir)?;
    fs::remove_file(incoming.join(COMPLETE))?;
    sync_dir(&incoming)?;
    fs::remove_dir_all(&incoming)?;
    Ok(true)
}

/// Gives a database that was just put in place of another its member's identity and vote again, with a new `token` of
/// the folder. It forgets what the other member had for itself alone, and learns how many documents its collections
/// have.
///
/// # Errors
/// Those of the engine and of the file system.
pub(crate) fn adopt_copy(rows: &Rows, token: impl FnOnce(&Path) -> spinney::Result<u64>) -> spinney::Result<()> {
    let (path, counts) = (rows.engine().path().join(REPLICA), rows.engine().path().join(COUNTS));
    let failed = |error: &dyn std::fmt::Display| {
        spinney::Error::new(spinney::ErrorKind::Io, format!("{}: {error}", path.display()))
    };
    match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(&error)),
        Ok(kept) => {
            let mut input = Decoder::new(&kept);
            let identity = input.u64().map_err(|_| failed(&"the file makes no sense"))?;
            let copied = match fs::read(&counts) {
                Ok(bytes) => CopiedCounts::decode(&bytes).map_err(|_| failed(&"the file 'counts' makes no sense"))?,
                // Of a primary with an earlier version.
                Err(error) if error.kind() == io::ErrorKind::NotFound => CopiedCounts::default(),
                Err(error) => return Err(failed(&error)),
            };
            adopt(rows.engine(), &copied)?;
            rows.restart_log(input.rest(), identity, token(rows.engine().path())?)?;
            fs::remove_file(&path).map_err(|error| failed(&error))?;
            match fs::remove_file(&counts) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&error)),
                _ => sync_dir(rows.engine().path()).map_err(|error| failed(&error)),
            }
        }
    }
}

/// The files of a folder and of its folders.
fn files_of(dir: &Path) -> io::Result<Vec<CopiedFile>> {
    let mut files = Vec::new();
    for entry in Env::os().fs.list(dir)? {
        if !entry.is_dir {
            files.push(CopiedFile { name: entry.name, bytes: entry.bytes });
            continue;
        }
        let inner = Env::os().fs.list(&dir.join(&entry.name))?;
        let inner = inner.into_iter().filter(|file| !file.is_dir);
        files.extend(inner.map(|file| CopiedFile { name: format!("{}/{}", entry.name, file.name), bytes: file.bytes }));
    }
    Ok(files)
}

fn open(path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
    Env::os().fs.open(path, OpenOptions { access, direct: false })
}

fn write_durable(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = dir.join(name);
    if path.exists() {
        fs::remove_file(&path)?;
    }
    let file = open(&path, Access::CreateNew)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    sync_dir(dir)
}

/// Puts a file in the place of the one with its name, if there is one: after a crash it is the one or the other.
///
/// # Errors
/// What the system says.
pub(crate) fn replace_durable(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = format!("{name}-new");
    write_durable(dir, &new, bytes)?;
    fs::rename(dir.join(new), dir.join(name))?;
    sync_dir(dir)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    Env::os().fs.sync_dir(dir)
}

fn sync_folders(dir: &Path) -> io::Result<()> {
    let log = dir.join(LOG);
    if log.exists() {
        sync_dir(&log)?;
    }
    sync_dir(dir)
}
