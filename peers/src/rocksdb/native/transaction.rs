//! Transactions with locks.

use super::batch::WriteOptions;
use super::db::{Db, TableHandle};
use super::error::{Result, call};
use super::iterator::Iterator;
use super::read::ReadOptions;
use librocksdb_sys as ffi;
use std::ffi::c_char;
use std::marker::PhantomData;
use std::ptr;
use std::slice;

/// A transaction that reads from the moment it began, and locks what it writes until its end.
pub(crate) struct Transaction<'db> {
    raw: *mut ffi::rocksdb_transaction_t,
    snapshot: *const ffi::rocksdb_snapshot_t,
    read: ReadOptions,
    db: PhantomData<&'db Db>,
}

impl<'db> Transaction<'db> {
    /// Begins one; in the memory of another, if there is one that has ended. `None` if the database was opened without
    /// transactions.
    pub(crate) fn begin(db: &'db Db, options: &WriteOptions, ended: Option<Self>) -> Option<Self> {
        if db.transactional().is_null() {
            return None;
        }
        let mut transaction = ended.unwrap_or_else(|| Self {
            raw: ptr::null_mut(),
            snapshot: ptr::null(),
            read: ReadOptions::new(),
            db: PhantomData,
        });
        transaction.release_snapshot();
        // SAFETY: the options are copied; `raw` is null or a transaction of this database that has ended.
        unsafe {
            let own = ffi::rocksdb_transaction_options_create();
            ffi::rocksdb_transaction_options_set_set_snapshot(own, 1);
            ffi::rocksdb_transaction_options_set_deadlock_detect(own, 1);
            transaction.raw = ffi::rocksdb_transaction_begin(db.transactional(), options.0, own, transaction.raw);
            ffi::rocksdb_transaction_options_destroy(own);
            transaction.snapshot = ffi::rocksdb_transaction_get_snapshot(transaction.raw);
        }
        transaction.read.see_raw(transaction.snapshot);
        Some(transaction)
    }

    pub(crate) fn put(&mut self, table: TableHandle<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: RocksDB copies both; the transaction lives as long as `self`, here and below.
        call(|error| unsafe {
            ffi::rocksdb_transaction_put_cf(self.raw, table.raw(), key_at, key.len(), value_at, value.len(), error);
        })
    }

    pub(crate) fn delete(&mut self, table: TableHandle<'_>, key: &[u8]) -> Result<()> {
        // SAFETY: as above.
        call(|error| unsafe {
            ffi::rocksdb_transaction_delete_cf(self.raw, table.raw(), key.as_ptr().cast(), key.len(), error)
        })
    }

    /// Calls `found` with the value of a key, if it has one, and says whether it has. With `lock` nobody else can write
    /// the key until the end of the transaction.
    pub(crate) fn get(
        &mut self,
        table: TableHandle<'_>,
        key: &[u8],
        lock: bool,
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let (key_at, key_len, options): (*const c_char, _, _) = (key.as_ptr().cast(), key.len(), self.read.raw);
        // SAFETY: RocksDB reads the key and gives us a value, or null.
        let value = call(|error| unsafe {
            if lock {
                ffi::rocksdb_transaction_get_pinned_for_update_cf(
                    self.raw,
                    options,
                    table.raw(),
                    key_at,
                    key_len,
                    1,
                    error,
                )
            } else {
                ffi::rocksdb_transaction_get_pinned_cf(self.raw, options, table.raw(), key_at, key_len, error)
            }
        })?;
        if value.is_null() {
            return Ok(false);
        }
        let mut len = 0;
        // SAFETY: the value is ours, and used no more once it is destroyed.
        unsafe {
            let data = ffi::rocksdb_pinnableslice_value(value, &raw mut len);
            found(slice::from_raw_parts(data.cast(), len));
            ffi::rocksdb_pinnableslice_destroy(value);
        }
        Ok(true)
    }

    /// The entries of a table as the transaction sees them.
    pub(crate) fn iterator(&mut self, table: TableHandle<'_>, mut options: ReadOptions) -> Iterator<'_> {
        options.see_raw(self.snapshot);
        // SAFETY: the iterator borrows from the transaction.
        let raw = unsafe { ffi::rocksdb_transaction_create_iterator_cf(self.raw, options.raw, table.raw()) };
        Iterator::of(raw, options)
    }

    pub(crate) fn commit(&mut self) -> Result<()> {
        // SAFETY: as in `put`.
        call(|error| unsafe { ffi::rocksdb_transaction_commit(self.raw, error) })
    }

    pub(crate) fn rollback(&mut self) -> Result<()> {
        // SAFETY: as in `put`.
        call(|error| unsafe { ffi::rocksdb_transaction_rollback(self.raw, error) })
    }

    fn release_snapshot(&mut self) {
        self.read.see_raw(ptr::null());
        // SAFETY: null, or a small object of ours that points to the transaction's snapshot.
        unsafe { ffi::rocksdb_free(self.snapshot.cast_mut().cast()) };
        self.snapshot = ptr::null();
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.release_snapshot();
        // SAFETY: made in `begin`, destroyed only here; without a commit this rolls back.
        unsafe { ffi::rocksdb_transaction_destroy(self.raw) }
    }
}
