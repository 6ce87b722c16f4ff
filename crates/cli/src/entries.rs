//! `get`, `put`, `merge` and `delete`: one entry, several, or those of a range.

use crate::args::{CommitArgs, DeleteArgs, GetArgs, MergeArgs, PutArgs, TableArgs};
use crate::output::{Output, Values, argument, escape, json_of};
use crate::scan::{borrowed, bounds};
use crate::store::{close_after, open_to_commit, table, with_table};
use anyhow::{Context as _, Result, bail};
use serde_json::json;
use spinney::{Batch, Table};
use std::io::{Read as _, Write as _};

/// Prints the value of a key, or the entries of several.
pub(crate) fn get(args: &GetArgs, out: &mut Output) -> Result<()> {
    let keys = args.keys.iter().map(|key| argument(key, args.escape)).collect::<Result<Vec<_>>>()?;
    with_table(&args.table, |db, table| {
        let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let (values, shown) = (db.snapshot().multi_get(table, &wanted)?, Values::of(table, args.escape));
        for (key, value) in keys.iter().zip(&values) {
            match value {
                Some(value) if args.json => {
                    out.json_line(&json!({ "key": json_of(key), "value": shown.json(value) }))?;
                }
                Some(value) => print(key, (value, shown), args, out)?,
                None => {}
            }
        }
        let absent = keys.iter().zip(&values).filter(|(_, value)| value.is_none());
        let missing: Vec<String> = absent.map(|(key, _)| format!("`{}`", escape(key))).collect();
        match missing.len() {
            0 => Ok(()),
            count => {
                let noun = if count == 1 { "key" } else { "keys" };
                bail!("table `{}` has no {noun} {}", args.table.table, missing.join(", "))
            }
        }
    })
}

/// Prints the value, behind its key if there are several.
fn print(key: &[u8], (value, shown): (&[u8], Values), args: &GetArgs, out: &mut Output) -> Result<()> {
    if args.keys.len() > 1 {
        out.bytes(key, args.escape)?;
        write!(out, "\t")?;
    }
    shown.print(value, out)?;
    Ok(writeln!(out)?)
}

/// Puts an entry.
pub(crate) fn put(args: &PutArgs) -> Result<()> {
    let key = argument(&args.key, args.escape)?;
    let value = match &args.value {
        Some(value) => argument(value, args.escape)?,
        None => {
            let mut value = Vec::new();
            std::io::stdin().lock().read_to_end(&mut value).context("cannot read stdin")?;
            value
        }
    };
    commit(&args.table, &args.commit, |batch, table| batch.put(table, &key, &value))
}

/// Merges an operand into an entry.
pub(crate) fn merge(args: &MergeArgs) -> Result<()> {
    let key = argument(&args.key, args.escape)?;
    let operand = &args.operand;
    close_after(open_to_commit(&args.table.db, &args.commit, false)?, |db| {
        let table = table(db, &args.table.table)?;
        let operand = match table.options().merge.as_deref() {
            Some("add") => number(operand)?.to_vec(),
            _ => operand.as_bytes().to_vec(),
        };
        let mut batch = Batch::new();
        batch.merge(&table, &key, &operand);
        Ok(db.write(batch, args.commit.durability.into())?)
    })
}

/// The operand of `add` that is a number: from the least of signed ones to the greatest of unsigned ones.
fn number(text: &str) -> Result<[u8; 8]> {
    let unsigned = text.parse().map(u64::to_le_bytes);
    let number = unsigned.or_else(|_| text.parse().map(i64::to_le_bytes));
    number.with_context(|| format!("`{text}` is no whole number of 64 bits, which the merge operator `add` takes"))
}

/// Deletes an entry, or those of a range.
pub(crate) fn delete(args: &DeleteArgs) -> Result<()> {
    if let Some(key) = &args.key {
        let key = argument(key, args.escape)?;
        return commit(&args.table, &args.commit, |batch, table| {
            if args.single { batch.single_delete(table, &key) } else { batch.delete(table, &key) }
        });
    }
    let bounds = bounds(&args.range, args.escape)?;
    commit(&args.table, &args.commit, |batch, table| batch.delete_range(table, borrowed(&bounds)))
}

/// Commits a change of a table that is there.
fn commit(args: &TableArgs, how: &CommitArgs, change: impl FnOnce(&mut Batch, &Table)) -> Result<()> {
    close_after(open_to_commit(&args.db, how, false)?, |db| {
        let mut batch = Batch::new();
        change(&mut batch, &table(db, &args.table)?);
        Ok(db.write(batch, how.durability.into())?)
    })
}
