//! Keyword arguments as options: each option has the name of the engine's field, so a new one needs one line here.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spinney::{Compression, Durability, Isolation, Layout, LogCompression, Options, Prefix, TableOptions};

use crate::bytes::Bytes;
use crate::error::invalid;

/// One of several names; the error lists them.
fn choice<T: Copy>(value: &Bound<'_, PyAny>, option: &str, names: &[(&str, T)]) -> PyResult<T> {
    let name: String = value.extract()?;
    let found = names.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<String> = names.iter().map(|(known, _)| format!("'{known}'")).collect();
        invalid(value.py(), &format!("{option} is '{name}': it must be one of {}", known.join(", ")))
    })
}

/// A time in seconds.
fn seconds(value: &Bound<'_, PyAny>, option: &str) -> PyResult<Duration> {
    let seconds: f64 = value.extract()?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| invalid(value.py(), &format!("{option} is {seconds}: it must be a time in seconds, from 0 on")))
}

/// A durability by its name.
pub(crate) fn durability(value: &Bound<'_, PyAny>) -> PyResult<Durability> {
    const NAMES: [(&str, Durability); 3] =
        [("sync", Durability::Sync), ("interval", Durability::Interval), ("buffered", Durability::Buffered)];
    choice(value, "durability", &NAMES)
}

/// An isolation by its name.
pub(crate) fn isolation(value: &Bound<'_, PyAny>) -> PyResult<Isolation> {
    choice(value, "isolation", &[("snapshot", Isolation::Snapshot), ("serializable", Isolation::Serializable)])
}

/// Keyword arguments of `what`, one after the other.
fn each<'py>(
    given: Option<&Bound<'py, PyDict>>,
    what: &str,
    mut set: impl FnMut(&str, &Bound<'py, PyAny>) -> PyResult<bool>,
) -> PyResult<()> {
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        if !set(&name, &value)? {
            return Err(PyTypeError::new_err(format!("{what} has no option '{name}'")));
        }
    }
    Ok(())
}

/// Options of a database.
pub(crate) fn database(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::default();
    each(given, "a database", |name, value| {
        match name {
            "memory_bytes" => options.memory_bytes = value.extract()?,
            "direct_io" => options.direct_io = value.extract()?,
            "log_dir" => options.log_dir = value.extract()?,
            "log_segment_bytes" => options.log_segment_bytes = value.extract()?,
            "log_bytes_max" => options.log_bytes_max = value.extract()?,
            "log_keep_bytes" => options.log_keep_bytes = value.extract()?,
            "log_keep_time" => options.log_keep_time = seconds(value, name)?,
            "log_compression" => {
                let names =
                    [("off", LogCompression::Off), ("lz4", LogCompression::Lz4), ("zstd", LogCompression::Zstd)];
                options.log_compression = choice(value, name, &names)?;
            }
            "interval" => options.interval = seconds(value, name)?,
            "durability" => options.durability = durability(value)?,
            "memtable_bytes" => options.memtable_bytes = value.extract()?,
            "compaction_threads" => options.compaction_threads = value.extract()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(options)
}

/// Options of a table.
pub(crate) fn table(given: Option<&Bound<'_, PyDict>>) -> PyResult<TableOptions> {
    let mut options = TableOptions::default();
    each(given, "a table", |name, value| {
        match name {
            "layout" => {
                let names = [Layout::BTree, Layout::Lsm, Layout::LsmTiered].map(|layout| (layout.name(), layout));
                options.layout = choice(value, name, &names)?;
            }
            "block_bytes" => options.block_bytes = value.extract()?,
            "compression" => {
                let names = [("none", Compression::None), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd)];
                options.compression = choice(value, name, &names)?;
            }
            "filter_bits_per_key" => options.filter_bits_per_key = value.extract()?,
            "prefix_filter" => options.prefix_filter = Some(prefix(value)?),
            "run_bytes_max" => options.run_bytes_max = value.extract()?,
            "fanout" => options.fanout = value.extract()?,
            "logged" => options.logged = value.extract()?,
            "merge" => options.merge = value.extract()?,
            "large_value_bytes" => options.large_value_bytes = value.extract()?,
            "time_to_live" => options.time_to_live = Some(seconds(value, name)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(options)
}

/// A number of bytes, or the byte that ends a prefix.
fn prefix(value: &Bound<'_, PyAny>) -> PyResult<Prefix> {
    if let Ok(count) = value.extract::<u8>() {
        return Ok(Prefix::Bytes(count));
    }
    match value.extract::<Bytes<'_>>()?.as_slice() {
        [end] => Ok(Prefix::UpTo(*end)),
        _ => {
            Err(invalid(value.py(), "prefix_filter is a number of bytes, 1 to 255, or the one byte that ends a prefix"))
        }
    }
}
