//! `get`, `put`, `merge` and `delete`: one entry, several, or those of a range.

use crate::access::{Bounds, Changes, Reader};
use crate::args::{CommitArgs, DeleteArgs, ForceArgs, GetArgs, MergeArgs, PutArgs, RangeArgs, TableArgs};
use crate::escape::{escape, one_line};
use crate::failure::{Absent, Usage};
use crate::output::{Form, Output, Values, argument};
use crate::scan::bounds;
use crate::store::{close_after, look_at_table, open_to_commit, refuse_documents, refuse_member, table};
use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::json;
use spinney::{Batch, Table};
use std::io::{Read as _, Write as _};
use std::ops::Bound;

/// Prints the value of a key, or the entries of several.
pub(crate) fn get(args: &GetArgs, out: &mut Output) -> Result<()> {
    check_keys(args)?;
    look_at_table(&args.table, |db, table| get_from(&db.snapshot(), table, args, out))
}

/// Refuses keys whose escapes are wrong, before a database is opened.
fn check_keys(args: &GetArgs) -> Result<()> {
    args.keys.iter().try_for_each(|key| argument(key, args.escape).map(drop))
}

/// As [`get`] from a table that is open.
pub(crate) fn get_from(reader: &dyn Reader, table: &Table, args: &GetArgs, out: &mut Output) -> Result<()> {
    let keys = args.keys.iter().map(|key| argument(key, args.escape)).collect::<Result<Vec<_>>>()?;
    let form = Form::of(args.escape, args.hex);
    let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let (values, shown) = (reader.values(table, &wanted)?, Values::of(table, form));
    for (key, value) in keys.iter().zip(&values) {
        match value {
            Some(value) if args.json => {
                out.json_line(&json!({ "key": shown.json_key(key), "value": shown.json(value) }))?;
            }
            Some(value) if keys.len() > 1 => {
                out.bytes(key, form)?;
                write!(out, "\t")?;
                shown.print(value, out)?;
                writeln!(out)?;
            }
            Some(value) => {
                shown.print(value, out)?;
                // The bytes of one value are all that a file or a pipe gets, so that they come back as they went
                // in.
                if out.has_lines_only() || shown.is_text(value) {
                    writeln!(out)?;
                }
            }
            None => {}
        }
    }
    let absent = keys.iter().zip(&values).filter(|(_, value)| value.is_none());
    let missing: Vec<String> = absent.map(|(key, _)| format!("`{}`", escape(key))).collect();
    match missing.len() {
        0 => Ok(()),
        count => {
            let noun = if count == 1 { "key" } else { "keys" };
            bail!(Absent(format!("table `{}` has no {noun} {}", one_line(&args.table.table), missing.join(", "))))
        }
    }
}

/// Puts an entry.
pub(crate) fn put(args: &PutArgs) -> Result<()> {
    argument(&args.key, args.escape)?;
    let value = match &args.value {
        Some(value) => argument(value, args.escape)?,
        None => {
            let mut value = Vec::new();
            std::io::stdin().lock().read_to_end(&mut value).context("cannot read stdin")?;
            value
        }
    };
    commit(&args.table, &args.force, &args.commit, |batch, table| put_to(batch, table, args, &value))
}

/// Puts an entry with this value.
pub(crate) fn put_to(to: &mut dyn Changes, table: &Table, args: &PutArgs, value: &[u8]) -> Result<()> {
    let key = argument(&args.key, args.escape)?;
    if counts(table) && !args.escape {
        to.put(table, &key, &number(&String::from_utf8_lossy(value))?)
    } else {
        to.put(table, &key, value)
    }
}

/// Merges an operand into an entry.
pub(crate) fn merge(args: &MergeArgs) -> Result<()> {
    argument(&args.key, args.escape)?;
    commit(&args.table, &args.force, &args.commit, |batch, table| merge_to(batch, table, args))
}

/// As [`merge`] into a table that is open.
pub(crate) fn merge_to(to: &mut dyn Changes, table: &Table, args: &MergeArgs) -> Result<()> {
    let key = argument(&args.key, args.escape)?;
    if counts(table) {
        to.merge(table, &key, &number(&args.operand)?)
    } else {
        to.merge(table, &key, args.operand.as_bytes())
    }
}

