//! Reads of keys, and the moment that they see.

use super::db::{Db, TableHandle};
use super::error::{Error, Result, call, take_text};
use librocksdb_sys as ffi;
use std::ptr;
use std::slice;

/// What a read sees, and where a scan ends.
pub(crate) struct ReadOptions {
    pub(super) raw: *mut ffi::rocksdb_readoptions_t,
    /// RocksDB keeps a pointer to these bytes.
    bound: Vec<u8>,
}

/// A moment that reads can be made of.
pub(crate) struct Snapshot<'db> {
    raw: *const ffi::rocksdb_snapshot_t,
    db: &'db Db,
}

/// The values of several keys.
pub(crate) struct Values(Vec<*mut ffi::rocksdb_pinnableslice_t>);

impl ReadOptions {
    /// Reads that see the newest commits, and scans without end.
    pub(crate) fn new() -> Self {
        // SAFETY: makes an object that `drop` destroys.
        Self { raw: unsafe { ffi::rocksdb_readoptions_create() }, bound: Vec::new() }
    }

    /// Reads of this moment. It must live as long as the options are used, which is the caller's to see to.
    pub(crate) fn see(&mut self, snapshot: Option<&Snapshot<'_>>) {
        self.see_raw(snapshot.map_or(ptr::null(), |snapshot| snapshot.raw));
    }

    pub(super) fn see_raw(&mut self, snapshot: *const ffi::rocksdb_snapshot_t) {
        // SAFETY: RocksDB takes the pointer within.
        unsafe { ffi::rocksdb_readoptions_set_snapshot(self.raw, snapshot) }
    }

    /// Scans end before this key.
    pub(crate) fn end_before(&mut self, key: &[u8]) {
        self.bound = key.to_vec();
        // SAFETY: the bytes live as long as the options.
        unsafe {
            ffi::rocksdb_readoptions_set_iterate_upper_bound(self.raw, self.bound.as_ptr().cast(), self.bound.len())
        }
    }

    /// Backward scans end at the key after this one. The bound of RocksDB is inclusive there.
    pub(crate) fn end_after(&mut self, key: &[u8]) {
        self.bound = [key, &[0]].concat();
        // SAFETY: as above.
        unsafe {
            ffi::rocksdb_readoptions_set_iterate_lower_bound(self.raw, self.bound.as_ptr().cast(), self.bound.len())
        }
    }
}

impl Db {
    /// The value of a key, which is copied to the buffer.
    pub(crate) fn get<'v>(
        &self,
        table: TableHandle<'_>,
        key: &[u8],
        options: &ReadOptions,
        buffer: &'v mut Vec<u8>,
    ) -> Result<Option<&'v [u8]>> {
        loop {
            let (mut len, mut found) = (0, 0);
            let (key_at, into) = (key.as_ptr().cast(), buffer.as_mut_ptr().cast());
            let (len_at, found_at) = (&raw mut len, &raw mut found);
            // SAFETY: RocksDB reads the key, and writes no more than the buffer has.
            let copied = call(|error| unsafe {
                ffi::rocksdb_get_into_buffer_cf(
                    self.base(),
                    options.raw,
                    table.raw(),
                    key_at,
                    key.len(),
                    into,
                    buffer.len(),
                    len_at,
                    found_at,
                    error,
                )
            })?;
            if found == 0 {
                return Ok(None);
            }
            if copied != 0 {
                return Ok(Some(&buffer[..len]));
            }
            buffer.resize(len, 0);
        }
    }

    /// The values of several keys, read in one go.
    pub(crate) fn multi_get(&self, table: TableHandle<'_>, keys: &[&[u8]], options: &ReadOptions) -> Result<Values> {
        let keys: Vec<_> =
            keys.iter().map(|key| ffi::rocksdb_slice_t { data: key.as_ptr().cast(), size: key.len() }).collect();
        let mut values = Values(vec![ptr::null_mut(); keys.len()]);
        let mut messages = vec![ptr::null_mut(); keys.len()];
        // SAFETY: three arrays of one length. Each value is null or ours, each message is null or ours.
        unsafe {
            ffi::rocksdb_batched_multi_get_cf_slice(
                self.base(),
                options.raw,
                table.raw(),
                keys.len(),
                keys.as_ptr(),
                values.0.as_mut_ptr(),
                messages.as_mut_ptr(),
                false,
            );
        }
        // SAFETY: as above.
        let failed = messages.into_iter().filter_map(|message| unsafe { take_text(message) }).last();
        failed.map_or(Ok(values), |message| Err(Error::new(message)))
    }

    /// This moment.
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        // SAFETY: makes an object that `drop` releases.
        Snapshot { raw: unsafe { ffi::rocksdb_create_snapshot(self.base()) }, db: self }
    }
}

impl Values {
    /// Places and values of the keys that have one.
    pub(crate) fn iter(&self) -> impl std::iter::Iterator<Item = (usize, &[u8])> {
        self.0.iter().enumerate().filter_map(|(at, &value)| {
            let mut len = 0;
            // SAFETY: the value is null, for which RocksDB returns null, or lives as long as `self`.
            unsafe {
                let data = ffi::rocksdb_pinnableslice_value(value, &raw mut len);
                (!data.is_null()).then(|| (at, slice::from_raw_parts(data.cast(), len)))
            }
        })
    }
}

impl Drop for ReadOptions {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed only here.
        unsafe { ffi::rocksdb_readoptions_destroy(self.raw) }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // SAFETY: made by this database, released only here.
        unsafe { ffi::rocksdb_release_snapshot(self.db.base(), self.raw) }
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        // SAFETY: each is null or ours, destroyed only here.
        self.0
            .iter()
            .filter(|value| !value.is_null())
            .for_each(|&value| unsafe { ffi::rocksdb_pinnableslice_destroy(value) });
    }
}
