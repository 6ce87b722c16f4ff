//! The compaction: runs are merged into fewer, as the table's layout wants it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{Error, ErrorKind, Result};
use crate::cache::Fill;
use crate::table::catalog::RunRecord;
use crate::table::edit::Edit;
use crate::table::files::FileKind;
use crate::table::policy::{self, Compaction};
use crate::table::version::LEVELS;
use crate::table::{Place, RunHandle, Trees, Version};
use crate::tree::Cursor;
use crate::tree::merge::MergeCursor;
use crate::tree::retain::Retain;
use crate::tree::run::LevelCursor;

use super::core::{Core, TableState};
use super::run_writer::RunWriter;

impl Core {
    /// Does the next compaction that the table's layout wants; false when there is none.
    pub(crate) fn compact_step(&self, table: &Arc<TableState>) -> Result<bool> {
        let _compacting = table.compaction.lock();
        self.health.check_writable()?;
        if table.check().is_err() || !table.compacts_itself() {
            return Ok(false);
        }
        let trees = Arc::clone(&table.version.load().trees);
        let Some(compaction) = policy::pick(&trees, &table.options, u64::MAX) else { return Ok(false) };
        self.carry_out(table, &compaction)?;
        Ok(true)
    }

    /// Merges all of a level into the next one below it; L0 is number 0.
    pub(crate) fn compact_level(&self, table: &Arc<TableState>, number: usize) -> Result<()> {
        self.health.check_writable()?;
        if table.btree.is_some() {
            let message = format!("table '{}' is one B-tree and has no levels: compact all of it", table.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if number > LEVELS {
            return Err(Error::invalid(format!("there is no level {number}: the last one is {LEVELS}")));
        }
        let compacting = table.compaction.lock();
        table.check()?;
        let trees = Arc::clone(&table.version.load().trees);
        let done = match policy::pick_level(&trees, &table.options, number) {
            Some(compaction) => self.carry_out(table, &compaction),
            None => Ok(()),
        };
        drop(compacting);
        // The level below may be over its target now.
        self.wake_compact();
        done
    }

    /// Lets no compaction of the table begin by itself, and returns when none runs any more; or lets them go on.
    pub(crate) fn hold(&self, table: &Arc<TableState>, hold: bool) {
        table.held.store(hold, Ordering::Relaxed);
        if hold {
            // Whoever takes the latch after this sees the flag.
            drop(table.compaction.lock());
        }
        self.rebalance();
        self.wake_compact();
    }

    /// Flushes, then merges all trees of the table into one.
    pub(crate) fn compact_all(&self, table: &Arc<TableState>) -> Result<()> {
        self.flush_all(table)?;
        if let Some((_, btree)) = &table.btree {
            return self.rewrite_btree(table, btree);
        }
        let _compacting = table.compaction.lock();
        table.check()?;
        let trees = Arc::clone(&table.version.load().trees);
        match policy::pick_all(&trees) {
            Some(compaction) => self.run_compaction(table, &compaction),
            None => Ok(()),
        }
    }

    fn carry_out(&self, table: &TableState, compaction: &Compaction) -> Result<()> {
        if !compaction.is_trivial_move(&table.options) {
            return self.run_compaction(table, compaction);
        }
        let moved = compaction.inputs().cloned().collect();
        self.or_poison(self.install_compaction(table, compaction, moved))
    }

    fn run_compaction(&self, table: &TableState, compaction: &Compaction) -> Result<()> {
        let Some(merged) = self.or_poison(self.merge_runs(table, compaction))? else { return Ok(()) };
        let read: u64 = compaction.inputs().map(|handle| handle.run.meta().bytes).sum();
        let written: u64 = merged.iter().map(|handle| handle.run.meta().bytes).sum();
        self.or_poison(self.install_compaction(table, compaction, merged))?;
        for handle in compaction.inputs() {
            self.remove(&FileKind::Run.path(&self.dir, handle.id));
        }
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.counters.compaction_read_bytes.fetch_add(read, Ordering::Relaxed);
        self.counters.compaction_write_bytes.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }

    /// Merges the inputs into new runs; nothing refers to them yet. `None` when the table was dropped meanwhile.
    fn merge_runs(&self, table: &TableState, compaction: &Compaction) -> Result<Option<Vec<RunHandle>>> {
        let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
        for handle in &compaction.l0 {
            sources.push(Box::new(handle.run.cursor(Fill::Bypass)));
        }
        for (_, runs) in &compaction.levels {
            let runs = runs.iter().map(|handle| Arc::clone(&handle.run)).collect();
            sources.push(Box::new(LevelCursor::new(runs, Fill::Bypass)));
        }
        let mut input = MergeCursor::new(sources);
        let (snapshots, published) = self.snapshots.live();
        let mut retain = Retain::new(snapshots, published, compaction.bottom).folding(table.operator.clone());
        let run_bytes_max = if compaction.target == Place::L0 { u64::MAX } else { table.options.run_bytes_max };
        let cuts = policy::cuts(&table.version.load().trees, compaction.target);
        let mut writer = RunWriter::new(self, &table.options, run_bytes_max).with_cuts(cuts);
        let mut seen = 0u64;
        input.first()?;
        while let Some(entry) = input.entry() {
            seen += 1;
            retain.push(&entry, &mut |entry| writer.push(entry))?;
            // A long compaction must not keep a closed or failed database waiting, nor the drop of its table.
            if seen.is_multiple_of(1 << 16) {
                self.health.check_writable()?;
                if table.check().is_err() {
                    writer.discard();
                    return Ok(None);
                }
                if compaction.target != Place::L0 {
                    self.relieve(table, compaction)?;
                }
            }
            input.next()?;
        }
        retain.end_key(&mut |entry| writer.push(entry))?;
        let output = writer.finish()?;
        let expected: u64 = compaction.inputs().map(|handle| handle.run.meta().entries).sum();
        let written: u64 = output.iter().map(|handle| handle.run.meta().entries).sum();
        if seen != expected || written + retain.dropped() != seen {
            let message = format!(
                "table '{}': a compaction read {seen} of {expected} entries, dropped {} and wrote {written}: run verify",
                table.name,
                retain.dropped()
            );
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        Ok(Some(output))
    }

    /// In a pause of a long compaction: merges the runs that have gathered in L0 meanwhile, of this table and of others that nobody
    /// compacts. It is the one piece of work that a compaction is interrupted for: it is small, and every read waits for it.
    pub(crate) fn relieve(&self, table: &TableState, busy: &Compaction) -> Result<()> {
        for other in self.all_tables() {
            let is_own = other.id == table.id;
            let latch = if is_own { None } else { other.compaction.try_lock() };
            if (latch.is_none() && !is_own) || !other.compacts_itself() || other.check().is_err() {
                continue;
            }
            let busy = if is_own { busy.removed() } else { Vec::new() };
            let merge = || policy::pick_within_l0(&other.version.load().trees, &busy, u64::MAX);
            while let Some(merge) = merge() {
                self.run_compaction(&other, &merge)?;
            }
        }
        Ok(())
    }

    /// Records the compaction in the manifest, then shows readers the result instead of the inputs.
    fn install_compaction(&self, table: &TableState, compaction: &Compaction, output: Vec<RunHandle>) -> Result<()> {
        let mut ledger = self.ledger.lock();
        if table.check().is_err() {
            for handle in output {
                self.remove(&FileKind::Run.path(&self.dir, handle.id));
            }
            return Ok(());
        }
        let removed = compaction.removed();
        let added = output
            .iter()
            .map(|handle| (compaction.target, RunRecord { id: handle.id, meta: handle.run.meta().clone() }));
        let edit = Edit::Compact { table: table.id, removed: removed.clone(), added: added.collect() };
        self.record(&mut ledger, &edit)?;
        table.show(table.version.load().trees.replaced(&removed, compaction.target, &output));
        drop(ledger);
        self.rebalance();
        Ok(())
    }

    /// Rewrites a B-tree so that its leaves are full and its file has no holes left by dropped entries.
    fn rewrite_btree(&self, table: &TableState, btree: &crate::tree::btree::BTree) -> Result<()> {
        let _gate = self.flush_gate.lock();
        self.health.check_writable()?;
        table.check()?;
        let (snapshots, published) = self.snapshots.live();
        let mut retain = Retain::new(snapshots, published, true).folding(table.operator.clone());
        let pending = self.or_poison(btree.merge(&mut MergeCursor::new(Vec::new()), &mut retain, true))?;
        let mut ledger = self.ledger.lock();
        let replay_from = ledger.catalog.tables[&table.id].replay_from;
        let tree = Some(*pending.meta());
        let edit = Edit::Flush { table: table.id, replay_from, log_from: ledger.catalog.log_from, run: None, tree };
        self.or_poison(self.record(&mut ledger, &edit))?;
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.counters.compaction_write_bytes.fetch_add(pending.written_bytes(), Ordering::Relaxed);
        self.or_poison(btree.install(pending))?;
        let mut trees = Trees::clone(&table.version.load().trees);
        trees.btree = Some(btree.root());
        table.show(trees);
        Ok(())
    }
}

impl TableState {
    /// Shows readers other trees. The caller holds the ledger.
    pub(crate) fn show(&self, trees: Trees) {
        let trees = Arc::new(trees);
        self.version.rcu(|version| Version {
            active: Arc::clone(&version.active),
            immutables: version.immutables.clone(),
            trees: Arc::clone(&trees),
        });
    }
}
