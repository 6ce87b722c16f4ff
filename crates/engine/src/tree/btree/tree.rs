//! The tree as its owner has it: which root is installed, which are still read, and the merge that makes the next.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::base::sync::{AtomicBool, Mutex};

use super::file::TreeFile;
use super::format::TreeMeta;
use super::free_list::{extent, read_free_list};
use super::merge::Merge;
use super::output::Output;
use super::root::TreeRoot;
use super::roots::Roots;
use crate::base::num::{u32_of, u64_of, usize_of};
use crate::base::{Error, ErrorKind, Result};
use crate::block::format::RAW_PAYLOAD_AT;
use crate::block::frame::FRAME_HEADER_BYTES;
use crate::block::{Compression, raw_image};
use crate::cache::Cache;
use crate::env::{Access, Env};
use crate::store::space::{UNIT_BYTES, encode_extents};
use crate::store::{Allocation, BlockFile, Extent, ExtentWriter, SpaceMap, StoreStats};
use crate::tree::cursor::MergeSource;
use crate::tree::gc::GcRule;

/// How a tree writes its file. May differ from one opening to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// The size of a leaf in bytes before compression: larger ones compress and scan better, and cost more per lookup
    /// and per change.
    pub block_bytes: u32,
    /// How leaves are compressed. A block takes whole units of 4 KiB on disk, so that small leaves gain nothing.
    pub compression: Compression,
    /// Whether reads and writes pass the system's page cache by.
    pub direct: bool,
}

/// A tree in a file.
#[derive(Debug)]
pub struct BTree {
    pub(super) file: Arc<TreeFile>,
    options: TreeOptions,
    /// From the first merge on, or from the open.
    space: OnceLock<Space>,
    roots: Roots,
    birth: Mutex<Birth>,
    /// A merge is under way or its root pending. Publishes the space map's and roots' state from one merge to the next.
    merging: Arc<AtomicBool>,
}

/// The space of the file.
#[derive(Debug)]
struct Space {
    map: Arc<Mutex<SpaceMap>>,
    /// What is wrong with the list of free space. The tree can be read, and nothing is merged into it.
    damage: Option<Error>,
}

/// How far the file of a tree has come to be.
#[derive(Debug)]
enum Birth {
    /// The first merge creates it.
    Due(Env),
    /// It is there, but its name is not durable yet.
    Unsynced(Env),
    Done,
}

/// The root that a merge made, before it is installed. Dropping it gives the space of its blocks back, which is right
/// only while no durable manifest names it.
#[derive(Debug)]
pub struct PendingRoot {
    meta: TreeMeta,
    freed: Vec<Extent>,
    changes: u64,
    allocation: Allocation,
    // Dropped last: the next merge begins when the space is back.
    permit: MergePermit,
}

impl PendingRoot {
    /// What the manifest must say of the root before it is installed.
    #[must_use]
    pub const fn meta(&self) -> &TreeMeta {
        &self.meta
    }

    /// How many changes the merge met.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Bytes of the file that the merge wrote.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.allocation.bytes()
    }
}

/// The right to merge into a tree. At most one is held.
#[derive(Debug)]
pub struct MergePermit(Arc<AtomicBool>);

impl Drop for MergePermit {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl BTree {
    /// Creates an empty tree in a new file, which is synced (its directory is not). The blocks of the file are written
    /// under `identity`.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn create(
        env: &Env,
        path: &Path,
        identity: u64,
        options: TreeOptions,
        cache: Arc<Cache>,
        stats: Arc<StoreStats>,
    ) -> Result<Arc<Self>> {
        let blocks = BlockFile::open(env, path, identity, Access::CreateNew, options.direct, stats)?;
        let file = Arc::new(TreeFile { blocks, cache });
        file.write_header(&**file.blocks.file())?;
        file.sync()?;
        Ok(Self::new(file, options, TreeMeta::default(), Birth::Done))
    }

    /// Opens the tree whose installed root `meta` describes. Where its list of free space is damaged it can be read,
    /// and merges fail. The file of a tree into which nothing was merged yet need not exist: the first merge creates
    /// it.
    ///
    /// # Errors
    /// `Unsupported` when a newer version wrote the file, `Corruption` when it is not the file that belongs to `meta`.
    pub fn open(
        env: &Env,
        path: &Path,
        identity: u64,
        options: TreeOptions,
        meta: TreeMeta,
        cache: Arc<Cache>,
        stats: Arc<StoreStats>,
    ) -> Result<Arc<Self>> {
        let tree = Self::unread(env, path, identity, options, meta, cache, stats)?;
        tree.space()?;
        Ok(tree)
    }

    /// As [`Self::open`], but the header of the file and its list of free space are only read by the first merge.
    ///
    /// # Errors
    /// As [`Self::open`], where that tells an error without looking into the file.
    pub fn unread(
        env: &Env,
        path: &Path,
        identity: u64,
        options: TreeOptions,
        meta: TreeMeta,
        cache: Arc<Cache>,
        stats: Arc<StoreStats>,
    ) -> Result<Arc<Self>> {
        let blocks = BlockFile::open_lazily(env, path, identity, Access::Write, options.direct, stats)?;
        let file = Arc::new(TreeFile { blocks, cache });
        let birth = if meta.is_unwritten() { Birth::Due(env.clone()) } else { Birth::Done };
        Ok(Self::new(file, options, meta, birth))
    }

