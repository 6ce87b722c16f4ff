//! Counters that RocksDB keeps exactly.

use librocksdb_sys as ffi;
use rocksdb::statistics::Ticker;
use rocksdb::{AsRawPtr as _, Options};

/// RocksDB's statistics without its histograms and timers: each thing counted costs an addition to a counter of the
/// core.
pub(crate) struct Tickers(Options);

impl Tickers {
    /// Makes databases that are opened with these options count.
    pub(crate) fn enable(options: &mut Options) -> Self {
        options.enable_statistics();
        // The crate's name for this level is the number of the next one, which fills histograms.
        let level = ffi::rocksdb_statistics_level_except_histogram_or_timers;
        // SAFETY: the options are alive, and statistics were enabled in them.
        unsafe { ffi::rocksdb_options_set_statistics_level(options.as_raw_ptr(), level.cast_signed()) }
        // A copy of options shares their statistics.
        Self(options.clone())
    }

    /// Times that the WAL was forced.
    pub(crate) fn log_syncs(&self) -> u64 {
        self.0.get_ticker_count(Ticker::WalFileSynced)
    }

    /// Bytes written to the WAL.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.0.get_ticker_count(Ticker::WalFileBytes)
    }
}
