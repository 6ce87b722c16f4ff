//! Scans.

use super::db::{Db, TableHandle};
use super::error::{Result, call};
use super::read::ReadOptions;
use librocksdb_sys as ffi;
use spinney_lab::driver::Direction;
use std::marker::PhantomData;
use std::slice;

/// A place among the entries of a table.
pub(crate) struct Iterator<'db> {
    raw: *mut ffi::rocksdb_iterator_t,
    /// The iterator points to the bound that they hold.
    _options: ReadOptions,
    _of: PhantomData<&'db Db>,
}

impl<'db> Iterator<'db> {
    /// The entries of a table.
    pub(crate) fn new(db: &'db Db, table: TableHandle<'_>, options: ReadOptions) -> Self {
        // SAFETY: the database outlives the iterator, and the options too.
        let raw = unsafe { ffi::rocksdb_create_iterator_cf(db.base(), options.raw, table.raw()) };
        Self { raw, _options: options, _of: PhantomData }
    }

    /// An iterator of something else of the database, which must outlive it.
    pub(super) fn of(raw: *mut ffi::rocksdb_iterator_t, options: ReadOptions) -> Self {
        Self { raw, _options: options, _of: PhantomData }
    }

    /// From now on it sees the newest commits.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        // SAFETY: the iterator lives as long as `self`, here and below.
        call(|error| unsafe { ffi::rocksdb_iter_refresh(self.raw, error) })
    }

    /// Goes to the first entry of a scan: at `from` or beyond it.
    pub(crate) fn seek(&mut self, from: Option<&[u8]>, direction: Direction) {
        // SAFETY: RocksDB reads the key within the call.
        unsafe {
            match (direction, from) {
                (Direction::Forward, None) => ffi::rocksdb_iter_seek_to_first(self.raw),
                (Direction::Forward, Some(key)) => ffi::rocksdb_iter_seek(self.raw, key.as_ptr().cast(), key.len()),
                (Direction::Backward, None) => ffi::rocksdb_iter_seek_to_last(self.raw),
                (Direction::Backward, Some(key)) => {
                    ffi::rocksdb_iter_seek_for_prev(self.raw, key.as_ptr().cast(), key.len())
                }
            }
        }
    }

    /// Goes to the next entry.
    pub(crate) fn step(&mut self, direction: Direction) {
        // SAFETY: called only where there was an entry, as RocksDB asks.
        unsafe {
            match direction {
                Direction::Forward => ffi::rocksdb_iter_next(self.raw),
                Direction::Backward => ffi::rocksdb_iter_prev(self.raw),
            }
        }
    }

    /// The entry that it is at; `None` at the end.
    pub(crate) fn entry(&self) -> Result<Option<(&[u8], &[u8])>> {
        // SAFETY: key and value are asked for only if there is an entry; they live until the iterator moves, for which
        // it must not be borrowed.
        unsafe {
            if ffi::rocksdb_iter_valid(self.raw) == 0 {
                return call(|error| ffi::rocksdb_iter_get_error(self.raw, error)).map(|()| None);
            }
            let (key, value) = (ffi::rocksdb_iter_key_slice(self.raw), ffi::rocksdb_iter_value_slice(self.raw));
            Ok(Some((
                slice::from_raw_parts(key.data.cast(), key.size),
                slice::from_raw_parts(value.data.cast(), value.size),
            )))
        }
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: made for `self`, destroyed only here, before the options.
        unsafe { ffi::rocksdb_iter_destroy(self.raw) }
    }
}
