//! A thread's sessions.

use super::handle::{Cursor, NOT_FOUND, ROLLBACK, Session};
use super::store::WiredTigerStore;
use anyhow::{Result, ensure};
use spinney_lab::driver::{Batch, Change, Client, Direction, Outcome, Scan, TableId};
use std::ffi::c_int;

/// A session for writes and transactions, and one whose open transaction is the view.
#[derive(Debug)]
pub(super) struct WiredTigerClient<'s> {
    store: &'s WiredTigerStore,
    main: Link<'s>,
    view: Option<Link<'s>>,
    transaction: Transaction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transaction {
    None,
    Open,
    /// WiredTiger rolled it back in a call that cannot say so; the next write or commit will.
    Lost,
}

/// A session with a cursor for each table, opened when it is needed first and kept.
#[derive(Debug)]
struct Link<'s> {
    cursors: Vec<Option<Cursor<'s>>>,
    session: Session<'s>,
}

impl<'s> WiredTigerClient<'s> {
    pub(super) fn new(store: &'s WiredTigerStore) -> Result<Self> {
        Ok(Self { store, main: Link::new(store)?, view: None, transaction: Transaction::None })
    }
}

impl<'s> Link<'s> {
    fn new(store: &'s WiredTigerStore) -> Result<Self> {
        let session = store.connection.session()?;
        Ok(Self { cursors: (0..store.tables.len()).map(|_| None).collect(), session })
    }

    fn cursor(&mut self, store: &WiredTigerStore, table: TableId) -> Result<&Cursor<'s>> {
        let cursor = &mut self.cursors[table.0];
        match cursor {
            Some(cursor) => Ok(cursor),
            None => Ok(cursor.insert(self.session.cursor(&store.tables[table.0].uri, c"overwrite=true")?)),
        }
    }

    /// Makes one change and returns WiredTiger's code.
    fn change(&mut self, store: &WiredTigerStore, change: Change<'_>) -> Result<c_int> {
        let (code, table) = match change {
            Change::Put(table, key, value) => (self.cursor(store, table)?.insert(key, value), table),
            Change::Delete(table, key) => (self.cursor(store, table)?.remove(key), table),
        };
        if matches!(change, Change::Delete(..)) {
            self.cursor(store, table)?.reset();
        }
        Ok(if code == NOT_FOUND { 0 } else { code })
    }

    /// Makes all changes in a transaction of their own.
    fn commit(&mut self, store: &WiredTigerStore, batch: &Batch) -> Result<c_int> {
        self.session.begin()?;
        for change in batch.iter() {
            let code = self.change(store, change)?;
            if code != 0 {
                self.session.rollback()?;
                return Ok(code);
            }
        }
        Ok(self.session.commit())
    }

    fn get(
        &mut self,
        store: &WiredTigerStore,
        table: TableId,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<c_int> {
        let cursor = self.cursor(store, table)?;
        let code = cursor.search(key);
        if code == 0 {
            found(cursor.value()?);
        }
        cursor.reset();
        Ok(code)
    }

    /// Visits a range, and returns how many entries it had and the code that ended it, 0 when the limit did.
    fn scan(
        &mut self,
        store: &WiredTigerStore,
        scan: &Scan<'_>,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(u64, c_int)> {
        let cursor = self.cursor(store, scan.table)?;
        let mut visited = 0;
        let mut code = if scan.limit == 0 { NOT_FOUND } else { seek(cursor, scan) };
        while code == 0 {
            let key = cursor.key()?;
            let inside = match (scan.until, scan.direction) {
                (None, _) => true,
                (Some(until), Direction::Forward) => key < until,
                (Some(until), Direction::Backward) => key > until,
            };
            if !inside {
                break;
            }
            visit(key, cursor.value()?);
            visited += 1;
            if visited == scan.limit {
                break;
            }
            code = step(cursor, scan.direction);
        }
        cursor.reset();
        Ok((visited, code))
    }
}

fn step(cursor: &Cursor<'_>, direction: Direction) -> c_int {
    match direction {
        Direction::Forward => cursor.next(),
        Direction::Backward => cursor.prev(),
    }
}

