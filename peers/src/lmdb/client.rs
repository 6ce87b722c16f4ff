//! A thread's connection to LMDB: a read transaction that is renewed, its cursors, and a write transaction at times.

use super::env::{Txn, bytes, check, found, val};
use super::store::LmdbStore;
use anyhow::{Context as _, Result};
use lmdb_master_sys as ffi;
use spinney_lab::driver::{Batch, Change, Client, Direction, Outcome, Scan, TableId};
use std::ptr::null_mut;

pub(super) struct LmdbClient<'a> {
    store: &'a LmdbStore,
    /// Cursors of the read transaction, one for each table that was scanned. Closed before it is dropped.
    cursors: Vec<Option<*mut ffi::MDB_cursor>>,
    read: Option<Txn<'a>>,
    /// The read transaction has the snapshot of a view; else each read gives it one of its own.
    has_view: bool,
    write: Option<Txn<'a>>,
}

impl<'a> LmdbClient<'a> {
    pub(super) fn new(store: &'a LmdbStore) -> Self {
        Self { store, cursors: vec![None; store.tables.len()], read: None, has_view: false, write: None }
    }

    fn dbi(&self, table: TableId) -> ffi::MDB_dbi {
        self.store.tables[table.0].dbi
    }

    fn apply(&self, txn: &Txn<'_>, batch: &Batch) -> Result<()> {
        batch.iter().try_for_each(|change| match change {
            Change::Put(table, key, value) => txn.put(self.dbi(table), key, value),
            Change::Delete(table, key) => txn.delete(self.dbi(table), key),
        })
    }

    /// Moves the read transaction, which has no snapshot, to the present.
    fn renew(&mut self) -> Result<()> {
        match &self.read {
            Some(read) => read.renew(),
            None => {
                self.read = Some(Txn::begin(&self.store.env, ffi::MDB_RDONLY)?);
                Ok(())
            }
        }
    }

    /// Has `read` done in the write transaction if there is one, else in the read transaction.
    fn reading<T>(
        &mut self,
        read: impl FnOnce(&Txn<'a>, &mut [Option<*mut ffi::MDB_cursor>]) -> Result<T>,
    ) -> Result<T> {
        if let Some(write) = &self.write {
            return read(write, &mut []);
        }
        if !self.has_view {
            self.renew()?;
        }
        let txn = self.read.as_ref().context("a view has a transaction")?;
        let result = read(txn, &mut self.cursors);
        if !self.has_view {
            txn.reset();
        }
        result
    }
}

impl Client for LmdbClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        if let Some(txn) = &self.write {
            self.apply(txn, batch)?;
        } else {
            let txn = Txn::begin(&self.store.env, 0)?;
            self.apply(&txn, batch)?;
            txn.commit()?;
        }
        Ok(Outcome::Done)
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let dbi = self.dbi(table);
        self.reading(|txn, _| txn.get(dbi, key, found))
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let dbi = self.dbi(scan.table);
        self.reading(|txn, cursors| {
            let mut opened = null_mut();
            let kept = cursors.get_mut(scan.table.0);
            if let Some(Some(cursor)) = &kept {
                // SAFETY: the cursor is of a read transaction and not closed, and `txn` is one that has a snapshot.
                check(unsafe { ffi::mdb_cursor_renew(txn.raw(), *cursor) })?;
                return visit_range(*cursor, scan, visit);
            }
            // SAFETY: the transaction has a snapshot, and `opened` is a place for the pointer.
            check(unsafe { ffi::mdb_cursor_open(txn.raw(), dbi, &raw mut opened) })?;
            let result = visit_range(opened, scan, visit);
            match kept {
                Some(place) => *place = Some(opened),
                // SAFETY: opened above for the write transaction, which has not ended, and not used again.
                None => unsafe { ffi::mdb_cursor_close(opened) },
            }
            result
        })
    }

    fn view(&mut self) -> Result<()> {
        if std::mem::take(&mut self.has_view)
            && let Some(read) = &self.read
        {
            read.reset();
        }
        self.renew()?;
        self.has_view = true;
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.write = Some(Txn::begin(&self.store.env, 0)?);
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        self.write.take().context("no transaction to commit")?.commit()?;
        Ok(Outcome::Done)
    }

    fn rollback(&mut self) -> Result<()> {
        self.write = None;
        Ok(())
    }
}

impl Drop for LmdbClient<'_> {
    fn drop(&mut self) {
        for cursor in self.cursors.iter().flatten() {
            // SAFETY: the cursor is of a read transaction, which leaves closing it to us, and is not used again.
            unsafe { ffi::mdb_cursor_close(*cursor) }
        }
    }
}

/// An open cursor and where it is.
struct Position {
    cursor: *mut ffi::MDB_cursor,
    key: ffi::MDB_val,
    value: ffi::MDB_val,
}

impl Position {
    /// Moves; says whether there is an entry. To seek, the key is where to.
    fn go(&mut self, to: ffi::MDB_cursor_op) -> Result<bool> {
        let (key, value) = (&raw mut self.key, &raw mut self.value);
        // SAFETY: the cursor is open, the key lives over the call or is LMDB's own, and both are places for pointers.
        found(unsafe { ffi::mdb_cursor_get(self.cursor, key, value, to) })
    }

    /// The first entry of a scan, if there is one.
    fn seek(&mut self, scan: &Scan<'_>) -> Result<bool> {
        match (scan.from, scan.direction) {
            (None, Direction::Forward) => self.go(ffi::MDB_FIRST),
            (None, Direction::Backward) => self.go(ffi::MDB_LAST),
            (Some(from), direction) => {
                self.key = val(from);
                let there = self.go(ffi::MDB_SET_RANGE)?;
                match direction {
                    Direction::Forward => Ok(there),
                    Direction::Backward if !there => self.go(ffi::MDB_LAST),
                    Direction::Backward if self.entry().0 == from => Ok(true),
                    Direction::Backward => self.go(ffi::MDB_PREV),
                }
            }
        }
    }

    /// The entry that the last move found.
    fn entry(&self) -> (&[u8], &[u8]) {
        // SAFETY: LMDB gave both, and they stay while the transaction goes on and writes nothing, longer than `self`.
        unsafe { (bytes(&self.key), bytes(&self.value)) }
    }
}

fn visit_range(cursor: *mut ffi::MDB_cursor, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
    let mut position = Position { cursor, key: val(&[]), value: val(&[]) };
    let forward = scan.direction == Direction::Forward;
    let next = if forward { ffi::MDB_NEXT } else { ffi::MDB_PREV };
    let mut visited = 0;
    let mut there = scan.limit > 0 && position.seek(scan)?;
    while there {
        let (key, value) = position.entry();
        if scan.until.is_some_and(|until| if forward { key >= until } else { key <= until }) {
            break;
        }
        visit(key, value);
        visited += 1;
        there = visited < scan.limit && position.go(next)?;
    }
    Ok(visited)
}
