//! Leases: what readers in other processes need of a database that is open for writing.
//!
//! A reader shares the lock of the manifest that it reads, and for as long as it replays the redo log that of the
//! manifest's copy. The operating system takes both locks back when the reader ends, however it ends, and nothing is
//! written for them.
//!
//! # Invariants
//! 1. A reader locks the manifest before it reads it, and looks afterwards whether it is still in force. What makes
//!    something unnamed is in the manifest before anybody looks for locks. So a reader without a lock that was seen
//!    then does not need it: it reads a manifest that does not name it.
//! 2. What was unnamed while a manifest was in force is given back when neither that manifest nor an older one is
//!    locked.
//! 3. A reader reads no other manifest than the one that it has locked. Ids ascend, so that it needs no file with a
//!    larger id than the manifest that followed, and no root of a B-tree that was named later: what came and went since
//!    is given back.
//! 4. While it opens, with the lock of the copy, it looks at the manifests that followed too.
//!
//! A reader that comes cannot need what was unnamed before it came, but stands on the manifest in force like one that
//! came before that. So that it keeps little of it, another manifest is put in force some times a second while
//! something is kept.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::sync::Mutex;
use crate::base::{FileId, Result};
use crate::env::{DirEntry, Env};
use crate::table::files::{self, FileKind};

/// The leases of a database's readers.
#[derive(Debug)]
pub(crate) struct Leases {
    env: Env,
    dir: PathBuf,
    manifests: Mutex<Manifests>,
    /// Something waits for the end of a lease: a hint for the background.
    waiting: AtomicBool,
}

/// The manifests that may be locked.
#[derive(Debug, Default)]
struct Manifests {
    /// Each with the one that followed, if one did.
    ids: BTreeMap<FileId, Option<FileId>>,
    in_force: FileId,
}

/// The manifests that readers stand on, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<Stand>);

#[derive(Debug)]
struct Stand {
    manifest: FileId,
    /// The manifest that followed, if one did.
    next: Option<FileId>,
    /// Whether a reader may be opening.
    is_opening: bool,
}

impl Held {
    /// Whether there are no readers.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a reader may need what was unnamed under a manifest, and that no manifest before `named_from` names.
    pub(crate) fn keeps_tree(&self, named_from: FileId, unnamed: FileId) -> bool {
        let is_named = |next: &Option<FileId>| next.is_none_or(|next| named_from < next);
        self.0.iter().any(|stand| stand.manifest <= unnamed && is_named(&stand.next))
    }

    /// Whether a reader may need a manifest.
    pub(crate) fn keeps_manifest(&self, id: FileId) -> bool {
        self.0.iter().any(|stand| stand.manifest == id || stand.is_opening && stand.manifest < id)
    }
}

impl Leases {
    /// Of a database whose directory has these entries.
    pub(crate) fn new(env: Env, dir: PathBuf, entries: &[DirEntry]) -> Self {
        let found = entries.iter().filter_map(|entry| files::parse(&entry.name));
        let ids = found.filter(|(kind, _)| *kind == FileKind::Manifest).map(|(_, id)| (id, None)).collect();
        let manifests = Mutex::new(Manifests { ids, in_force: FileId(0) });
        Self { env, dir, manifests, waiting: AtomicBool::new(false) }
    }

    /// Puts a manifest in force by `create`. Readers may lock it before that returns.
    pub(crate) fn switch<T>(&self, id: FileId, create: impl FnOnce() -> Result<T>) -> Result<T> {
        self.manifests.lock().ids.insert(id, None);
        let created = create()?;
        let mut manifests = self.manifests.lock();
        manifests.in_force = id;
        for (_, next) in manifests.ids.range_mut(..id) {
            next.get_or_insert(id);
        }
        Ok(created)
    }

    /// The manifest in force, under which what is unnamed now was unnamed at the latest.
    pub(crate) fn in_force(&self) -> FileId {
        self.manifests.lock().in_force
    }

    /// The manifests that readers stand on.
    pub(crate) fn held(&self) -> Held {
        let mut manifests = self.manifests.lock();
        let Manifests { ids, in_force } = &mut *manifests;
        let mut held = Held::default();
        ids.retain(|id, next| {
            let is_locked = self.is_locked(FileKind::Manifest, *id);
            if is_locked {
                let is_opening = self.is_locked_or_missing(FileKind::ManifestCopy, *id);
                held.0.push(Stand { manifest: *id, next: *next, is_opening });
            }
            // An older one that is not locked will not be: a reader sees that it is not in force.
            is_locked || *id >= *in_force
        });
        held
    }

    /// Whether a reader replays the log.
    pub(crate) fn hold_log(&self) -> bool {
        let manifests = self.manifests.lock();
        manifests.ids.keys().any(|id| self.is_locked(FileKind::ManifestCopy, *id))
    }

    /// Whether a file is locked; also when that cannot be told.
    fn is_locked(&self, kind: FileKind, id: FileId) -> bool {
        match self.env.fs.is_locked(&kind.path(&self.dir, id)) {
            Ok(is_locked) => is_locked,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// As [`Self::is_locked`], also of a file that is not there: who would lock it goes on without.
    fn is_locked_or_missing(&self, kind: FileKind, id: FileId) -> bool {
        self.env.fs.is_locked(&kind.path(&self.dir, id)).unwrap_or(true)
    }

    /// Something waits for the end of a lease.
    pub(crate) fn note_waiting(&self) {
        self.waiting.store(true, Ordering::Relaxed);
    }

    /// Whether something may wait for the end of a lease.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether something may wait for the end of a lease; whoever asks looks.
    pub(crate) fn take_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) && self.waiting.swap(false, Ordering::Relaxed)
    }
}
