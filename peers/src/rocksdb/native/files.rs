//! The files of tables, and their compaction.

use super::db::{Db, TableHandle, c_string};
use super::error::{Result, call};
use super::events::Events;
use librocksdb_sys as ffi;
use std::ffi::CStr;
use std::ptr;

/// A file of a table.
#[derive(Clone, Debug)]
pub(crate) struct LiveFile {
    /// The name of its table.
    pub(crate) table: String,
    /// Its name.
    pub(crate) name: String,
    /// RocksDB's number of its level; for a table with dynamic levels those below L0 need not begin with 1.
    pub(crate) level: i32,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl Db {
    /// The files of all tables.
    pub(crate) fn files(&self) -> Vec<LiveFile> {
        // SAFETY: the list lives until it is destroyed; its strings are copied before.
        unsafe {
            let list = ffi::rocksdb_livefiles(self.base());
            let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
            let file = |at| LiveFile {
                table: text(ffi::rocksdb_livefiles_column_family_name(list, at)),
                name: text(ffi::rocksdb_livefiles_name(list, at)),
                level: ffi::rocksdb_livefiles_level(list, at),
                bytes: ffi::rocksdb_livefiles_size(list, at) as u64,
                entries: ffi::rocksdb_livefiles_entries(list, at),
            };
            let files = (0..ffi::rocksdb_livefiles_count(list)).map(file).collect();
            ffi::rocksdb_livefiles_destroy(list);
            files
        }
    }

    /// Merges files of a table with what overlaps them in the levels down to `level`, into that level. RocksDB tells
    /// its listeners nothing of such a compaction, so `events` are told here.
    pub(crate) fn compact_files(
        &self,
        table: TableHandle<'_>,
        names: &[&str],
        level: i32,
        file_bytes: u64,
        events: &Events,
    ) -> Result<()> {
        let names = names.iter().map(|name| c_string(name.as_bytes())).collect::<Result<Vec<_>>>()?;
        let pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let (no_names, no_count) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: RocksDB reads the names, is not asked for those of the new files, and fills the info if it succeeds,
        // which is destroyed at the end.
        unsafe {
            let info = ffi::rocksdb_compactionjobinfo_create();
            let result = call(|error| {
                let options = ffi::rocksdb_compaction_options_create();
                ffi::rocksdb_compaction_options_set_output_file_size_limit(options, file_bytes);
                ffi::rocksdb_compact_files_cf(
                    self.base(),
                    table.raw(),
                    options,
                    pointers.as_ptr(),
                    pointers.len(),
                    level,
                    -1,
                    no_names,
                    no_count,
                    info,
                    error,
                );
                ffi::rocksdb_compaction_options_destroy(options);
            });
            if result.is_ok() {
                events.add_compaction(info);
            }
            ffi::rocksdb_compactionjobinfo_destroy(info);
            result
        }
    }

    /// Merges all of a table into its last level.
    pub(crate) fn compact(&self, table: TableHandle<'_>) {
        /// `kForceOptimized`: also the files of the last level, except those that this very compaction made.
        const FORCE_OPTIMIZED: u8 = 3;
        // SAFETY: null is no limit. The options are destroyed after the call.
        unsafe {
            let options = ffi::rocksdb_compactoptions_create();
            ffi::rocksdb_compactoptions_set_bottommost_level_compaction(options, FORCE_OPTIMIZED);
            ffi::rocksdb_compactoptions_set_exclusive_manual_compaction(options, 0);
            ffi::rocksdb_compact_range_cf_opt(self.base(), table.raw(), options, ptr::null(), 0, ptr::null(), 0);
            ffi::rocksdb_compactoptions_destroy(options);
        }
    }
}
