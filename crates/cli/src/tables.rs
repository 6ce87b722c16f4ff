//! `tables`, `create` and `drop`.

use crate::args::{CreateArgs, DropArgs, LayoutArg, TablesArgs};
use crate::escape::one_line;
use crate::failure::Usage;
use crate::output::Output;
use crate::store::{in_new_or_old, look, refuse_documents, with_table};
use anyhow::{Result, bail};
use serde_json::json;
use spinney::{Database, Options, Shape, Table, TableOptions};
use spinney_lab::text;
use std::io::Write as _;

/// Prints the tables and what they are made of.
pub(crate) fn list(args: &TablesArgs, out: &mut Output) -> Result<()> {
    look(&args.db, |db| list_of(db, args.json, out))
}

/// As [`list`] of a database that is open.
pub(crate) fn list_of(db: &Database, json: bool, out: &mut Output) -> Result<()> {
    let tables = db.tables()?;
    if json {
        return out.json(&tables.iter().map(json_of).collect::<Result<Vec<_>>>()?);
    }
    let mut list =
        text::Table::new(&["table", "layout", "compression", "options", "entries", "disk", "memory"]).left(4);
    for table in &tables {
        let (options, size) = (table.options(), Size::of(&table.shape()?));
        let words = [options.layout.name(), options.compression.name()].map(str::to_owned);
        let sizes = [text::count(size.entries), text::bytes(size.disk_bytes), text::bytes(size.memory_bytes)];
        let name = std::iter::once(one_line(table.name()));
        list.row(name.chain(words).chain([special(options)]).chain(sizes));
    }
    let width = out.columns().unwrap_or(usize::MAX);
    Ok(write!(out, "{}", list.render_within(width))?)
}

/// How much a table holds.
pub(crate) struct Size {
    pub(crate) entries: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) memory_bytes: u64,
}

impl Size {
    /// Of a table with a shape.
    pub(crate) fn of(shape: &Shape) -> Self {
        let runs = shape.l0.iter().map(|run| (run.entries, run.bytes));
        let levels = shape.levels.iter().map(|level| (level.entries, level.bytes));
        let btree = shape.btree.iter().map(|btree| (btree.entries, btree.file_bytes));
        let on_disk = (0, shape.values.bytes);
        let sum = |(entries, bytes): (u64, u64), (more, larger): (u64, u64)| (entries + more, bytes + larger);
        let (entries, disk_bytes) = runs.chain(levels).chain(btree).fold(on_disk, sum);
        let memory_bytes = shape.memtable_bytes + shape.immutable_bytes;
        Self { entries: entries + shape.memtable_entries, disk_bytes, memory_bytes }
    }
}

