//! `get`, `put` and `delete`: one entry, or those of a range.

use crate::args::{CommitArgs, DeleteArgs, GetArgs, PutArgs, TableArgs};
use crate::output::{Output, argument, escape, json_of};
use crate::scan::{borrowed, bounds};
use crate::store::{close_after, open_to_commit, table, with_table};
use anyhow::{Context as _, Result, bail};
use serde_json::json;
use spinney::{Batch, Table};
use std::io::{Read as _, Write as _};

/// Prints a value.
pub(crate) fn get(args: &GetArgs, out: &mut Output) -> Result<()> {
    let key = argument(&args.key, args.escape)?;
    let value = with_table(&args.table, |db, table| Ok(db.snapshot().get(table, &key)?.map(Vec::from)))?;
    let Some(value) = value else { bail!("table `{}` has no key `{}`", args.table.table, escape(&key)) };
    if args.json {
        return out.json_line(&json!({ "key": json_of(&key), "value": json_of(&value) }));
    }
    out.bytes(&value, args.escape)?;
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
