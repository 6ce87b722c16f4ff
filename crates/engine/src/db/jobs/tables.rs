//! Creating and dropping tables.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{Error, ErrorKind, FileId, Result, TableId};
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
use crate::tree::btree::{BTree, TreeMeta};

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
    pub(crate) fn create_one(&self, name: &str, options: TableOptions) -> Result<Arc<TableState>> {
        let created = self.create(vec![(name.to_owned(), options)])?;
        Ok(created.into_iter().next().expect("as many are created as are wanted"))
    }

    /// Creates tables durably, by one record in the manifest: all or none.
    pub(crate) fn create(&self, wanted: Vec<(String, TableOptions)>) -> Result<Vec<Arc<TableState>>> {
        let state = &*self.state;
        state.health.check_writable()?;
        check_wanted(state.tables.registered(), &wanted)?;
        let order = self.commits.order.lock();
        let mut tables = state.tables.lock();
        if let Some(existing) = wanted.iter().find_map(|(name, _)| tables.get(name)) {
            return Err(already_exists(existing));
        }
        let mut manifest = state.manifest.lock();
        let first = manifest.catalog().next_table.0;
        let replay_from = self.commits.log.tail();
        let (mut created, mut edits) = (Vec::with_capacity(wanted.len()), Vec::with_capacity(wanted.len()));
        for (id, (name, options)) in (first..).map(TableId).zip(wanted) {
            let btree = (options.layout == Layout::BTree).then(|| new_btree(state, &options)).transpose()?;
            let tree = btree.as_ref().map(|(file, _)| *file);
            edits.push(Edit::CreateTable { id, name: name.clone(), options: options.clone(), replay_from, tree });
            let trees = Trees { btree: btree.as_ref().map(|(_, tree)| tree.root()), ..Trees::default() };
            created.push(Arc::new(state.tables.table(
                (id, name, options),
                order.next_seqnum,
                trees,
                btree,
                SeqnumToTime::default(),
            )));
        }
        state.or_poison(manifest.record_all(edits))?;
        tables.extend(created.iter().map(|table| (table.name.clone(), Arc::clone(table))));
        drop((manifest, tables, order));
        state.wakers.wake_expiry();
        Ok(created)
    }

    /// Drops tables durably, by one record in the manifest: all or none. Then removes their files.
    pub(crate) fn drop(&self, names: &[String]) -> Result<()> {
        let state = &*self.state;
        state.health.check_writable()?;
        let gate = self.flusher.lock_gate();
        let order = self.commits.order.lock();
        let mut tables = state.tables.lock();
        let found = |name: &String| {
            let missing = || Error::new(ErrorKind::NotFound, format!("there is no table '{name}'"));
            tables.get(name).cloned().ok_or_else(missing)
        };
        let dropped = names.iter().map(found).collect::<Result<Vec<_>>>()?;
        let ids: BTreeSet<_> = dropped.iter().map(|table| table.id).collect();
        if ids.len() < dropped.len() {
            return Err(Error::invalid("the name of a table that is to be dropped is given twice"));
        }
        let mut manifest = state.manifest.lock();
        let others = tables.values().filter(|other| !ids.contains(&other.id));
        let log_from = log_needed_by(others, &[], self.commits.log.tail());
        let edits = ids.iter().map(|id| Edit::DropTable { id: *id, log_from });
        state.or_poison(manifest.record_all(edits.collect()))?;
        for table in &dropped {
            table.dropped.store(true, Ordering::Release);
            tables.remove(&table.name);
            state.counters.dropped_reads.add(table.reads.stats());
        }
        drop((manifest, tables, order));
        state.files.remove_many(dropped.iter().flat_map(|table| self.give_up_data(table)).collect());
        self.throttle.queue.admit(&self.throttle.budget);
        drop(gate);
        self.throttle.trees_changed();
        state.wakers.wake_housekeeping();
        state.or_poison(self.commits.release_log(log_from))
    }

    /// Lets go of what a dropped table held; its files, which nothing needs any more. The caller holds the flush gate:
    /// a verification does not meet them.
    fn give_up_data(&self, table: &TableState) -> Vec<(FileKind, FileId)> {
        // A compaction under way stops soon, and leaves nothing behind.
        drop(table.compaction.latch.lock());
        let (version, tree) = self.commits.empty(table);
        version.memtables().for_each(|mem| self.throttle.budget.forget(mem));
        let runs = version.trees.runs().map(|handle| (FileKind::Run, handle.id));
        let values = version.trees.values.iter().map(|file| (FileKind::Values, file.id()));
        // A file that is still held when it is removed is opened for its holder.
        runs.chain(values).chain(tree.map(|file| (FileKind::Tree, file))).collect()
    }
}

/// The B-tree of a new table. Its file is created by the first merge into it.
fn new_btree(state: &State, options: &TableOptions) -> Result<(FileId, Arc<BTree>)> {
    let file = state.files.new_id();
    Ok((file, state.files.open_btree(file, options, TreeMeta::default(), true)?))
}

#[cold]
fn already_exists(existing: &TableState) -> Error {
    let (name, TableOptions { layout, logged, .. }) = (&existing.name, &existing.options);
    let log = if *logged { "" } else { " and without redo log" };
    let message = format!(
        "table '{name}' exists already, with layout {}{log}: drop it first, or give another name",
        layout.name()
    );
    Error::new(ErrorKind::AlreadyExists, message)
}

/// Refuses new tables that cannot be, or whose names are the same.
fn check_wanted(registered: &Registered, wanted: &[(String, TableOptions)]) -> Result<()> {
    let mut names = BTreeSet::new();
    for (name, options) in wanted {
        check_name(name)?;
        options.check()?;
        // Not part of that check, which stored options have to pass too: they are not damaged.
        options.compression.check_built(&format!("table '{name}'"))?;
        check_callbacks(registered, options)?;
        if !names.insert(name) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("table '{name}' is to be created twice")));
        }
    }
    Ok(())
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
