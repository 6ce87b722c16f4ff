//! LMDB's environment and transactions, with errors as results.

use anyhow::{Context as _, Result, ensure};
use lmdb_master_sys as ffi;
use std::ffi::{CStr, CString, c_uint};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

/// An open environment, closed when dropped. All transactions borrow it, so they are gone then.
pub(super) struct Env(NonNull<ffi::MDB_env>);

// SAFETY: LMDB's environment may be used by all threads of the process; it locks what it must.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

/// A transaction, aborted when dropped. It stays on its thread: a raw pointer is neither `Send` nor `Sync`.
pub(super) struct Txn<'e> {
    txn: NonNull<ffi::MDB_txn>,
    env: std::marker::PhantomData<&'e Env>,
}

impl Env {
    pub(super) fn open(dir: &Path, map_bytes: usize, tables: u32, flags: c_uint) -> Result<Self> {
        let path = CString::new(dir.as_os_str().as_bytes())?;
        let mut env = null_mut();
        // SAFETY: `env` is a place for the pointer.
        check(unsafe { ffi::mdb_env_create(&raw mut env) })?;
        let env = Self(NonNull::new(env).context("LMDB made no environment")?);
        let raw = env.raw();
        // SAFETY: the environment was made above and is not open yet, as these functions demand; the path ends with a
        // zero.
        unsafe {
            check(ffi::mdb_env_set_mapsize(raw, map_bytes))?;
            check(ffi::mdb_env_set_maxdbs(raw, tables))?;
            check(ffi::mdb_env_set_maxreaders(raw, 1024))?;
            check(ffi::mdb_env_open(raw, path.as_ptr(), flags, 0o644)).context("cannot open the environment")?;
        }
        Ok(env)
    }

    pub(super) fn sync(&self) -> Result<()> {
        // SAFETY: the environment is open.
        check(unsafe { ffi::mdb_env_sync(self.raw(), 1) })
    }

    fn raw(&self) -> *mut ffi::MDB_env {
        self.0.as_ptr()
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        // SAFETY: transactions borrow the environment, so none is left; no handle is used afterwards.
        unsafe { ffi::mdb_env_close(self.raw()) }
    }
}

impl<'e> Txn<'e> {
    pub(super) fn begin(env: &'e Env, flags: c_uint) -> Result<Self> {
        let mut txn = null_mut();
        // SAFETY: the environment is open, and `txn` is a place for the pointer.
        check(unsafe { ffi::mdb_txn_begin(env.raw(), null_mut(), flags, &raw mut txn) })?;
        let txn = NonNull::new(txn).context("LMDB made no transaction")?;
        Ok(Self { txn, env: std::marker::PhantomData })
    }

    pub(super) fn raw(&self) -> *mut ffi::MDB_txn {
        self.txn.as_ptr()
    }

    pub(super) fn commit(self) -> Result<()> {
        let txn = self.raw();
        std::mem::forget(self);
        // SAFETY: the transaction has not ended, and the forgotten `self` does not end it again.
        check(unsafe { ffi::mdb_txn_commit(txn) })
    }

    /// Gives a read transaction's snapshot up, so that it can be renewed.
    pub(super) fn reset(&self) {
        // SAFETY: the transaction is one of reads that has a snapshot, as the caller keeps track of.
        unsafe { ffi::mdb_txn_reset(self.raw()) }
    }

    /// Gives a read transaction that was reset a snapshot of the present.
    pub(super) fn renew(&self) -> Result<()> {
        // SAFETY: the transaction is one of reads that was reset, as the caller keeps track of; LMDB answers with an
        // error if not.
        check(unsafe { ffi::mdb_txn_renew(self.raw()) })
    }

    /// Opens or makes a table.
    pub(super) fn table(&self, name: &str) -> Result<ffi::MDB_dbi> {
        let name = CString::new(name)?;
        let mut dbi = 0;
        // SAFETY: the name ends with a zero, and `dbi` is a place for the number.
        check(unsafe { ffi::mdb_dbi_open(self.raw(), name.as_ptr(), ffi::MDB_CREATE, &raw mut dbi) })?;
        Ok(dbi)
    }

    pub(super) fn stat(&self, dbi: ffi::MDB_dbi) -> Result<ffi::MDB_stat> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut stat: ffi::MDB_stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is a place for the numbers.
        check(unsafe { ffi::mdb_stat(self.raw(), dbi, &raw mut stat) })?;
        Ok(stat)
    }

    pub(super) fn put(&self, dbi: ffi::MDB_dbi, key: &[u8], value: &[u8]) -> Result<()> {
        let (mut key, mut value) = (val(key), val(value));
        // SAFETY: both point to memory that lives over the call; LMDB copies from it and writes nothing to it.
        check(unsafe { ffi::mdb_put(self.raw(), dbi, &raw mut key, &raw mut value, 0) })
    }

    pub(super) fn delete(&self, dbi: ffi::MDB_dbi, key: &[u8]) -> Result<()> {
        let mut key = val(key);
        // SAFETY: as for a put; without a value all of the key is deleted.
        found(unsafe { ffi::mdb_del(self.raw(), dbi, &raw mut key, null_mut()) }).map(drop)
    }

    /// Calls `use_it` with the value, which is in the map.
    pub(super) fn get(&self, dbi: ffi::MDB_dbi, key: &[u8], use_it: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let (mut key, mut value) = (val(key), val(&[]));
        // SAFETY: the key lives over the call; `value` is a place for a pointer into the map.
        let there = found(unsafe { ffi::mdb_get(self.raw(), dbi, &raw mut key, &raw mut value) })?;
        if there {
            // SAFETY: LMDB gave the value, which stays until the transaction ends or writes, and neither happens in
            // `use_it`.
            use_it(unsafe { bytes(&value) });
        }
        Ok(there)
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        // SAFETY: the transaction has not ended: a commit forgets it.
        unsafe { ffi::mdb_txn_abort(self.raw()) }
    }
}

pub(super) fn val(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

/// The bytes that LMDB pointed to.
///
/// # Safety
/// `val` is LMDB's, and what it points to stays over `'a`.
pub(super) unsafe fn bytes<'a>(val: &ffi::MDB_val) -> &'a [u8] {
    if val.mv_size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(val.mv_data.cast(), val.mv_size) }
}

pub(super) fn check(code: i32) -> Result<()> {
    // SAFETY: the function returns a static string, or one of the C library's for an error of the system.
    ensure!(code == 0, "LMDB: {}", unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) }.to_string_lossy());
    Ok(())
}

/// Whether something was found, when that it was not is no error.
pub(super) fn found(code: i32) -> Result<bool> {
    if code == ffi::MDB_NOTFOUND { Ok(false) } else { check(code).map(|()| true) }
}
