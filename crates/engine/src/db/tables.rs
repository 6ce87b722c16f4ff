//! Creating and dropping tables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{Error, ErrorKind, FileId, Result};
use crate::store::StoreStats;
use crate::table::edit::Edit;
use crate::table::files::FileKind;
use crate::table::seqnum_to_time::SeqnumToTime;
use crate::table::{Layout, TableOptions, Trees};
use crate::tree::btree::{BTree, TreeOptions};

use super::core::{Core, TableState};

/// The longest name of a table in bytes.
const NAME_BYTES_MAX: usize = 255;

impl Core {
    /// Creates a table durably.
    pub(crate) fn create_table(&self, name: &str, options: TableOptions) -> Result<Arc<TableState>> {
        self.check_writable()?;
        check_name(name)?;
        options.check()?;
        // Not part of that check, which stored options have to pass too: they are not damaged.
        options.compression.check_built(&format!("table '{name}'"))?;
        self.check_names(&options)?;
        let commit = self.commit.lock();
        let mut tables = self.tables.write();
        if let Some(existing) = tables.get(name) {
            let TableOptions { layout, logged, .. } = existing.options;
            let log = if logged { "" } else { " and without redo log" };
            let message = format!(
                "table '{name}' exists already, with layout {}{log}: drop it first, or give another name",
                layout.name()
            );
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let mut ledger = self.ledger.lock();
        let id = ledger.catalog.next_table;
        let btree = match options.layout {
            Layout::Lsm | Layout::LsmTiered => None,
            Layout::BTree => Some(self.or_poison(self.create_btree(&options))?),
        };
        let replay_from = self.log().tail();
        let tree = btree.as_ref().map(|(file, _)| *file);
        let edit = Edit::CreateTable { id, name: name.to_owned(), options: options.clone(), replay_from, tree };
        self.or_poison(self.record(&mut ledger, &edit)).inspect_err(|error| {
            tree.filter(|_| error.is_unchanged()).into_iter().for_each(|file| self.remove_tree(file));
        })?;
        let trees = Trees { btree: btree.as_ref().map(|(_, tree)| tree.root()), ..Trees::default() };
        let seqnum_to_time = SeqnumToTime::default();
        let state =
            Arc::new(TableState::new(id, name.to_owned(), options, &self.registered, trees, btree, seqnum_to_time));
        tables.insert(name.to_owned(), Arc::clone(&state));
        drop((ledger, tables, commit));
        self.wake_expire();
        Ok(state)
    }

    /// Creates the file of a new table's B-tree, durably. A file for which there is no space or no descriptor is gone
    /// again: nothing names it.
    fn create_btree(&self, options: &TableOptions) -> Result<(FileId, Arc<BTree>)> {
        let file = self.new_file();
        let tree = BTree::create(
            &self.env,
            &FileKind::Tree.path(&self.dir, file),
            self.identity(file),
            tree_options(options, self.options.direct_io),
            Arc::clone(&self.cache),
            Arc::<StoreStats>::clone(&self.store_stats),
        );
        let tree = tree.map_err(|error| {
            if error.kind() != ErrorKind::Full && !error.is_unchanged() {
                return error;
            }
            self.remove_tree(file);
            error.unchanged()
        })?;
        self.sync_dir()?;
        Ok((file, tree))
    }

    fn remove_tree(&self, file: FileId) {
        self.remove(&FileKind::Tree.path(&self.dir, file));
    }

    /// Refuses a new table whose merge operator or compaction filter nobody knows.
    fn check_names(&self, options: &TableOptions) -> Result<()> {
        let (operators, filters) = (&self.registered.operators, &self.registered.filters);
        let known = |names: Vec<&String>| match names.is_empty() {
            true => String::new(),
            false => format!(", only {}", names.into_iter().cloned().collect::<Vec<_>>().join(", ")),
        };
        let unknown = |what: &str, name: &str, known: String, method: &str| {
            let message =
                format!("there is no {what} '{name}'{known}: open the database with DatabaseBuilder::{method}");
            Err(Error::invalid(message))
        };
        match (&options.merge, &options.compaction_filter) {
            (Some(name), _) if !operators.contains_key(name) => {
                unknown("merge operator", name, known(operators.keys().collect()), "merge_operator")
            }
            (_, Some(name)) if !filters.contains_key(name) => {
                unknown("compaction filter", name, known(filters.keys().collect()), "compaction_filter")
            }
            _ => Ok(()),
        }
    }

    /// Drops a table durably, then removes its files.
    pub(crate) fn drop_table(&self, name: &str) -> Result<()> {
        self.check_writable()?;
        let gate = self.flush_gate.lock();
        let commit = self.commit.lock();
        let mut tables = self.tables.write();
        let Some(state) = tables.get(name).cloned() else {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no table '{name}'")));
        };
        let mut ledger = self.ledger.lock();
        let others = tables.values().filter(|table| table.id != state.id);
        let log_from = self.log_needed_by(others, &[]);
        self.or_poison(self.record(&mut ledger, &Edit::DropTable { id: state.id, log_from }))?;
        state.dropped.store(true, Ordering::Release);
        tables.remove(name);
        self.counters.dropped_reads.add(state.reads.stats());
        drop((ledger, tables, commit));
        // A compaction under way stops soon, and leaves nothing behind. Under the gate a verification does not meet the
        // files.
        drop(state.compaction.lock());
        let (version, tree) = state.empty(&mut self.commit.lock());
        version.memtables().for_each(|mem| self.memory.forget(mem));
        self.room.admit(&self.memory);
        self.remove_runs(version.trees.runs().map(|handle| handle.id));
        self.remove_values(version.trees.values.iter());
        tree.into_iter().for_each(|file| self.remove_tree(file));
        drop(gate);
        self.rebalance();
        self.or_poison(self.release_log(log_from))
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!("a table's name has 1 to {NAME_BYTES_MAX} bytes, not {}", name.len())));
    }
    Ok(())
}

/// What of a table's options concerns its B-tree.
pub(crate) fn tree_options(options: &TableOptions, direct: bool) -> TreeOptions {
    TreeOptions { block_bytes: options.block_bytes, compression: options.compression, direct }
}