/// Whether the values of a table are counters.
pub(crate) fn counts(table: &Table) -> bool {
    table.options().merge.as_deref() == Some("add")
}

/// The value or operand of `add` that is a number: from the least of signed ones to the greatest of unsigned ones.
pub(crate) fn number(text: &str) -> Result<[u8; 8]> {
    let text = text.trim();
    let unsigned = text.parse().map(u64::to_le_bytes);
    let number = unsigned.or_else(|_| text.parse().map(i64::to_le_bytes));
    let shown: String = text.chars().take(40).collect();
    number.map_err(|_| anyhow!("`{shown}` is not a whole number of 64 bits, which a table with --merge add takes"))
}

/// Deletes an entry, or those of a range.
pub(crate) fn delete(args: &DeleteArgs, out: &mut Output) -> Result<()> {
    let wanted = deleted(args)?;
    commit(&args.table, &args.force, &args.commit, |batch, table| delete_from(batch, table, args, &wanted))?;
    print_deleted(args, out)
}

/// What a delete is of.
pub(crate) enum Deleted {
    Key(Vec<u8>),
    Range(Bounds),
}

/// What these arguments delete; what they must not is refused.
pub(crate) fn deleted(args: &DeleteArgs) -> Result<Deleted> {
    if let Some(key) = &args.key {
        return Ok(Deleted::Key(argument(key, args.escape)?));
    }
    let RangeArgs { from, to, prefix } = &args.range;
    for (flag, given) in [("--from", from), ("--to", to), ("--prefix", prefix)] {
        if given.as_ref().is_some_and(String::is_empty) {
            bail!(Usage(format!("{flag} is empty: to delete all keys of the table, say --all")));
        }
    }
    let bounds = bounds(&args.range, args.escape)?;
    if let (Bound::Included(first), Bound::Excluded(end)) = &bounds
        && first > end
    {
        let [from, to] = [from, to].map(|text| one_line(text.as_deref().unwrap_or_default()));
        bail!(Usage(format!("--from `{from}` comes after --to `{to}`: no key is between them")));
    }
    Ok(Deleted::Range(bounds))
}

/// Deletes from a table that is open.
pub(crate) fn delete_from(to: &mut dyn Changes, table: &Table, args: &DeleteArgs, what: &Deleted) -> Result<()> {
    match what {
        Deleted::Key(key) if args.single => to.single_delete(table, key),
        Deleted::Key(key) => to.delete(table, key),
        Deleted::Range(bounds) => to.delete_range(table, bounds),
    }
}

/// Tells which range was deleted.
pub(crate) fn print_deleted(args: &DeleteArgs, out: &mut Output) -> Result<()> {
    if args.key.is_some() {
        return Ok(());
    }
    let RangeArgs { from, to, prefix } = &args.range;
    let which = match (from, to, prefix) {
        (_, _, Some(prefix)) => format!("that start with `{}`", one_line(prefix)),
        (Some(from), Some(to), _) => format!("from `{}` to before `{}`", one_line(from), one_line(to)),
        (Some(from), None, _) => format!("from `{}` on", one_line(from)),
        (None, Some(to), _) => format!("before `{}`", one_line(to)),
        (None, None, None) => "that there were".to_owned(),
    };
    Ok(writeln!(out, "deleted all keys of `{}` {which}", one_line(&args.table.table))?)
}

/// Commits a change of a table that is there.
fn commit(
    args: &TableArgs,
    force: &ForceArgs,
    how: &CommitArgs,
    change: impl FnOnce(&mut Batch, &Table) -> Result<()>,
) -> Result<()> {
    close_after(open_to_commit(&args.db, how)?, |db| {
        refuse_member(db)?;
        refuse_documents(db, &args.table, force.force)?;
        let mut batch = Batch::new();
        change(&mut batch, &table(db, &args.table)?)?;
        Ok(db.write_with(&batch, how.durability.into())?)
    })
}
