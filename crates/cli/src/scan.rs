//! `scan` and `count`: the entries of a range.

use crate::access::{Bounds, Reader};
use crate::args::{CountArgs, RangeArgs, ScanArgs};
use crate::output::{Form, Output, Values, argument};
use crate::store::look_at_table;
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value as Json, json};
use spinney::{Range, Table, prefix_range};
use spinney_lab::Stop;
use std::io::Write as _;
use std::ops::Bound;

/// Prints entries.
pub(crate) fn scan(args: &ScanArgs, out: &mut Output) -> Result<()> {
    bounds(&args.range, args.escape)?;
    look_at_table(&args.table, |db, table| scan_from(&db.snapshot(), table, args, &Stop::default(), out))
}

/// As [`scan`] of a table that is open, until it is asked to stop.
pub(crate) fn scan_from(
    reader: &dyn Reader,
    table: &Table,
    args: &ScanArgs,
    stop: &Stop,
    out: &mut Output,
) -> Result<()> {
    let (bounds, form) = (bounds(&args.range, args.escape)?, Form::of(args.escape, args.hex));
    let shown = Values::of(table, form);
    let mut range = reader.entries(table, &bounds, args.reverse);
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0
        && let Some((key, value)) = next(&mut range, args.keys_only)?
    {
        left -= 1;
        stop.check()?;
        if args.json {
            let value = value.map(|value| shown.json(value));
            out.json_line(&JsonEntry { key: shown.json_key(key), value })?;
            continue;
        }
        out.bytes(key, form)?;
        if let Some(value) = value {
            out.write_all(b"\t")?;
            shown.print(value, out)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A key, and its value if that is wanted.
type Lent<'a> = (&'a [u8], Option<&'a [u8]>);

/// The next entry, without its value when only keys are wanted: values kept apart are not read then.
fn next(range: &mut Range, keys_only: bool) -> Result<Option<Lent<'_>>> {
    if keys_only {
        return Ok(range.advance_key()?.map(|key| (key, None)));
    }
    Ok(range.advance()?.map(|(key, value)| (key, Some(value))))
}

#[derive(Serialize)]
struct JsonEntry {
    key: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
}

/// Prints how many entries there are.
pub(crate) fn count(args: &CountArgs, out: &mut Output) -> Result<()> {
    bounds(&args.range, args.escape)?;
    look_at_table(&args.table, |db, table| count_from(&db.snapshot(), table, args, &Stop::default(), out))
}

/// As [`count`] of a table that is open, until it is asked to stop.
pub(crate) fn count_from(
    reader: &dyn Reader,
    table: &Table,
    args: &CountArgs,
    stop: &Stop,
    out: &mut Output,
) -> Result<()> {
    let (mut count, mut range) = (0_u64, reader.entries(table, &bounds(&args.range, args.escape)?, false));
    while range.advance_key()?.is_some() {
        count += 1;
        stop.check()?;
    }
    if args.json { out.json_line(&json!({ "count": count })) } else { Ok(writeln!(out, "{count}")?) }
}

/// The keys that arguments name.
pub(crate) fn bounds(args: &RangeArgs, escapes: bool) -> Result<Bounds> {
    if let Some(prefix) = &args.prefix {
        return Ok(prefix_range(argument(prefix, escapes)?));
    }
    let bound = |text: &Option<String>| text.as_ref().map(|text| argument(text, escapes)).transpose();
    let from = bound(&args.from)?.map_or(Bound::Unbounded, Bound::Included);
    let to = bound(&args.to)?.map_or(Bound::Unbounded, Bound::Excluded);
    Ok((from, to))
}
