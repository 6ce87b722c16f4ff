//! Transactions.

use std::mem::MaybeUninit;
use std::time::Duration;

use crate::bytes::{Bytes, Value, ends, found};
use crate::database::Database;
use crate::options::{CommitDurability, TransactionIsolation};
use crate::range::{Range, RangeDirection, give_range};
use crate::status::{Given as _, Status, call, done};
use crate::table::Table;

/// Reads the database as of its begin, and writes all or nothing. For one thread at a time. It ends with
/// `spinney_txn_commit` or `spinney_txn_rollback`.
#[derive(Debug)]
pub struct Transaction {
    inner: spinney::Transaction,
    durability: spinney::Durability,
}

/// A point of a transaction to which it can go back.
#[derive(Debug)]
pub struct Savepoint(spinney::Savepoint);

/// Begins a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_begin(
    database: Option<&Database>,
    isolation: TransactionIsolation,
    transaction: Option<&mut MaybeUninit<Box<Transaction>>>,
) -> Status {
    done(|| {
        let (db, out) = (&database.given("database")?.0, transaction.given("transaction")?);
        let inner = db.begin_with(isolation.get());
        out.write(Box::new(Transaction { inner, durability: db.options().durability }));
        Ok(())
    })
}

/// Commits, and frees the handle, also when it returns an error. `SPINNEY_STATUS_CONFLICT` when another transaction
/// changed first what this one wrote or, serializable, read: nothing is written, and it can be run again.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_commit(transaction: Option<Box<Transaction>>, durability: CommitDurability) -> Status {
    done(|| {
        let Transaction { inner, durability: default } = *transaction.given("transaction")?;
        inner.commit_with(durability.get(default))
    })
}

/// Forgets what a transaction wrote, and frees the handle. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_rollback(transaction: Option<Box<Transaction>>) {
    drop(transaction);
}

/// Gives the value of a key as the transaction sees it; `SPINNEY_STATUS_NONE` when there is none.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_get(
    transaction: Option<&Transaction>,
    table: Option<&Table>,
    key: Bytes,
    value: Option<&mut MaybeUninit<Value>>,
) -> Status {
    call(|| {
        let (txn, table) = (&transaction.given("transaction")?.inner, &table.given("table")?.0);
        Ok(found(value.given("value")?, txn.get(table, key.get()?)?))
    })
}

/// As `spinney_txn_get`, and locks the key until the transaction ends. Waits for others' locks as long as
/// `spinney_txn_set_lock_wait` says: then `SPINNEY_STATUS_TIMEOUT`, or at once `SPINNEY_STATUS_DEADLOCK`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_get_for_update(
    transaction: Option<&mut Transaction>,
    table: Option<&Table>,
    key: Bytes,
    value: Option<&mut MaybeUninit<Value>>,
) -> Status {
    call(|| {
        let (txn, table) = (&mut transaction.given("transaction")?.inner, &table.given("table")?.0);
        Ok(found(value.given("value")?, txn.get_for_update(table, key.get()?)?))
    })
}

/// Locks all keys from `from` on and before `to`, there or not, until the transaction ends.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_lock_range(
    transaction: Option<&mut Transaction>,
    table: Option<&Table>,
    from: Option<&Bytes>,
    to: Option<&Bytes>,
) -> Status {
    done(|| transaction.given("transaction")?.inner.lock_range(&table.given("table")?.0, ends(from, to)?))
}

/// How many milliseconds locks are waited for: 5,000 unless set.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_set_lock_wait(transaction: Option<&mut Transaction>, milliseconds: u64) -> Status {
    done(|| {
        transaction.given("transaction")?.inner.set_lock_wait(Duration::from_millis(milliseconds));
        Ok(())
    })
}

/// Sets the value of a key.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_put(
    transaction: Option<&mut Transaction>,
    table: Option<&Table>,
    key: Bytes,
    value: Bytes,
) -> Status {
    done(|| transaction.given("transaction")?.inner.put(&table.given("table")?.0, key.get()?, value.get()?))
}

/// Sets the value of a key that has none: `SPINNEY_STATUS_ALREADY_EXISTS` when it has one; the commit is
/// `SPINNEY_STATUS_CONFLICT` when another transaction gives it one before.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_put_new(
    transaction: Option<&mut Transaction>,
    table: Option<&Table>,
    key: Bytes,
    value: Bytes,
) -> Status {
    done(|| transaction.given("transaction")?.inner.put_new(&table.given("table")?.0, key.get()?, value.get()?))
}

/// Removes a key, if it is there.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_delete(
    transaction: Option<&mut Transaction>,
    table: Option<&Table>,
    key: Bytes,
) -> Status {
    done(|| transaction.given("transaction")?.inner.delete(&table.given("table")?.0, key.get()?))
}

/// Removes all keys from `from` on and before `to`; `NULL` is no limit.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_delete_range(
    transaction: Option<&mut Transaction>,
    table: Option<&Table>,
    from: Option<&Bytes>,
    to: Option<&Bytes>,
) -> Status {
    done(|| transaction.given("transaction")?.inner.delete_range(&table.given("table")?.0, ends(from, to)?))
}

/// Merges an operand into the value of a key by the table's merge operator.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_merge(
    transaction: Option<&mut Transaction>,
    table: Option<&Table>,
    key: Bytes,
    operand: Bytes,
) -> Status {
    done(|| transaction.given("transaction")?.inner.merge(&table.given("table")?.0, key.get()?, operand.get()?))
}

/// Gives the entries from `from` on and before `to` as the transaction sees them now; `NULL` is no limit.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_range(
    transaction: Option<&Transaction>,
    table: Option<&Table>,
    from: Option<&Bytes>,
    to: Option<&Bytes>,
    direction: RangeDirection,
    range: Option<&mut MaybeUninit<Box<Range>>>,
) -> Status {
    done(|| {
        let (txn, table) = (&transaction.given("transaction")?.inner, &table.given("table")?.0);
        let ends = ends(from, to)?;
        give_range(
            range,
            match direction {
                RangeDirection::Ascending => txn.range(table, ends),
                RangeDirection::Descending => txn.range_rev(table, ends),
            },
        )
    })
}

/// Gives the commit a note that stands in the log beside its changes.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_note(transaction: Option<&mut Transaction>, note: Bytes) -> Status {
    done(|| {
        transaction.given("transaction")?.inner.note(note.get()?);
        Ok(())
    })
}

/// Gives a point to which `spinney_txn_rollback_to` goes back. Free it with `spinney_savepoint_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_savepoint(
    transaction: Option<&mut Transaction>,
    savepoint: Option<&mut MaybeUninit<Box<Savepoint>>>,
) -> Status {
    done(|| {
        let (txn, out) = (transaction.given("transaction")?, savepoint.given("savepoint")?);
        out.write(Box::new(Savepoint(txn.inner.savepoint())));
        Ok(())
    })
}

/// Forgets what was written since a savepoint, which stays.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_txn_rollback_to(
    transaction: Option<&mut Transaction>,
    savepoint: Option<&Savepoint>,
) -> Status {
    done(|| transaction.given("transaction")?.inner.rollback_to(&savepoint.given("savepoint")?.0))
}

/// Frees a savepoint. What was written since stays. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_savepoint_free(savepoint: Option<Box<Savepoint>>) {
    drop(savepoint);
}
