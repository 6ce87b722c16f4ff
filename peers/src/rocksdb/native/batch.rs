//! Writes that become one commit.

use super::db::{Db, TableHandle};
use super::error::{Result, call};
use librocksdb_sys as ffi;

/// Puts and deletes in order. Cleared and used again, it allocates nothing.
pub(crate) struct WriteBatch(pub(super) *mut ffi::rocksdb_writebatch_t);

/// How commits are made durable.
pub(crate) struct WriteOptions(pub(super) *mut ffi::rocksdb_writeoptions_t);

// SAFETY: after `new` the options are only read.
unsafe impl Send for WriteOptions {}
// SAFETY: as above.
unsafe impl Sync for WriteOptions {}

impl WriteBatch {
    pub(crate) fn new() -> Self {
        // SAFETY: makes an object that `drop` destroys.
        Self(unsafe { ffi::rocksdb_writebatch_create() })
    }

    pub(crate) fn clear(&mut self) {
        // SAFETY: the batch lives as long as `self`; slices are copied in the calls below.
        unsafe { ffi::rocksdb_writebatch_clear(self.0) }
    }

    pub(crate) fn put(&mut self, table: TableHandle<'_>, key: &[u8], value: &[u8]) {
        let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: as in `clear`; the handle belongs to an open database.
        unsafe { ffi::rocksdb_writebatch_put_cf(self.0, table.raw(), key_at, key.len(), value_at, value.len()) }
    }

    pub(crate) fn delete(&mut self, table: TableHandle<'_>, key: &[u8]) {
        // SAFETY: as in `put`.
        unsafe { ffi::rocksdb_writebatch_delete_cf(self.0, table.raw(), key.as_ptr().cast(), key.len()) }
    }
}

impl WriteOptions {
    /// `sync`: a commit returns when the device has it. `log`: there is a WAL.
    pub(crate) fn new(sync: bool, log: bool) -> Self {
        // SAFETY: makes an object that `drop` destroys, and that nobody else knows yet.
        unsafe {
            let raw = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_set_sync(raw, sync.into());
            ffi::rocksdb_writeoptions_disable_WAL(raw, (!log).into());
            Self(raw)
        }
    }
}

impl Db {
    /// Commits a batch.
    pub(crate) fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        let transactional = self.transactional();
        // SAFETY: all of them live at least as long as the borrows.
        call(|error| unsafe {
            if transactional.is_null() {
                ffi::rocksdb_write(self.base(), options.0, batch.0, error);
            } else {
                ffi::rocksdb_transactiondb_write(transactional, options.0, batch.0, error);
            }
        })
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed only here.
        unsafe { ffi::rocksdb_writebatch_destroy(self.0) }
    }
}

impl Drop for WriteOptions {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed only here.
        unsafe { ffi::rocksdb_writeoptions_destroy(self.0) }
    }
}
