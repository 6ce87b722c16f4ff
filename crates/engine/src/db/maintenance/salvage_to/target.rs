//! The copy that a salvage writes: one tree for each table, and a manifest that makes a database of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::num::{u64_of, usize_of32};
use crate::base::{Entry, FileId, Kind, Lsn, Result, SeqNum, TableId};
use crate::cache::Cache;
use crate::db::maintenance::copy_dir::{Copies, CopyDir};
use crate::db::state::directory::{identity, sync_above};
use crate::env::Env;
use crate::store::StoreStats;
use crate::table::LEVELS;
use crate::table::catalog::Catalog;
use crate::table::files::FileKind;
use crate::table::manifest::Manifest;
use crate::table::record::{RunRecord, TableRecord};
use crate::table::{Layout, TableOptions};
use crate::tree::btree::{BTree, TreeMeta, TreeOptions};
use crate::tree::gc::GcRule;
use crate::tree::merge::MergeCursor;
use crate::tree::run::{RunBuilder, RunOptions};
use crate::tree::values::ValueBuilder;
use crate::tree::{Cursor, MergeSource};

/// Progress is told after so many entries.
const ENTRIES_TOLD: u64 = 1 << 14;
/// A value file is about so many times as large as a run at most, as those of a compaction are.
const RUNS_A_FILE: u64 = 8;

/// A database that is being written.
pub(super) struct Target<'a> {
    env: &'a Env,
    dir: PathBuf,
    claimed: CopyDir,
    catalog: Catalog,
}

impl<'a> Target<'a> {
    /// Begins a database in the new or empty directory `dir`, whose commits will be newer than `seqnum_floor`. What a
    /// salvage to it left that was killed is removed.
    pub(super) fn create(env: &'a Env, dir: &Path, seqnum_floor: SeqNum) -> Result<Self> {
        let claimed = CopyDir::claim(env, dir, Copies::Salvage)?;
        let (database_id, next_file) = (env.random.next(), FileId(1));
        let catalog = Catalog { database_id, next_file, seqnum_floor, ..Catalog::default() };
        Ok(Self { env, dir: dir.to_owned(), claimed, catalog })
    }

    /// Writes a table like `record` of what `retain` keeps of `input`; says how many entries it has.
    pub(super) fn write_table(
        &mut self,
        id: TableId,
        record: &TableRecord,
        input: MergeCursor,
        gc: GcRule,
        tell: &mut dyn FnMut(),
    ) -> Result<u64> {
        let mut table = TableRecord::new(record.name.clone(), record.options.clone(), Lsn(0));
        table.seqnum_to_time.clone_from(&record.seqnum_to_time);
        let entries = if record.options.layout == Layout::BTree {
            let (file, meta) = self.write_btree(&record.options, input, gc, tell)?;
            table.tree = Some((file, meta));
            meta.entries
        } else {
            table.levels[LEVELS - 1] = self.write_runs(&record.options, input, gc, tell)?;
            table.runs().map(|run| run.meta.entries).sum()
        };
        self.catalog.tables.insert(id, table);
        Ok(entries)
    }

    fn write_btree(
        &mut self,
        options: &TableOptions,
        mut input: MergeCursor,
        mut gc: GcRule,
        tell: &mut dyn FnMut(),
    ) -> Result<(FileId, TreeMeta)> {
        let (id, identity, path) = self.new_file(FileKind::Tree);
        let (cache, stats) = (Arc::new(Cache::new(0)), Arc::<StoreStats>::default());
        let tree = BTree::create(
            self.env,
            &path,
            identity,
            TreeOptions { block_bytes: options.block_bytes, compression: options.compression, direct: false },
            cache,
            stats,
        )?;
        let turn = tree.merge_permit().expect("nobody else merges into a tree that was just made");
        let mut pause = || {
            tell();
            Ok(())
        };
        let pending = tree.merge(turn, &mut input, &mut gc, false, &mut pause)?;
        let meta = *pending.meta();
        tree.install(pending)?;
        Ok((id, meta))
    }

