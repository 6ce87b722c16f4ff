//! Options by name and text, so that an option more does not change the interface.

use std::ffi::c_char;

use spinney::{Durability, Isolation};

use crate::bytes::text;
use crate::status::{Given as _, Status, done};

/// Options of a database.
#[derive(Clone, Debug, Default)]
pub struct Options(pub(crate) spinney::Options);

/// Options of a table.
#[derive(Clone, Debug, Default)]
pub struct TableOptions(pub(crate) spinney::TableOptions);

/// What a commit survives once it has returned.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum CommitDurability {
    /// As the option `durability` of the database says.
    Default = 0,
    /// The power fails.
    Sync = 1,
    /// The process or the power fails after the option `interval`.
    Interval = 2,
    /// The process dies.
    Buffered = 3,
}

impl CommitDurability {
    pub(crate) const fn get(self, default: Durability) -> Durability {
        match self {
            Self::Default => default,
            Self::Sync => Durability::Sync,
            Self::Interval => Durability::Interval,
            Self::Buffered => Durability::Buffered,
        }
    }
}

/// What a transaction is protected from.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum TransactionIsolation {
    /// It reads the state of its begin, and commits only if no other changed first what it writes.
    Snapshot = 0,
    /// As if one transaction ran after the other.
    Serializable = 1,
}

impl TransactionIsolation {
    pub(crate) const fn get(self) -> Isolation {
        match self {
            Self::Snapshot => Isolation::Snapshot,
            Self::Serializable => Isolation::Serializable,
        }
    }
}

/// New options of a database, all at their defaults. Free them with `spinney_options_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_options_new() -> Box<Options> {
    Box::default()
}

/// Frees options. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_options_free(options: Option<Box<Options>>) {
    drop(options);
}

/// Sets an option of a database: `memory_bytes`, `direct_io` (`true`, `false`), `log_dir`, `log_segment_bytes`,
/// `log_bytes_max`, `log_keep_bytes`, `log_keep_time` (seconds), `log_compression` (`off`, `lz4`, `zstd`), `interval`
/// (seconds), `durability` (`sync`, `interval`, `buffered`), `memtable_bytes`, `compaction_threads`. Bytes are plain
/// numbers. `SPINNEY_STATUS_INVALID` for a name that there is not, and for a value that is not of the option's kind or
/// range, which the error's message tells.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_options_set(
    options: Option<&mut Options>,
    name: *const c_char,
    value: *const c_char,
) -> Status {
    done(|| {
        let options = &mut options.given("options")?.0;
        let (name, value) = (text(name, "name")?, text(value, "value")?);
        options.set(name, value)
    })
}

/// New options of a table, all at their defaults. Free them with `spinney_table_options_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_table_options_new() -> Box<TableOptions> {
    Box::default()
}

/// Frees options. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_table_options_free(options: Option<Box<TableOptions>>) {
    drop(options);
}

/// Sets an option of a table: `layout` (`btree`, `lsm`, `lsm-tiered`), `block_bytes`, `compression` (`none`, `lz4`,
/// `zstd`), `filter_bits_per_key`, `prefix_filter` (`bytes:N`, `upto:C`, `upto:0xNN`), `run_bytes_max`, `fanout`,
/// `logged` (`true`, `false`), `merge` (`add`), `large_value_bytes`, `time_to_live` (seconds). `SPINNEY_STATUS_INVALID`
/// for a name that there is not, and for a value that is not of the option's kind or range, which the error's message
/// tells.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_table_options_set(
    options: Option<&mut TableOptions>,
    name: *const c_char,
    value: *const c_char,
) -> Status {
    done(|| {
        let options = &mut options.given("options")?.0;
        let (name, value) = (text(name, "name")?, text(value, "value")?);
        options.set(name, value)
    })
}
