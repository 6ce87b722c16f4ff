//! Options by name and text, so that an option more does not change the interface.

use std::ffi::c_char;
use std::str::FromStr;
use std::time::Duration;

use spinney::{Compression, Durability, Error, Isolation, Layout, LogCompression, Prefix, Result};

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
/// numbers. `SPINNEY_STATUS_INVALID` for a name or value that there is not; ranges are checked when the database is
/// opened.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_options_set(
    options: Option<&mut Options>,
    name: *const c_char,
    value: *const c_char,
) -> Status {
    done(|| {
        let options = &mut options.given("options")?.0;
        let (name, value) = (text(name, "name")?, text(value, "value")?);
        match name {
            "memory_bytes" => options.memory_bytes = parsed(name, value)?,
            "direct_io" => options.direct_io = parsed(name, value)?,
            "log_dir" => options.log_dir = Some(value.into()),
            "log_segment_bytes" => options.log_segment_bytes = parsed(name, value)?,
            "log_bytes_max" => options.log_bytes_max = parsed(name, value)?,
            "log_keep_bytes" => options.log_keep_bytes = parsed(name, value)?,
            "log_keep_time" => options.log_keep_time = seconds(name, value)?,
            "log_compression" => {
                let names =
                    [("off", LogCompression::Off), ("lz4", LogCompression::Lz4), ("zstd", LogCompression::Zstd)];
                options.log_compression = choice(name, value, &names)?;
            }
            "interval" => options.interval = seconds(name, value)?,
            "durability" => {
                let names = [
                    ("sync", Durability::Sync),
                    ("interval", Durability::Interval),
                    ("buffered", Durability::Buffered),
                ];
                options.durability = choice(name, value, &names)?;
            }
            "memtable_bytes" => options.memtable_bytes = parsed(name, value)?,
            "compaction_threads" => options.compaction_threads = parsed(name, value)?,
            _ => return Err(Error::invalid(format!("a database has no option '{name}'"))),
        }
        Ok(())
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
/// `zstd`), `filter_bits_per_key`, `prefix_filter` (a number of bytes), `run_bytes_max`, `fanout`, `logged` (`true`,
/// `false`), `merge` (`add`), `large_value_bytes`, `time_to_live` (seconds). `SPINNEY_STATUS_INVALID` for a name or
/// value that there is not; ranges are checked when the table is made.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_table_options_set(
    options: Option<&mut TableOptions>,
    name: *const c_char,
    value: *const c_char,
) -> Status {
    done(|| {
        let options = &mut options.given("options")?.0;
        let (name, value) = (text(name, "name")?, text(value, "value")?);
        match name {
            "layout" => {
                let names = [Layout::BTree, Layout::Lsm, Layout::LsmTiered].map(|layout| (layout.name(), layout));
                options.layout = choice(name, value, &names)?;
            }
            "block_bytes" => options.block_bytes = parsed(name, value)?,
            "compression" => {
                let names = [("none", Compression::None), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd)];
                options.compression = choice(name, value, &names)?;
            }
            "filter_bits_per_key" => options.filter_bits_per_key = parsed(name, value)?,
            "prefix_filter" => options.prefix_filter = Some(Prefix::Bytes(parsed(name, value)?)),
            "run_bytes_max" => options.run_bytes_max = parsed(name, value)?,
            "fanout" => options.fanout = parsed(name, value)?,
            "logged" => options.logged = parsed(name, value)?,
            "merge" => options.merge = Some(value.to_owned()),
            "large_value_bytes" => options.large_value_bytes = parsed(name, value)?,
            "time_to_live" => options.time_to_live = Some(seconds(name, value)?),
            _ => return Err(Error::invalid(format!("a table has no option '{name}'"))),
        }
        Ok(())
    })
}

fn parsed<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::invalid(format!("option {name} cannot be '{value}'")))
}

fn seconds(name: &str, value: &str) -> Result<Duration> {
    Duration::try_from_secs_f64(parsed(name, value)?)
        .map_err(|_| Error::invalid(format!("option {name} is '{value}': it must be a time in seconds, from 0 on")))
}

fn choice<T: Copy>(name: &str, value: &str, names: &[(&str, T)]) -> Result<T> {
    let found = names.iter().find(|(known, _)| *known == value);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|(known, _)| *known).collect();
        Error::invalid(format!("option {name} is '{value}': it must be one of {}", known.join(", ")))
    })
}
