//! Creating and dropping tables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{Error, ErrorKind, FileId, Result};
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::commit::upkeep::log_needed_by;
use crate::db::state::State;
use crate::db::state::registered::Registered;
use crate::db::state::table::TableState;
use crate::db::throttle::Throttle;
use crate::table::edit::Edit;
use crate::table::files::FileKind;
use crate::table::seqnum_to_time::SeqnumToTime;
use crate::table::{Layout, TableOptions, Trees};
use crate::tree::btree::BTree;

use super::flusher::Flusher;

/// The longest name of a table in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Creates and drops the tables of a database.
#[derive(Debug)]
pub(crate) struct TableLifecycle {
    state: Arc<State>,
    throttle: Arc<Throttle>,
    commits: Arc<CommitPipeline>,
    flusher: Arc<Flusher>,
}

impl TableLifecycle {
    pub(crate) fn new(
        state: Arc<State>,
        throttle: Arc<Throttle>,
        commits: Arc<CommitPipeline>,
        flusher: Arc<Flusher>,
    ) -> Self {
        Self { state, throttle, commits, flusher }
    }

    /// Creates a table durably.
    pub(crate) fn create(&self, name: &str, options: TableOptions) -> Result<Arc<TableState>> {
        let state = &*self.state;
        state.health.check_writable()?;
        check_name(name)?;
        options.check()?;
        // Not part of that check, which stored options have to pass too: they are not damaged.
        options.compression.check_built(&format!("table '{name}'"))?;
        check_callbacks(state.tables.registered(), &options)?;
        let order = self.commits.order.lock();
        let mut tables = state.tables.lock();
        if let Some(existing) = tables.get(name) {
            let TableOptions { layout, logged, .. } = existing.options;
            let log = if logged { "" } else { " and without redo log" };
            let message = format!(
                "table '{name}' exists already, with layout {}{log}: drop it first, or give another name",
                layout.name()
            );
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let mut manifest = state.manifest.lock();
        let id = manifest.catalog().next_table;
        let btree = match options.layout {
            Layout::Lsm | Layout::LsmTiered => None,
            Layout::BTree => Some(state.or_poison(create_btree(state, &options))?),
        };
        let replay_from = self.commits.log.tail();
        let tree = btree.as_ref().map(|(file, _)| *file);
        let edit = Edit::CreateTable { id, name: name.to_owned(), options: options.clone(), replay_from, tree };
        state.or_poison(manifest.record(&edit)).inspect_err(|error| {
            let unused = tree.filter(|_| error.is_unchanged());
            unused.into_iter().for_each(|file| state.files.remove(FileKind::Tree, file));
        })?;
        let trees = Trees { btree: btree.as_ref().map(|(_, tree)| tree.root()), ..Trees::default() };
        let table = Arc::new(state.tables.table((id, name.to_owned(), options), trees, btree, SeqnumToTime::default()));
        tables.insert(name.to_owned(), Arc::clone(&table));
        drop((manifest, tables, order));
        state.wakers.wake_expiry();
        Ok(table)
    }

    /// Drops a table durably, then removes its files.
    pub(crate) fn drop(&self, name: &str) -> Result<()> {
        let state = &*self.state;
        state.health.check_writable()?;
        let gate = self.flusher.lock_gate();
        let order = self.commits.order.lock();
        let mut tables = state.tables.lock();
        let Some(table) = tables.get(name).cloned() else {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no table '{name}'")));
        };
        let mut manifest = state.manifest.lock();
        let others = tables.values().filter(|other| other.id != table.id);
        let log_from = log_needed_by(others, &[], self.commits.log.tail());
        state.or_poison(manifest.record(&Edit::DropTable { id: table.id, log_from }))?;
        table.dropped.store(true, Ordering::Release);
        tables.remove(name);
        state.counters.dropped_reads.add(table.reads.stats());
        drop((manifest, tables, order));
        // A compaction under way stops soon, and leaves nothing behind. Under the gate a verification does not meet the
        // files.
        drop(table.compaction.latch.lock());
        let (version, tree) = self.commits.empty(&table);
        version.memtables().for_each(|mem| self.throttle.budget.forget(mem));
        self.throttle.queue.admit(&self.throttle.budget);
        state.files.remove_runs(version.trees.runs().map(|handle| handle.id));
        state.files.remove_values(version.trees.values.iter());
        tree.into_iter().for_each(|file| state.files.remove(FileKind::Tree, file));
        drop(gate);
        self.throttle.trees_changed();
        state.or_poison(self.commits.release_log(log_from))
    }
}

/// Creates the file of a new table's B-tree, durably. A file for which there is no space or no descriptor is gone
/// again: nothing names it.
fn create_btree(state: &State, options: &TableOptions) -> Result<(FileId, Arc<BTree>)> {
    let file = state.files.new_id();
    let tree = state.files.create_btree(file, options).map_err(|error| {
        if error.kind() != ErrorKind::Full && !error.is_unchanged() {
            return error;
        }
        state.files.remove(FileKind::Tree, file);
        error.unchanged()
    })?;
    state.files.sync_dir()?;
    Ok((file, tree))
}

/// Refuses a new table whose merge operator or compaction filter nobody knows.
fn check_callbacks(registered: &Registered, options: &TableOptions) -> Result<()> {
    let (operators, filters) = (&registered.operators, &registered.filters);
    let known = |names: Vec<&String>| match names.is_empty() {
        true => String::new(),
        false => format!(", only {}", names.into_iter().cloned().collect::<Vec<_>>().join(", ")),
    };
    let unknown = |what: &str, name: &str, known: String, method: &str| {
        let message = format!("there is no {what} '{name}'{known}: open the database with DatabaseBuilder::{method}");
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

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!("a table's name has 1 to {NAME_BYTES_MAX} bytes, not {}", name.len())));
    }
    Ok(())
}
