//! An open table: what it is, what readers see of it, and what its background work needs to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::base::sync::Mutex;
use crate::base::{Error, FileId, Result, SeqNum, TableId};
use crate::table::reads::ReadCounters;
use crate::table::seqnum_to_time::SeqnumToTime;
use crate::table::{TableOptions, Trees, Version};
use crate::tree::btree::BTree;
use crate::tree::compaction_filter::TableFilter;
use crate::tree::gc::GcRule;
use crate::tree::memtable::ChunkPool;
use crate::tree::operator::TableOperator;
use crate::tree::range_tombstone::RangeTombstones;

use super::expiry::Expiry;
use super::read_charges::ReadCharges;
use super::registered::Registered;
use super::retry::Retry;
use super::wakers::Wakers;

/// An open table.
#[derive(Debug)]
pub(crate) struct TableState {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) options: TableOptions,
    pub(crate) callbacks: Callbacks,
    /// What readers see. Memtables are swapped under the commit latch, trees under the manifest store's.
    pub(crate) version: ArcSwap<Version>,
    /// Where its memtables take their memory from.
    pub(crate) memtable_chunks: Arc<ChunkPool>,
    /// What reads cost.
    pub(crate) reads: ReadCounters,
    /// What reads have paid for extra trees.
    pub(crate) charges: ReadCharges,
    /// The B-tree of a table whose layout has one, until the table is dropped.
    btree: ArcSwapOption<(FileId, Arc<BTree>)>,
    /// How old its entries are, when they have a time to live.
    pub(crate) expiry: Option<Expiry>,
    pub(crate) compaction: CompactionState,
    /// The seqnum of the first commit that could change it; zero for a table that an earlier open created.
    pub(crate) created_at: SeqNum,
    /// Held by the thread that merges the sets of the table's range tombstones in memory.
    pub(crate) tombstone_merge: Mutex<()>,
    /// Set under the commit latch when the table is dropped; later commits and reads refuse.
    pub(crate) dropped: AtomicBool,
}

/// What the table's options name of what the program has registered.
#[derive(Debug)]
pub(crate) struct Callbacks {
    pub(crate) operator: TableOperator,
    pub(crate) filter: TableFilter,
}

/// What the compaction of a table keeps between its steps.
#[derive(Debug, Default)]
pub(crate) struct CompactionState {
    /// Held by the thread that compacts the table.
    pub(crate) latch: Mutex<()>,
    /// No compaction of the table begins by itself. A thread that has held the latch after it was set knows that none
    /// is under way.
    pub(crate) held: AtomicBool,
    /// A load is under way whose entries are older than all that the table holds: tombstones are kept for them, and
    /// nothing comes to where they will lie. Changes under the flush gate.
    pub(crate) loads_below: AtomicBool,
    /// Whether a flush of the table was planned, which may have dropped tombstones. Set under the flush gate.
    pub(crate) was_flushed: AtomicBool,
    /// When the background compacts the table again, after it could not.
    pub(crate) retry: Retry,
    /// When the background merges runs into the B-tree again, after it could not.
    pub(crate) merge_retry: Retry,
    /// The first and last key of what the running compaction merges into a level. The compaction sets it after it has
    /// chosen its inputs and clears it after its last result is installed. A bulk load that holds this latch and sees a
    /// range knows where results may still come.
    pub(crate) target_range: Mutex<Option<(Vec<u8>, Vec<u8>)>>,
    /// The files of which no sorted view could be made. Locked by the thread that holds the latch.
    pub(crate) unviewable: Mutex<Vec<FileId>>,
    /// The step of the background in which the table was last compacted. Steers only.
    pub(crate) last_step: AtomicU64,
}

impl TableState {
    /// A table with these trees on disk and nothing in memory.
    pub(super) fn new(
        (id, name, options): (TableId, String, TableOptions),
        created_at: SeqNum,
        (registered, wakers, memtable_chunks): (&Registered, Arc<Wakers>, Arc<ChunkPool>),
        trees: Trees,
        btree: Option<(FileId, Arc<BTree>)>,
        seqnum_to_time: SeqnumToTime,
    ) -> Self {
        let operator = TableOperator::find(options.merge.as_deref(), &registered.operators);
        let filter = TableFilter::find(options.compaction_filter.as_deref(), &registered.filters);
        let expiry = options.time_to_live.map(|time| Expiry::new(time, seqnum_to_time));
        Self {
            id,
            name,
            options,
            callbacks: Callbacks { operator, filter },
            version: ArcSwap::from_pointee(Version::of_trees(trees, &memtable_chunks)),
            memtable_chunks,
            reads: ReadCounters::default(),
            charges: ReadCharges::new(wakers),
            btree: ArcSwapOption::from_pointee(btree),
            expiry,
            compaction: CompactionState::default(),
            created_at,
            tombstone_merge: Mutex::new(()),
            dropped: AtomicBool::new(false),
        }
    }

