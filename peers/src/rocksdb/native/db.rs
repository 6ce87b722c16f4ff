//! An open database.

use super::error::{Error, Result, call, take_text};
use librocksdb_sys as ffi;
use rocksdb::{AsRawPtr as _, Options};
use std::ffi::CString;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;

/// An open database with its tables, which are column families.
pub(crate) struct Db {
    /// Does all but commits and transactions, which pass by here only if there are no transactions.
    base: *mut ffi::rocksdb_t,
    /// The database with transactions whose base that is, or null.
    transactional: *mut ffi::rocksdb_transactiondb_t,
    tables: Vec<*mut ffi::rocksdb_column_family_handle_t>,
}

/// A table of an open database.
#[derive(Clone, Copy)]
pub(crate) struct TableHandle<'db>(*mut ffi::rocksdb_column_family_handle_t, PhantomData<&'db Db>);

// SAFETY: RocksDB locks for itself; the pointers do not change.
unsafe impl Send for Db {}
// SAFETY: as above.
unsafe impl Sync for Db {}

impl Db {
    /// Makes or opens a database with these tables, of which one is named `default`.
    pub(crate) fn open(path: &Path, options: &Options, tables: &[(&str, Options)], transactions: bool) -> Result<Self> {
        let path = c_string(path.as_os_str().as_bytes())?;
        let names = tables.iter().map(|(name, _)| c_string(name.as_bytes())).collect::<Result<Vec<_>>>()?;
        let name_pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: the options live until the end of this function, which is all that is asked for.
        let option_pointers: Vec<_> =
            tables.iter().map(|(_, options)| unsafe { options.as_raw_ptr() }.cast_const()).collect();
        let mut handles = vec![ptr::null_mut(); tables.len()];
        let count = i32::try_from(tables.len()).expect("a handful of tables");
        let (names, table_options, handles_at) =
            (name_pointers.as_ptr(), option_pointers.as_ptr(), handles.as_mut_ptr());
        let mut transactional = ptr::null_mut();
        // SAFETY: three arrays of `count` each. Options are copied; handles are filled if the open succeeds.
        let base = call(|error| unsafe {
            let options = options.as_raw_ptr();
            if !transactions {
                return ffi::rocksdb_open_column_families(
                    options,
                    path.as_ptr(),
                    count,
                    names,
                    table_options,
                    handles_at,
                    error,
                );
            }
            let own = ffi::rocksdb_transactiondb_options_create();
            transactional = ffi::rocksdb_transactiondb_open_column_families(
                options,
                own,
                path.as_ptr(),
                count,
                names,
                table_options,
                handles_at,
                error,
            );
            ffi::rocksdb_transactiondb_options_destroy(own);
            if transactional.is_null() {
                ptr::null_mut()
            } else {
                ffi::rocksdb_transactiondb_get_base_db(transactional)
            }
        })?;
        Ok(Self { base, transactional, tables: handles })
    }

    pub(super) fn base(&self) -> *mut ffi::rocksdb_t {
        self.base
    }

    pub(super) fn transactional(&self) -> *mut ffi::rocksdb_transactiondb_t {
        self.transactional
    }

    /// The table at this place in the list that the database was opened with.
    pub(crate) fn table(&self, at: usize) -> TableHandle<'_> {
        TableHandle(self.tables[at], PhantomData)
    }

    /// Flushes the memtables of all tables, and waits for it.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut tables = self.tables.clone();
        let count = i32::try_from(tables.len()).expect("a handful of tables");
        // SAFETY: `count` handles of this database. The options are destroyed after the call.
        call(|error| unsafe {
            let options = ffi::rocksdb_flushoptions_create();
            ffi::rocksdb_flushoptions_set_wait(options, 1);
            ffi::rocksdb_flush_cfs(self.base, options, tables.as_mut_ptr(), count, error);
            ffi::rocksdb_flushoptions_destroy(options);
        })
    }

    /// Forces the WAL to the device.
    pub(crate) fn sync_log(&self) -> Result<()> {
        // SAFETY: the database is open.
        call(|error| unsafe { ffi::rocksdb_flush_wal(self.base, 1, error) })
    }

    /// Waits until no flush and no compaction is left to do.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the database is open. The options are destroyed after the call.
        call(|error| unsafe {
            let options = ffi::rocksdb_wait_for_compact_options_create();
            ffi::rocksdb_wait_for_compact(self.base, options, error);
            ffi::rocksdb_wait_for_compact_options_destroy(options);
        })
    }

    /// Changes an option of a table.
    pub(crate) fn set_option(&self, table: TableHandle<'_>, name: &str, value: &str) -> Result<()> {
        let (name, value) = (c_string(name.as_bytes())?, c_string(value.as_bytes())?);
        let (names, values) = ([name.as_ptr()], [value.as_ptr()]);
        // SAFETY: two arrays of one string each.
        call(|error| unsafe {
            ffi::rocksdb_set_options_cf(self.base, table.0, 1, names.as_ptr(), values.as_ptr(), error)
        })
    }

    /// A property that is a number.
    pub(crate) fn number(&self, table: TableHandle<'_>, name: &str) -> Option<u64> {
        let (name, mut value) = (c_string(name.as_bytes()).ok()?, 0);
        // SAFETY: RocksDB reads the name and fills the value.
        let known = unsafe { ffi::rocksdb_property_int_cf(self.base, table.0, name.as_ptr(), &raw mut value) };
        (known == 0).then_some(value)
    }

    /// A property that is a text.
    pub(crate) fn text(&self, table: TableHandle<'_>, name: &str) -> Option<String> {
        let name = c_string(name.as_bytes()).ok()?;
        // SAFETY: RocksDB reads the name, and allocates a string for us or returns null.
        unsafe { take_text(ffi::rocksdb_property_value_cf(self.base, table.0, name.as_ptr())) }
    }
}

impl TableHandle<'_> {
    pub(super) fn raw(self) -> *mut ffi::rocksdb_column_family_handle_t {
        self.0
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: nothing that borrows from the database is left. Handles go before it.
        unsafe {
            self.tables.iter().for_each(|&table| ffi::rocksdb_column_family_handle_destroy(table));
            if self.transactional.is_null() {
                ffi::rocksdb_close(self.base);
            } else {
                ffi::rocksdb_transactiondb_close_base_db(self.base);
                ffi::rocksdb_transactiondb_close(self.transactional);
            }
        }
    }
}

pub(super) fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::new("a name with a zero byte"))
}
