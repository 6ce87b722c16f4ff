//! Snapshots.

use std::mem::MaybeUninit;

use crate::bytes::{Bytes, Value, ends, found};
use crate::database::Database;
use crate::range::{Range, RangeDirection, give_range};
use crate::status::{Given as _, Status, call, done};
use crate::table::Table;

/// All tables as they were at one moment. Any thread may use it. It keeps what is overwritten meanwhile on disk.
#[derive(Debug)]
pub struct Snapshot(spinney::Snapshot);

/// Gives a view of all tables as they are now. Free it with `spinney_snapshot_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_snapshot_new(
    database: Option<&Database>,
    snapshot: Option<&mut MaybeUninit<Box<Snapshot>>>,
) -> Status {
    done(|| {
        let db = &database.given("database")?.0;
        snapshot.given("snapshot")?.write(Box::new(Snapshot(db.snapshot())));
        Ok(())
    })
}

/// Frees a snapshot. Its ranges go on. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_snapshot_free(snapshot: Option<Box<Snapshot>>) {
    drop(snapshot);
}

/// Gives the value that a key had; `SPINNEY_STATUS_NONE` when it had none. Free it with `spinney_value_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_snapshot_get(
    snapshot: Option<&Snapshot>,
    table: Option<&Table>,
    key: Bytes,
    value: Option<&mut MaybeUninit<Value>>,
) -> Status {
    call(|| {
        let (snapshot, table) = (&snapshot.given("snapshot")?.0, &table.given("table")?.0);
        Ok(found(value.given("value")?, snapshot.get(table, key.get()?)?))
    })
}

/// Gives the entries that a table had from `from` on and before `to`; `NULL` is no limit.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_snapshot_range(
    snapshot: Option<&Snapshot>,
    table: Option<&Table>,
    from: Option<&Bytes>,
    to: Option<&Bytes>,
    direction: RangeDirection,
    range: Option<&mut MaybeUninit<Box<Range>>>,
) -> Status {
    done(|| {
        let (snapshot, table) = (&snapshot.given("snapshot")?.0, &table.given("table")?.0);
        let ends = ends(from, to)?;
        give_range(
            range,
            match direction {
                RangeDirection::Ascending => snapshot.range(table, ends),
                RangeDirection::Descending => snapshot.range_rev(table, ends),
            },
        )
    })
}