    /// The space of the file, of which the list of what is free is read the first time.
    fn space(&self) -> Result<&Space> {
        if let Some(space) = self.space.get() {
            return Ok(space);
        }
        let meta = *self.root().meta();
        if !meta.is_unwritten() {
            self.file.blocks.touch()?;
            self.file.check_header(meta.file_bytes)?;
        }
        let (free, damage) = match read_free_list(&self.file, &meta) {
            Ok(free) => (free, None),
            // Reads do not need it.
            Err(error) if error.kind() == ErrorKind::Corruption => (Vec::new(), Some(error)),
            Err(error) => return Err(error),
        };
        let map = Arc::new(Mutex::new(SpaceMap::new(meta.file_units(), &free)));
        Ok(self.space.get_or_init(|| Space { map, damage }))
    }

    /// The space of the file, which was known before.
    pub(super) fn space_map(&self) -> &Arc<Mutex<SpaceMap>> {
        &self.space.get().expect("a merge has read it").map
    }

    fn new(file: Arc<TreeFile>, options: TreeOptions, meta: TreeMeta, birth: Birth) -> Arc<Self> {
        let space = OnceLock::new();
        let installed = TreeRoot::new(Arc::clone(&file), meta);
        let roots = Roots::new(installed);
        let birth = Mutex::new(birth);
        Arc::new(Self { file, options, space, roots, birth, merging: Arc::default() })
    }

    /// The installed root.
    #[must_use]
    pub fn root(&self) -> Arc<TreeRoot> {
        self.roots.installed()
    }

