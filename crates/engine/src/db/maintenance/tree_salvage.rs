//! The trees of a table read around their damage, from their files alone: for a salvage to a new place, and for a
//! verification.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::{FileId, Result};
use crate::cache::Cache;
use crate::db::state::directory::identity;
use crate::env::{Access, Env};
use crate::store::{BlockFile, StoreStats};
use crate::table::files::FileKind;
use crate::table::record::RunRecord;
use crate::tree::btree::{TreeLeaves, TreeMeta};
use crate::tree::salvage::{Leaves, Losses, LostRange, Piece, RunLeaves, SalvageCursor, Step};
use crate::tree::values::{ValueFile, ValueFiles};
use crate::tree::{Cursor, SeqnumBounds};

/// The files of a database.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) env: Env,
    pub(super) dir: PathBuf,
    pub(super) database_id: u64,
}

impl Files {
    fn open(&self, path: &Path, id: FileId) -> Result<BlockFile> {
        BlockFile::open(&self.env, path, identity(self.database_id, id), Access::Read, false, Arc::default())
    }

    /// What is left of a run.
    pub(super) fn run(&self, RunRecord { id, meta }: RunRecord) -> Piece {
        let path = FileKind::Run.path(&self.dir, id);
        let seqnum_bounds = SeqnumBounds { smallest: meta.clean_to, largest: meta.seqnum_max.max(meta.clean_to) };
        let leaves = self.open(&path, id).and_then(|file| RunLeaves::new(file, meta.clone()));
        let lost = |error| LostRange::new(&meta.smallest, Some(&meta.largest), (&path, 0), &error);
        (seqnum_bounds, leaves.map(|leaves| Box::new(leaves) as Box<dyn Leaves>).map_err(lost))
    }

    /// What is left of a B-tree.
    pub(super) fn btree(&self, id: FileId, meta: TreeMeta) -> Piece {
        let path = FileKind::Tree.path(&self.dir, id);
        let seqnum_bounds = SeqnumBounds { smallest: meta.clean_to, largest: meta.seqnum_max.max(meta.clean_to) };
        if meta.is_unwritten() {
            return (seqnum_bounds, Ok(Box::new(NoLeaves(path))));
        }
        let leaves = self.open(&path, id).and_then(|file| TreeLeaves::new(file, meta));
        let lost = |error| LostRange::new(&[], None, (&path, 0), &error);
        (seqnum_bounds, leaves.map(|leaves| Box::new(leaves) as Box<dyn Leaves>).map_err(lost))
    }

    /// Those of these value files that can be opened.
    pub(super) fn values(&self, ids: impl IntoIterator<Item = FileId>) -> ValueFiles {
        let (cache, stats) = (Arc::new(Cache::new(0)), Arc::<StoreStats>::default());
        let open = |id: FileId| {
            let (path, identity) = (FileKind::Values.path(&self.dir, id), identity(self.database_id, id));
            ValueFile::open(&self.env, &path, id, identity, false, Arc::clone(&cache), Arc::clone(&stats)).ok()
        };
        ValueFiles::new(ids.into_iter().filter_map(open).collect())
    }
}

/// What is left of a tree.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// Leaves that can be read.
    pub(super) leaves: u64,
    /// Entries in them whose values can be read.
    pub(super) entries: u64,
    /// Bytes of both.
    pub(super) bytes: u64,
    /// What cannot be read.
    pub(super) lost: Vec<LostRange>,
    /// Damage that hides no entry.
    pub(super) harmless: Vec<LostRange>,
}

impl Remains {
    /// Reads all that is left of a tree.
    pub(super) fn of(piece: Piece, values: ValueFiles) -> Result<Self> {
        let (leaves, read, losses) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Losses::default());
        let (seqnum_bounds, tree) = piece;
        let counted = tree.map(|inner| Box::new(Counted { inner, leaves: Arc::clone(&leaves) }) as Box<dyn Leaves>);
        let pieces = Box::new(std::iter::once((seqnum_bounds, counted)));
        let mut cursor = SalvageCursor::new(pieces, values, losses.clone(), Arc::clone(&read));
        let mut entries = 0;
        cursor.first()?;
        while cursor.entry().is_some() {
            entries += 1;
            cursor.next()?;
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (lost, harmless) = (losses.take(), losses.take_harmless());
        Ok(Self { leaves: count(&leaves), entries, bytes: count(&read), lost, harmless })
    }
}

/// The leaves of a tree that never had any.
#[derive(Debug)]
struct NoLeaves(PathBuf);

impl Leaves for NoLeaves {
    fn step(&mut self) -> Option<Step> {
        None
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

/// Leaves that are counted.
#[derive(Debug)]
struct Counted {
    inner: Box<dyn Leaves>,
    /// Leaves shown. Only counts; publishes nothing.
    leaves: Arc<AtomicU64>,
}

impl Leaves for Counted {
    fn step(&mut self) -> Option<Step> {
        let step = self.inner.step();
        if let Some(Step::Leaf(..)) = &step {
            self.leaves.fetch_add(1, Ordering::Relaxed);
        }
        step
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}
