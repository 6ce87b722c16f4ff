//! What a database tells of its background work.

use librocksdb_sys as ffi;
use rocksdb::{AsRawPtr as _, Options};
use std::ffi::{OsStr, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, slice};

/// Sums over all flushes and compactions since the database was opened. They cost nothing per operation, other than the
/// statistics of RocksDB.
///
/// All of them are sums that are read for reports only, so no order is needed.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) compaction_read_bytes: AtomicU64,
    pub(crate) compaction_written_bytes: AtomicU64,
    /// By RocksDB's numbers of levels.
    levels: [LevelEvents; LEVELS],
}

/// Levels that a database has unless it is told otherwise.
const LEVELS: usize = 7;

/// Flushes and compactions with their result in a level.
#[derive(Debug, Default)]
struct LevelEvents {
    jobs: AtomicU64,
    written_bytes: AtomicU64,
    us: AtomicU64,
}

/// What was done for a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelSum {
    pub(crate) jobs: u64,
    pub(crate) written_bytes: u64,
    /// Microseconds of compactions; of flushes it is not told.
    pub(crate) compaction_us: u64,
}

impl Events {
    /// Makes databases that are opened with these options report to `self`.
    pub(crate) fn listen(self: &Arc<Self>, options: &Options) {
        let state = Arc::into_raw(Arc::clone(self)).cast_mut().cast();
        // SAFETY: the state is given back by `forget` when the last database with these options is closed. RocksDB
        // calls all of the functions without asking whether they are there.
        unsafe {
            let listener = ffi::rocksdb_eventlistener_create(
                state,
                Some(forget),
                Some(ignore_flush),
                Some(flushed),
                Some(ignore_compaction),
                Some(compacted),
                Some(ignore_subcompaction),
                Some(ignore_subcompaction),
                Some(ignore_ingestion),
                Some(ignore_error),
                Some(ignore_stall),
                Some(ignore_memtable),
            );
            ffi::rocksdb_options_add_eventlistener(options.as_raw_ptr(), listener);
        }
    }

    /// What was done for each level, by RocksDB's numbers.
    pub(crate) fn levels(&self) -> impl Iterator<Item = LevelSum> {
        let read = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        self.levels.iter().map(move |level| LevelSum {
            jobs: read(&level.jobs),
            written_bytes: read(&level.written_bytes),
            compaction_us: read(&level.us),
        })
    }

    fn add_to_level(&self, level: i32, written_bytes: u64, us: u64) {
        let Some(level) = usize::try_from(level).ok().and_then(|level| self.levels.get(level)) else { return };
        level.jobs.fetch_add(1, Ordering::Relaxed);
        level.written_bytes.fetch_add(written_bytes, Ordering::Relaxed);
        level.us.fetch_add(us, Ordering::Relaxed);
    }

    /// Counts a compaction.
    ///
    /// # Safety
    /// `info` lives as long as the call.
    pub(super) unsafe fn add_compaction(&self, info: *const ffi::rocksdb_compactionjobinfo_t) {
        // SAFETY: as the caller promises.
        let (read, written, level, us) = unsafe {
            let written = ffi::rocksdb_compactionjobinfo_total_output_bytes(info);
            let level = ffi::rocksdb_compactionjobinfo_output_level(info);
            let us = ffi::rocksdb_compactionjobinfo_elapsed_micros(info);
            (ffi::rocksdb_compactionjobinfo_total_input_bytes(info), written, level, us)
        };
        // A file that is only moved to another level is neither read nor written.
        if written > 0 {
            self.compaction_read_bytes.fetch_add(read, Ordering::Relaxed);
            self.compaction_written_bytes.fetch_add(written, Ordering::Relaxed);
            self.add_to_level(level, written, us);
        }
    }
}

unsafe extern "C" fn forget(state: *mut c_void) {
    // SAFETY: called once, with what `listen` gave.
    drop(unsafe { Arc::from_raw(state.cast::<Events>()) });
}

unsafe extern "C" fn flushed(state: *mut c_void, _: *mut ffi::rocksdb_t, info: *const ffi::rocksdb_flushjobinfo_t) {
    let mut len = 0;
    // SAFETY: called with what `listen` gave and an info that lives as long as the call, here and below.
    let (events, path) = unsafe {
        let path = ffi::rocksdb_flushjobinfo_file_path(info, &raw mut len);
        (&*state.cast::<Events>(), slice::from_raw_parts(path.cast::<u8>(), len))
    };
    let bytes = fs::metadata(OsStr::from_bytes(path)).map_or(0, |file| file.len());
    events.flush_bytes.fetch_add(bytes, Ordering::Relaxed);
    events.add_to_level(0, bytes, 0);
}

unsafe extern "C" fn compacted(
    state: *mut c_void,
    _: *mut ffi::rocksdb_t,
    info: *const ffi::rocksdb_compactionjobinfo_t,
) {
    // SAFETY: as above.
    unsafe { (*state.cast::<Events>()).add_compaction(info) }
}

unsafe extern "C" fn ignore_flush(_: *mut c_void, _: *mut ffi::rocksdb_t, _: *const ffi::rocksdb_flushjobinfo_t) {}
unsafe extern "C" fn ignore_compaction(
    _: *mut c_void,
    _: *mut ffi::rocksdb_t,
    _: *const ffi::rocksdb_compactionjobinfo_t,
) {
}
unsafe extern "C" fn ignore_subcompaction(_: *mut c_void, _: *const ffi::rocksdb_subcompactionjobinfo_t) {}
unsafe extern "C" fn ignore_ingestion(
    _: *mut c_void,
    _: *mut ffi::rocksdb_t,
    _: *const ffi::rocksdb_externalfileingestioninfo_t,
) {
}
unsafe extern "C" fn ignore_error(_: *mut c_void, _: u32, _: *mut ffi::rocksdb_status_ptr_t) {}
unsafe extern "C" fn ignore_stall(_: *mut c_void, _: *const ffi::rocksdb_writestallinfo_t) {}
unsafe extern "C" fn ignore_memtable(_: *mut c_void, _: *const ffi::rocksdb_memtableinfo_t) {}