    fn write_runs(
        &mut self,
        options: &TableOptions,
        mut input: MergeCursor,
        mut gc: GcRule,
        tell: &mut dyn FnMut(),
    ) -> Result<Vec<RunRecord>> {
        let mut runs = Runs { target: self, options, run: None, values: None, key: Vec::new(), done: Vec::new() };
        input.first()?;
        for seen in 1u64.. {
            let Some(entry) = input.entry() else { break };
            let clean_to = if gc.compares_seqnums() { input.seqnum_bounds().smallest } else { SeqNum::ZERO };
            gc.push_from(clean_to, &entry, &mut |entry| runs.push(entry))?;
            if seen.is_multiple_of(ENTRIES_TOLD) {
                tell();
            }
            input.next()?;
        }
        gc.end_key(&mut |entry| runs.push(entry))?;
        runs.finish()
    }

    /// A new file's id, the identity of its blocks, and its path.
    fn new_file(&mut self, kind: FileKind) -> (FileId, u64, PathBuf) {
        let id = self.catalog.next_file;
        self.catalog.next_file = FileId(id.0 + 1);
        (id, identity(self.catalog.database_id, id), kind.path(&self.dir, id))
    }

    /// Makes a database of what was written, whose tables to come do not get ids that those of `source` had.
    pub(super) fn finish(mut self, source: &Catalog) -> Result<()> {
        self.catalog.next_table = source.next_table;
        let (id, _, _) = self.new_file(FileKind::Manifest);
        let made = Manifest::create(self.env, &self.dir, id, &self.catalog).map(drop);
        let made = made.and_then(|()| sync_above(self.env, &self.dir));
        if made.is_err() {
            self.claimed.empty();
        }
        self.claimed.release();
        made
    }

    /// Removes what was written.
    pub(super) fn remove(self) {
        self.claimed.empty();
        self.claimed.release();
    }
}

/// The runs of a table under way.
struct Runs<'t, 'a, 'o> {
    target: &'t mut Target<'a>,
    options: &'o TableOptions,
    run: Option<(FileId, RunBuilder)>,
    values: Option<ValueBuilder>,
    /// The key of the entry before. No key is empty.
    key: Vec<u8>,
    done: Vec<RunRecord>,
}

impl Runs<'_, '_, '_> {
    fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        let large_bytes = self.options.large_value_bytes;
        if large_bytes == 0 || entry.kind != Kind::Put || entry.value.len() < usize_of32(large_bytes) {
            return self.push_placed(entry);
        }
        let pointer = self.values(entry.value.len())?.push(entry.value)?.encode();
        self.push_placed(&Entry { kind: Kind::PutPointer, value: &pointer, ..*entry })
    }

    /// The value file that takes a value of so many bytes.
    fn values(&mut self, bytes: usize) -> Result<&mut ValueBuilder> {
        let bytes_max = RUNS_A_FILE * self.options.run_bytes_max;
        if let Some(full) = self.values.take_if(|values| values.bytes() + u64_of(bytes) > bytes_max) {
            full.finish()?;
        }
        match self.values {
            Some(ref mut values) => Ok(values),
            None => {
                let (id, identity, path) = self.target.new_file(FileKind::Values);
                let (env, compression) = (self.target.env, self.options.compression);
                let values = ValueBuilder::create(env, &path, id, identity, compression, false, Arc::default())?;
                Ok(self.values.insert(values))
            }
        }
    }

    fn push_placed(&mut self, entry: &Entry<'_>) -> Result<()> {
        // All versions of a key lie in one run.
        if self.key != entry.key {
            if self.run.as_ref().is_some_and(|(_, run)| run.bytes() >= self.options.run_bytes_max) {
                self.cut()?;
            }
            self.key.clear();
            self.key.extend_from_slice(entry.key);
        }
        if self.run.is_none() {
            let (id, identity, path) = self.target.new_file(FileKind::Run);
            let run = RunBuilder::create(self.target.env, &path, identity, self.run_options(), Arc::default())?;
            self.run = Some((id, run));
        }
        self.run.as_mut().map_or(Ok(()), |(_, run)| run.push(entry))
    }

    fn run_options(&self) -> RunOptions {
        let TableOptions { block_bytes, compression, prefix_filter, filter_bits_per_key, .. } = *self.options;
        RunOptions {
            block_bytes,
            compression,
            filter_bits_per_key: filter_bits_per_key.into(),
            filter_prefix: prefix_filter,
            direct: false,
        }
    }

    fn cut(&mut self) -> Result<()> {
        if let Some((id, run)) = self.run.take() {
            self.done.push(RunRecord { id, meta: run.finish()? });
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<RunRecord>> {
        self.cut()?;
        self.values.take().map_or(Ok(FileId(0)), ValueBuilder::finish)?;
        Ok(self.done)
    }
}