    /// What the table's flushes and compactions may drop and change.
    pub(crate) fn gc_rule(&self, snapshots: Vec<SeqNum>, published: SeqNum, bottom: bool) -> GcRule {
        // What is loaded below is not there yet, and older.
        let gc = GcRule::new(snapshots, published, bottom && !self.is_loading_below());
        let Callbacks { operator, filter } = &self.callbacks;
        gc.with_operator(operator.clone()).with_filter(filter.clone()).keeping_seqnums(self.expiry.is_some())
    }

    /// Whether runs are compacted when the layout wants it.
    pub(crate) fn compacts_itself(&self) -> bool {
        !self.compaction.held.load(Ordering::Relaxed) && !self.is_loading_below()
    }

    /// Whether a load is under way whose entries are older than all that the table holds.
    pub(crate) fn is_loading_below(&self) -> bool {
        self.compaction.loads_below.load(Ordering::Acquire)
    }

    /// Refuses to compact while a load is under way whose entries are older than all that the table holds.
    pub(crate) fn check_not_loading(&self) -> Result<()> {
        if self.is_loading_below() {
            let message = format!("a bulk load below the writes of table '{}' is under way: end it first", self.name);
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// The trees that readers see now.
    pub(crate) fn trees(&self) -> Arc<Trees> {
        Arc::clone(&self.version.load().trees)
    }

    /// The B-tree of a table whose layout has one, and that was not dropped.
    pub(crate) fn btree(&self) -> Option<Arc<BTree>> {
        self.btree.load().as_ref().map(|tree| Arc::clone(&tree.1))
    }

    /// Shows readers other trees. The caller holds the manifest store.
    pub(crate) fn show(&self, trees: Trees) {
        let trees = Arc::new(trees);
        self.version.rcu(|version| version.with_trees(&trees, &[], SeqNum::ZERO));
    }

    /// Adds range tombstones to the version. Snapshots see them when their commit is published.
    pub(crate) fn add_range_tombstones(&self, range_tombstones: RangeTombstones) {
        if !range_tombstones.is_empty() {
            let range_tombstones = Arc::new(range_tombstones);
            self.version.rcu(|version| version.with_range_tombstones(version.range_tombstones.with(&range_tombstones)));
        }
    }

    /// Lets go of all that a dropped table holds, so that handles of it keep neither memory nor files; what it was, and
    /// the file of its B-tree. The caller holds the commit latch: no commit is about to change what readers see.
    pub(crate) fn empty(&self) -> (Arc<Version>, Option<FileId>) {
        let nothing = Version::of_trees(Trees::default(), &self.memtable_chunks);
        let version = self.version.swap(Arc::new(nothing));
        (version, self.btree.swap(None).map(|tree| tree.0))
    }

    /// Refuses a value that the table's merge operator cannot use.
    #[inline]
    pub(crate) fn check_value(&self, value: &[u8]) -> Result<()> {
        self.callbacks.operator.check_value(value).map_err(|error| error.context(format_args!("table '{}'", self.name)))
    }

    /// Refuses when the table was dropped.
    pub(crate) fn check(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::dropped(&self.name));
        }
        Ok(())
    }
}

/// Finds the tables that the changes of a commit are of. Mostly a change is of the same table as the one before.
pub(crate) struct TableFinder<'a> {
    tables: &'a [Arc<TableState>],
    at: usize,
}

impl<'a> TableFinder<'a> {
    /// Among the tables of a commit.
    pub(crate) const fn new(tables: &'a [Arc<TableState>]) -> Self {
        Self { tables, at: 0 }
    }

    /// The index of a table.
    #[inline]
    pub(crate) fn find(&mut self, id: TableId) -> usize {
        if self.tables[self.at].id != id {
            self.at = self.tables.iter().position(|table| table.id == id).expect("a batch names its tables");
        }
        self.at
    }
}
