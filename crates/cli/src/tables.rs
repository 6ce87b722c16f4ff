//! `tables`, `create` and `drop`.

use crate::args::{CreateArgs, DropArgs, TablesArgs};
use crate::output::Output;
use crate::store::{close_after, open_or_create, with_db};
use anyhow::{Result, bail};
use serde_json::json;
use spinney::{Compression, Prefix, Table, TableOptions};
use spinney_lab::text;
use std::io::Write as _;

/// Prints the tables and what they are made of.
pub(crate) fn list(args: &TablesArgs, out: &mut Output) -> Result<()> {
    with_db(&args.db, |db| {
        let tables = db.tables()?;
        if args.json {
            return out.json(&tables.iter().map(json_of).collect::<Vec<_>>());
        }
        let mut list = text::Table::new(&["table", "layout", "block", "compression", "redo log"]);
        for table in &tables {
            let TableOptions { layout, block_bytes, compression, logged, .. } = *table.options();
            let (block, log) = (text::bytes(u64::from(block_bytes)), if logged { "yes" } else { "no" });
            let cells = [layout.name(), &block, compression_name(compression), log];
            list.row(std::iter::once(table.name()).chain(cells).map(str::to_owned));
        }
        Ok(write!(out, "{}", list.render())?)
    })
}

fn json_of(table: &Table) -> serde_json::Value {
    let options = table.options();
    json!({
        "table": table.name(),
        "layout": options.layout.name(),
        "block_bytes": options.block_bytes,
        "compression": compression_name(options.compression),
        "filter_bits_per_key": options.filter_bits_per_key,
        "misses_are_rare": options.misses_are_rare,
        "prefix_filter": options.prefix_filter.map(prefix_text),
        "run_bytes_max": options.run_bytes_max,
        "fanout": options.fanout,
        "logged": options.logged,
        "merge": options.merge,
        "compaction_filter": options.compaction_filter,
        "large_value_bytes": options.large_value_bytes,
        "time_to_live_seconds": options.time_to_live.map(|time| time.as_secs_f64()),
    })
}

fn compression_name(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}

/// A rule of prefixes as `--prefix-filter` takes it.
fn prefix_text(prefix: Prefix) -> String {
    match prefix {
        Prefix::Bytes(count) => format!("bytes:{count}"),
        Prefix::UpTo(end) if end.is_ascii_graphic() => format!("upto:{}", char::from(end)),
        Prefix::UpTo(end) => format!("upto:0x{end:02x}"),
    }
}

/// Makes a table.
pub(crate) fn create(args: &CreateArgs) -> Result<()> {
    let mut options =
        TableOptions { layout: args.layout.into(), compression: args.compression.into(), ..TableOptions::default() };
    if let Some(block) = args.block {
        let Ok(block_bytes) = u32::try_from(block) else { bail!("--block is larger than any block: {block} bytes") };
        options.block_bytes = block_bytes;
    }
    options.filter_bits_per_key = args.filter_bits.unwrap_or(options.filter_bits_per_key);
    options.misses_are_rare = args.misses_are_rare;
    options.prefix_filter = args.prefix_filter;
    options.fanout = args.fanout.unwrap_or(options.fanout);
    options.logged = !args.unlogged;
    options.merge.clone_from(&args.merge);
    if let Some(bytes) = args.large_values {
        let Ok(bytes) = u32::try_from(bytes) else { bail!("--large-values is larger than any value: {bytes} bytes") };
        options.large_value_bytes = bytes;
    }
    options.time_to_live = args.time_to_live;
    close_after(open_or_create(&args.table.db)?, |db| {
        db.create_table(&args.table.table, options)?;
        Ok(())
    })
}

/// Drops a table and all in it.
pub(crate) fn drop(args: &DropArgs) -> Result<()> {
    with_db(&args.table.db, |db| Ok(db.drop_table(&args.table.table)?))
}
