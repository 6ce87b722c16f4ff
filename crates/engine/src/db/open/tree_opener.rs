//! The trees of all tables when a database is opened. Where there are more files than may have descriptors, none of the
//! runs and value files is read, or even opened, before it is first used: what the directory says of them is checked.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::base::{Error, FileId, Result, SeqNum, TableId};
use crate::db::state::directory::NamedFiles;
use crate::db::state::files::DataFiles;
use crate::db::state::table::TableState;
use crate::db::state::tables::TableSet;
use crate::env::{DESCRIPTORS_MAX, DirEntry};
use crate::table::catalog::Catalog;
use crate::table::files::FileKind;
use crate::table::record::{RunRecord, TableRecord};
use crate::table::{Level, RunHandle, Trees};
use crate::tree::values::ValueFiles;

/// Opens the trees of tables.
pub(super) struct TreeOpener<'a> {
    files: &'a DataFiles,
    tables: &'a TableSet,
    dir: &'a Path,
    /// The bytes of each file by name, where files are not opened now.
    bytes: Option<HashMap<&'a str, u64>>,
}

impl<'a> TreeOpener<'a> {
    /// For the tables of `catalog`, in a directory with these entries.
    pub(super) fn new(
        files: &'a DataFiles,
        tables: &'a TableSet,
        dir: &'a Path,
        catalog: &Catalog,
        entries: &'a [DirEntry],
    ) -> Self {
        let is_large = NamedFiles::of(catalog).count() > DESCRIPTORS_MAX;
        let bytes = is_large.then(|| entries.iter().map(|entry| (&*entry.name, entry.bytes)).collect());
        Self { files, tables, dir, bytes }
    }

    /// Opens the trees of all tables.
    pub(super) fn open(&self, catalog: &Catalog) -> Result<()> {
        let open =
            |(id, record): (&TableId, &TableRecord)| Ok((record.name.clone(), Arc::new(self.open_table(*id, record)?)));
        let opened = catalog.tables.iter().map(open).collect::<Result<Vec<_>>>()?;
        self.tables.lock().extend(opened);
        Ok(())
    }

    fn open_table(&self, id: TableId, record: &TableRecord) -> Result<TableState> {
        let values = record.values().into_iter().map(|id| {
            let bytes = self.bytes_of(FileKind::Values, id)?;
            self.files.open_values(id, bytes)
        });
        let values = ValueFiles::new(values.collect::<Result<_>>()?);
        let open = |records: &[RunRecord]| {
            records.iter().map(|record| self.open_run(record, &values)).collect::<Result<Vec<RunHandle>>>()
        };
        let mut trees =
            Trees { l0: open(&record.l0)?, range_tombstones: Arc::clone(&record.range_tombstones), ..Trees::default() };
        for (level, runs) in trees.levels.iter_mut().zip(&record.levels) {
            *level = Level::new(open(runs)?);
        }
        let mut btree = None;
        if let Some((file, meta)) = &record.tree {
            if !meta.is_unwritten() {
                self.bytes_of(FileKind::Tree, *file)?;
            }
            let tree = self.files.open_btree(*file, &record.options, *meta, self.bytes.is_some())?;
            trees.btree = Some(tree.root());
            btree = Some((*file, tree));
        }
        trees.values = values;
        let (name, options) = (record.name.clone(), record.options.clone());
        Ok(self.tables.table((id, name, options), SeqNum::ZERO, trees, btree, record.seqnum_to_time.clone()))
    }

    fn open_run(&self, record: &RunRecord, values: &ValueFiles) -> Result<RunHandle> {
        let bytes = self.bytes_of(FileKind::Run, record.id)?;
        if let Some(bytes) = bytes.filter(|bytes| *bytes != record.meta.bytes) {
            let path = FileKind::Run.path(self.dir, record.id);
            let what = format_args!("the run should have {} bytes and has {bytes}", record.meta.bytes);
            return Err(Error::corruption(&path, bytes.min(record.meta.bytes), what));
        }
        self.files.open_run(record, values, bytes.is_some())
    }

    /// The bytes of a file that is not opened now.
    fn bytes_of(&self, kind: FileKind, id: FileId) -> Result<Option<u64>> {
        let Some(bytes) = &self.bytes else { return Ok(None) };
        let missing = || {
            let path = kind.path(self.dir, id);
            Error::io("open", &path, std::io::ErrorKind::NotFound.into()).of_read().unchanged()
        };
        bytes.get(&*kind.name(id)).map(|bytes| Some(*bytes)).ok_or_else(missing)
    }
}
