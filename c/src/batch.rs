//! Batches.

use crate::bytes::{Bytes, ends};
use crate::database::Database;
use crate::options::CommitDurability;
use crate::status::{Given as _, Status, done};
use crate::table::Table;

/// Changes of any tables that `spinney_write` commits at once and that check nothing. For one thread at a time.
#[derive(Debug, Default)]
pub struct Batch(pub(crate) spinney::Batch);

/// A new batch. Free it with `spinney_batch_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_batch_new() -> Box<Batch> {
    Box::default()
}

/// Frees a batch. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_batch_free(batch: Option<Box<Batch>>) {
    drop(batch);
}

/// Forgets the changes of a batch, which can be used again.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_batch_clear(batch: Option<&mut Batch>) {
    if let Some(batch) = batch {
        batch.0.clear();
    }
}

/// How many changes a batch has.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_batch_count(batch: Option<&Batch>) -> usize {
    batch.map_or(0, |batch| batch.0.len())
}

/// Sets the value of a key.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_batch_put(
    batch: Option<&mut Batch>,
    table: Option<&Table>,
    key: Bytes,
    value: Bytes,
) -> Status {
    done(|| {
        batch.given("batch")?.0.put(&table.given("table")?.0, key.get()?, value.get()?);
        Ok(())
    })
}

/// Removes a key, if it is there.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_batch_delete(batch: Option<&mut Batch>, table: Option<&Table>, key: Bytes) -> Status {
    done(|| {
        batch.given("batch")?.0.delete(&table.given("table")?.0, key.get()?);
        Ok(())
    })
}

/// Removes all keys from `from` on and before `to`; `NULL` is no limit.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_batch_delete_range(
    batch: Option<&mut Batch>,
    table: Option<&Table>,
    from: Option<&Bytes>,
    to: Option<&Bytes>,
) -> Status {
    done(|| {
        batch.given("batch")?.0.delete_range(&table.given("table")?.0, ends(from, to)?);
        Ok(())
    })
}

/// Merges an operand into the value of a key by the table's merge operator.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_batch_merge(
    batch: Option<&mut Batch>,
    table: Option<&Table>,
    key: Bytes,
    operand: Bytes,
) -> Status {
    done(|| {
        batch.given("batch")?.0.merge(&table.given("table")?.0, key.get()?, operand.get()?);
        Ok(())
    })
}

/// Gives the commit a note that stands in the log beside its changes.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_batch_note(batch: Option<&mut Batch>, note: Bytes) -> Status {
    done(|| {
        batch.given("batch")?.0.note(note.get()?);
        Ok(())
    })
}

/// Commits the changes of a batch at once. The batch stays as it is.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_write(
    database: Option<&Database>,
    batch: Option<&Batch>,
    durability: CommitDurability,
) -> Status {
    done(|| {
        let db = &database.given("database")?.0;
        db.write_with(&batch.given("batch")?.0, durability.get(db.options().durability))
    })
}