/// The options of a table that are not the usual ones, as the flags of `create` say them.
fn special(options: &TableOptions) -> String {
    let usual = TableOptions::default();
    let size = |bytes: u32| text::bytes(bytes.into()).replace(' ', "");
    let mut words = Vec::new();
    let mut word = |differs: bool, word: String| {
        if differs {
            words.push(word);
        }
    };
    word(options.block_bytes != usual.block_bytes, format!("block={}", size(options.block_bytes)));
    word(
        options.filter_bits_per_key != usual.filter_bits_per_key,
        format!("filter-bits={}", options.filter_bits_per_key),
    );
    word(options.fanout != usual.fanout, format!("fanout={}", options.fanout));
    word(!options.logged, "unlogged".to_owned());
    word(options.large_value_bytes > 0, format!("large-values={}", size(options.large_value_bytes)));
    for (flag, value) in [
        ("prefix-filter", options.prefix_filter.map(|rule| rule.to_string())),
        ("merge", options.merge.clone()),
        ("compaction-filter", options.compaction_filter.clone()),
        ("time-to-live", options.time_to_live.map(|time| format!("{}s", time.as_secs_f64()))),
    ] {
        word(value.is_some(), format!("{flag}={}", one_line(&value.unwrap_or_default())));
    }
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

fn json_of(table: &Table) -> Result<serde_json::Value> {
    let (options, size) = (table.options(), Size::of(&table.shape()?));
    Ok(json!({
        "table": table.name(),
        "layout": options.layout.name(),
        "block_bytes": options.block_bytes,
        "compression": options.compression.name(),
        "filter_bits_per_key": options.filter_bits_per_key,
        "prefix_filter": options.prefix_filter.map(|rule| rule.to_string()),
        "run_bytes_max": options.run_bytes_max,
        "fanout": options.fanout,
        "logged": options.logged,
        "merge": options.merge,
        "compaction_filter": options.compaction_filter,
        "large_value_bytes": options.large_value_bytes,
        "time_to_live_seconds": options.time_to_live.map(|time| time.as_secs_f64()),
        "entries": size.entries,
        "disk_bytes": size.disk_bytes,
        "memory_bytes": size.memory_bytes,
    }))
}

/// Makes a table.
pub(crate) fn create(args: &CreateArgs) -> Result<()> {
    // Before there is a database.
    options(args)?;
    in_new_or_old(&args.table.db, Options::default(), |db| create_in(db, args))
}

/// As [`create`] in a database that is open.
pub(crate) fn create_in(db: &Database, args: &CreateArgs) -> Result<()> {
    let options = options(args)?;
    let name = &args.table.table;
    refuse_documents(db, name, args.force.force)?;
    if let Some(table) = db.table(name)? {
        let TableOptions { layout, logged, .. } = table.options();
        let (name, log) = (one_line(name), if *logged { "" } else { ", without redo log" });
        bail!("table `{name}` exists already ({}{log}): drop it first, or give another name", layout.name());
    }
    db.create_table(name, options)?;
    Ok(())
}

/// The options of a new table; flags that do not go together are refused.
fn options(args: &CreateArgs) -> Result<TableOptions> {
    let is_btree = args.layout == LayoutArg::Btree;
    let refused = [
        (
            is_btree && args.large_values.is_some(),
            "--large-values is for the LSM layouts: a B-tree keeps values with their keys",
        ),
        (is_btree && args.prefix_filter.is_some(), "--prefix-filter is for the LSM layouts: a B-tree has no filters"),
        (
            args.prefix_filter.is_some() && args.filter_bits == Some(0),
            "--prefix-filter needs filters: leave out --filter-bits 0",
        ),
        (
            is_btree && args.time_to_live.is_some(),
            "--time-to-live is for the LSM layouts: a B-tree would be rewritten as a whole again and again",
        ),
        (
            args.merge.is_some() && args.time_to_live.is_some(),
            "--time-to-live and --merge do not go together: what merge operands are folded into has no one age",
        ),
    ];
    if let Some((_, why)) = refused.iter().find(|(is_refused, _)| *is_refused) {
        bail!(Usage((*why).to_owned()));
    }
    let usual = TableOptions::default();
    let options = TableOptions::default()
        .layout(args.layout.into())
        .compression(args.compression.into())
        .block_bytes(args.block.map_or(Ok(usual.block_bytes), u32::try_from)?)
        .filter_bits_per_key(args.filter_bits.unwrap_or(usual.filter_bits_per_key))
        .prefix_filter(args.prefix_filter)
        .fanout(args.fanout.unwrap_or(usual.fanout))
        .logged(!args.unlogged)
        .merge(args.merge.as_deref())
        .large_value_bytes(args.large_values.map_or(Ok(usual.large_value_bytes), u32::try_from)?)
        .time_to_live(args.time_to_live);
    options.check()?;
    Ok(options)
}

/// Drops a table and all in it.
pub(crate) fn drop(args: &DropArgs) -> Result<()> {
    with_table(&args.table, |db, table| drop_in(db, table, args))
}

/// As [`drop`] in a database that is open.
pub(crate) fn drop_in(db: &Database, table: &Table, args: &DropArgs) -> Result<()> {
    refuse_documents(db, table.name(), args.force.force)?;
    Ok(db.drop_table(table.name())?)
}