/// Puts the cursor on the first entry of the scan.
fn seek(cursor: &Cursor<'_>, scan: &Scan<'_>) -> c_int {
    // A cursor without a position begins at the table's end.
    let Some(from) = scan.from else { return step(cursor, scan.direction) };
    let (code, exact) = cursor.search_near(from);
    let before = match scan.direction {
        Direction::Forward => exact < 0,
        Direction::Backward => exact > 0,
    };
    if code == 0 && before { step(cursor, scan.direction) } else { code }
}

impl<'s> WiredTigerClient<'s> {
    /// The session that reads go to.
    fn reader(&mut self) -> &mut Link<'s> {
        match (self.transaction, &mut self.view) {
            (Transaction::None, Some(view)) => view,
            _ => &mut self.main,
        }
    }

    /// Rolls the transaction back after WiredTiger said that it must be; says whether there was one.
    fn lose(&mut self) -> Result<bool> {
        let open = self.transaction == Transaction::Open;
        if open {
            self.main.session.rollback()?;
            self.transaction = Transaction::Lost;
        }
        Ok(open)
    }

    /// The end of a lost transaction.
    fn lost(&mut self) -> bool {
        let lost = self.transaction == Transaction::Lost;
        if lost {
            self.transaction = Transaction::None;
        }
        lost
    }

    fn check(&self, code: c_int) -> Result<()> {
        self.store.connection.library().check(code)
    }
}

impl Client for WiredTigerClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        if self.lost() {
            return Ok(Outcome::Conflict);
        }
        if self.transaction == Transaction::Open {
            for change in batch.iter() {
                let code = self.main.change(self.store, change)?;
                if code == ROLLBACK {
                    self.main.session.rollback()?;
                    self.transaction = Transaction::None;
                    return Ok(Outcome::Conflict);
                }
                self.check(code)?;
            }
            return Ok(Outcome::Done);
        }
        // Changes that read nothing have nothing to lose by a conflict: WiredTiger repeats them itself when they are
        // one call.
        loop {
            let mut changes = batch.iter();
            let code = match (changes.next(), changes.next()) {
                (Some(only), None) => self.main.change(self.store, only)?,
                _ => self.main.commit(self.store, batch)?,
            };
            if code != ROLLBACK {
                self.check(code)?;
                return Ok(Outcome::Done);
            }
        }
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let store = self.store;
        let mut code = self.reader().get(store, table, key, found)?;
        if code == ROLLBACK && self.lose()? {
            code = self.main.get(store, table, key, found)?;
        }
        if code != NOT_FOUND {
            self.check(code)?;
        }
        Ok(code == 0)
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let store = self.store;
        let (visited, code) = self.reader().scan(store, scan, visit)?;
        // What a transaction that is lost has read is for nothing: its commit will say so.
        if code != NOT_FOUND && !(code == ROLLBACK && self.lose()?) {
            self.check(code)?;
        }
        Ok(visited)
    }

    fn view(&mut self) -> Result<()> {
        match &self.view {
            Some(view) => view.session.rollback()?,
            None => self.view = Some(Link::new(self.store)?),
        }
        if let Some(view) = &self.view {
            view.session.begin()?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        ensure!(self.transaction == Transaction::None, "a transaction is open already");
        self.main.session.begin()?;
        self.transaction = Transaction::Open;
        Ok(())
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let there = self.get(table, key, found)?;
        if there && self.transaction == Transaction::Open {
            let cursor = self.main.cursor(self.store, table)?;
            let code = cursor.reserve(key);
            cursor.reset();
            if code == ROLLBACK {
                self.lose()?;
            } else {
                self.check(code)?;
            }
        }
        Ok(there)
    }

    fn commit(&mut self) -> Result<Outcome> {
        if self.lost() {
            return Ok(Outcome::Conflict);
        }
        ensure!(self.transaction == Transaction::Open, "no transaction is open");
        self.transaction = Transaction::None;
        match self.main.session.commit() {
            ROLLBACK => Ok(Outcome::Conflict),
            code => self.check(code).map(|()| Outcome::Done),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        if !self.lost() && self.transaction == Transaction::Open {
            self.transaction = Transaction::None;
            self.main.session.rollback()?;
        }
        Ok(())
    }
}