    /// A root as whose reader nothing that is free now is given out, before it is dropped: for a tree that was opened
    /// while others may read older roots of it. None for a tree without blocks.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn keep_free(&self) -> Result<Option<Arc<TreeRoot>>> {
        let meta = *self.root().meta();
        if meta.is_unwritten() {
            return Ok(None);
        }
        let space = self.space()?;
        let kept = TreeRoot::new(Arc::clone(&self.file), meta);
        self.roots.keep_unknown(&kept);
        space.map.lock().keep_free(meta.generation);
        Ok(Some(kept))
    }

    /// The right to merge, unless a merge is under way or its root pending.
    #[must_use]
    pub fn merge_permit(&self) -> Option<MergePermit> {
        (!self.merging.swap(true, Ordering::Acquire)).then(|| MergePermit(Arc::clone(&self.merging)))
    }

    /// Merges `changes` into the installed root: entries of a key from the changes come before (are newer than) those
    /// of the tree, and `retain` decides over each entry of each leaf that is rewritten. With `rewrite` that is every
    /// leaf, and the tree comes out packed. Everything written is durable on return; nothing is visible before
    /// [`BTree::install`]. From time to time `pause` is called, whose error ends the merge.
    ///
    /// # Errors
    /// When the changes or a block cannot be read, the file cannot be written or synced, or the tree is corrupt: then
    /// the tree is as before.
    ///
    /// # Panics
    /// When the permit is of another tree.
    pub fn merge(
        &self,
        permit: MergePermit,
        changes: &mut dyn MergeSource,
        gc: &mut GcRule,
        rewrite: bool,
        pause: &mut dyn FnMut() -> Result<()>,
    ) -> Result<PendingRoot> {
        let pending = self.merge_unsynced(permit, changes, gc, rewrite, pause)?;
        self.sync().map(|()| pending)
    }

    /// As [`Self::merge`], but what is written is not durable: the caller syncs the file and its name, and says so by
    /// [`Self::synced`], before the manifest names the root.
    ///
    /// # Errors
    /// As [`Self::merge`].
    ///
    /// # Panics
    /// As [`Self::merge`].
    pub fn merge_unsynced(
        &self,
        permit: MergePermit,
        changes: &mut dyn MergeSource,
        gc: &mut GcRule,
        rewrite: bool,
        pause: &mut dyn FnMut() -> Result<()>,
    ) -> Result<PendingRoot> {
        assert!(Arc::ptr_eq(&permit.0, &self.merging), "a permit is for its own tree");
        let Space { map, damage } = self.space()?;
        if let Some(damage) = damage {
            return Err(damage.again());
        }
        self.create_file()?;
        self.file.blocks.touch()?;
        let base = *self.root().meta();
        self.roots.reclaim(map);

        let writer = ExtentWriter::new(&self.file.blocks, map);
        let output = Output::new(&self.file, writer, self.options.block_bytes, self.options.compression);
        let mut merge = Merge::new(&self.file, changes, gc, rewrite, pause, output);
        let merged = merge.run(&base);
        let (mut writer, mut freed, changes) = merge.into_parts();
        let mut meta = match merged {
            Ok(meta) => meta,
            // The failure of a write behind must not be hidden by the failed read that ended the merge.
            Err(error) => return Err(writer.abandon().err().unwrap_or(error)),
        };
        freed.extend(base.free_list.map(extent));
        meta = self.write_free_list(&mut writer, &freed, meta)?;
        let allocation = writer.finish()?;
        Ok(PendingRoot { meta, freed, changes, allocation, permit })
    }

    /// Creates the file, unless there is one.
    fn create_file(&self) -> Result<()> {
        let mut birth = self.birth.lock();
        if let Birth::Due(env) = &*birth {
            self.file.create(env, self.options.direct)?;
            *birth = Birth::Unsynced(env.clone());
        }
        Ok(())
    }

    /// The caller has made the file and its name durable.
    pub fn synced(&self) {
        let mut birth = self.birth.lock();
        if matches!(*birth, Birth::Unsynced(_)) {
            *birth = Birth::Done;
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Makes durable what was written, and the name of a new file.
    fn sync(&self) -> Result<()> {
        self.file.sync()?;
        let mut birth = self.birth.lock();
        if let (Birth::Unsynced(env), Some(dir)) = (&*birth, self.file.path().parent()) {
            env.fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
            *birth = Birth::Done;
        }
        Ok(())
    }

    /// Makes [`BTree::root`] return a pending root. The manifest must name it, durably. The caller keeps the permit.
    ///
    /// # Errors
    /// When the free end of the file could not be cut off. The root is installed all the same, and the tree in order.
    ///
    /// # Panics
    /// When the root is of another tree.
    pub fn install(&self, pending: PendingRoot) -> Result<MergePermit> {
        let PendingRoot { meta, freed, allocation, permit, .. } = pending;
        assert!(Arc::ptr_eq(&permit.0, &self.merging), "a root is installed in its own tree");
        let root = TreeRoot::new(Arc::clone(&self.file), meta);
        self.roots.install(root);
        for extent in &freed {
            self.file.cache.forget_block(self.file.blocks.instance(), extent.offset());
        }
        self.space_map().lock().free_after(meta.generation, freed);
        let cut = allocation.keep();
        if let Some(bytes) = cut {
            let cut = self.file.blocks.file().set_len(bytes);
            cut.map_err(|error| Error::io("cut", self.file.path(), error))?;
        }
        Ok(permit)
    }

    /// Gives the file system back the space of free blocks, but for about `keep_bytes` of it. They stay part of the
    /// file, as holes. The permit says that no merge writes to one of them.
    ///
    /// # Errors
    /// When the file system refuses.
    ///
    /// # Panics
    /// When the permit is of another tree.
    pub fn punch_free(&self, permit: &MergePermit, keep_bytes: u64) -> Result<()> {
        assert!(Arc::ptr_eq(&permit.0, &self.merging), "a permit is for its own tree");
        let extents = {
            let map = &self.space()?.map;
            self.roots.reclaim(map);
            map.lock().longest_free(keep_bytes / UNIT_BYTES)
        };
        for extent in extents {
            let punched = self.file.blocks.file().punch_hole(extent.offset(), extent.units * UNIT_BYTES);
            punched.map_err(|error| Error::io("punch a hole into", self.file.path(), error))?;
        }
        Ok(())
    }

    /// Appends the list of what a new root does not reach, `freed` and all that was free before; completes its `meta`.
    fn write_free_list(&self, writer: &mut ExtentWriter<'_>, freed: &[Extent], meta: TreeMeta) -> Result<TreeMeta> {
        // The list takes space itself, which changes it: by less than this many bytes.
        const SLACK_BYTES: usize = 64;
        const HEADERS_BYTES: usize = FRAME_HEADER_BYTES + RAW_PAYLOAD_AT;
        let list = || {
            let extents = self.space_map().lock().unreachable(freed).map_err(|_| self.file.unfit())?;
            let mut bytes = Vec::new();
            encode_extents(&extents, &mut bytes);
            Result::Ok((bytes, extents.iter().map(|extent| extent.units).sum::<u64>()))
        };
        let (estimate, _) = list()?;
        let units = u64_of(HEADERS_BYTES + estimate.len() + SLACK_BYTES).div_ceil(UNIT_BYTES);
        drop(estimate);
        writer.reserve_last(units)?;
        let (bytes, free_units) = list()?;
        let mut image = raw_image(usize_of(units * UNIT_BYTES) - HEADERS_BYTES);
        image[RAW_PAYLOAD_AT..][..bytes.len()].copy_from_slice(&bytes);
        let pointer = writer.append(&image, Compression::None)?;
        assert_eq!(pointer.bytes, u32_of(usize_of(units * UNIT_BYTES)), "the list fills the space reserved for it");
        let end = self.space_map().lock().end();
        let (file_bytes, free_bytes) = (end * UNIT_BYTES, free_units * UNIT_BYTES);
        Ok(TreeMeta { file_bytes, free_bytes, free_list: Some(pointer), ..meta })
    }
}
