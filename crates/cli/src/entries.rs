//! `get`, `put` and `delete`: one entry.

use crate::args::{DeleteArgs, GetArgs, PutArgs};
use crate::output::{Output, argument, escape, json_of};
use crate::store::with_table;
use anyhow::{Context as _, Result, bail};
use serde_json::json;
use spinney::Batch;
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
    with_table(&args.table, |db, table| {
        let mut batch = Batch::new();
        batch.put(table, &key, &value);
        Ok(db.write(batch, args.durability.into())?)
    })
}

/// Deletes an entry.
pub(crate) fn delete(args: &DeleteArgs) -> Result<()> {
    let key = argument(&args.key, args.escape)?;
    with_table(&args.table, |db, table| {
        let mut batch = Batch::new();
        batch.delete(table, &key);
        Ok(db.write(batch, args.durability.into())?)
    })
}
