//! The threads that commit: each goes on where the database has it, and reads back what it wrote.

use super::acks::Acks;
use super::plan::{JOURNAL, LAST, Work, Written, key};
use super::tables::{Tables, number};
use anyhow::{Context as _, Result, bail};
use spinney::{Batch, Database, Durability, Table};
use spinney_lab::{Random, Stop};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the threads share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) db: &'a Database,
    pub(super) tables: &'a Tables,
    pub(super) durability: Durability,
    /// None when nobody listens.
    pub(super) acks: Option<Acks>,
    /// Commits that each thread makes.
    pub(super) commits: u64,
    pub(super) stop: Stop,
    /// Commits of all threads; it publishes nothing but itself.
    pub(super) done: AtomicU64,
}

/// A change of a commit.
enum Op<'a> {
    Put(&'a Table, Vec<u8>, Vec<u8>),
    Delete(&'a Table, Vec<u8>),
    DeleteRange(&'a Table, Vec<u8>, Vec<u8>),
}

impl Shared<'_> {
    /// Commits until it is enough, or somebody asks to stop; a failure asks the others to.
    pub(super) fn work(&self, thread: u16) -> Result<()> {
        let done = self.commit_all(thread);
        if done.is_err() {
            self.stop.ask();
        }
        done
    }

    fn commit_all(&self, thread: u16) -> Result<()> {
        let seed = self.tables.plan.seed;
        let last = self.tables.last(&self.db.snapshot(), thread)?;
        if last != [last[0]; 3] {
            bail!("thread {thread}: the tables have different last commits, {last:?}");
        }
        let mut written = Written::after(seed, thread, last[0]);
        for number in (last[0] + 1..).take(usize::try_from(self.commits).unwrap_or(usize::MAX)) {
            if self.stop.asked() {
                break;
            }
            let work = Work::new(seed, thread, number);
            self.commit(&work).with_context(|| format!("thread {thread}, commit {number}"))?;
            if let Some(acks) = &self.acks {
                acks.tell(&work)?;
            }
            self.done.fetch_add(1, Ordering::Relaxed);
            written.apply(&work);
            self.read_back(&work, &written)?;
        }
        Ok(())
    }

    /// Makes a commit: every other one as a transaction, which sees the one before it.
    fn commit(&self, work: &Work) -> Result<()> {
        let ops = self.ops(work);
        if work.number.is_multiple_of(2) {
            let mut batch = Batch::new();
            for op in &ops {
                match op {
                    Op::Put(table, key, value) => batch.put(table, key, value),
                    Op::Delete(table, key) => batch.delete(table, key),
                    Op::DeleteRange(table, from, to) => batch.delete_range(table, from.as_slice()..to.as_slice()),
                }
            }
            return Ok(self.db.write_with(&batch, self.durability)?);
        }
        let mut txn = self.db.begin();
        for table in self.tables.all() {
            let before = txn.get(table, key(work.thread, LAST))?.map_or(0, |value| number(&value));
            if before != work.number - 1 {
                bail!("`{}` shows commit {before} as the last one", table.name());
            }
        }
        for op in &ops {
            match op {
                Op::Put(table, key, value) => txn.put(table, key, value)?,
                Op::Delete(table, key) => txn.delete(table, key)?,
                Op::DeleteRange(table, from, to) => txn.delete_range(table, from.as_slice()..to.as_slice())?,
            }
        }
        Ok(txn.commit_with(self.durability)?)
    }

    fn ops(&self, work: &Work) -> Vec<Op<'_>> {
        let key = |place| key(work.thread, place);
        let mut ops = Vec::new();
        for table in &self.tables.slots {
            ops.extend(work.changes.iter().map(|(slot, put)| match put {
                true => Op::Put(table, key(*slot), work.value(*slot)),
                false => Op::Delete(table, key(*slot)),
            }));
        }
        let journal = &self.tables.journal;
        ops.push(Op::Put(journal, key(work.number), work.value(JOURNAL)));
        ops.extend(work.cut().map(|last| Op::DeleteRange(journal, key(0), key(last + 1))));
        ops.extend(self.tables.all().map(|table| Op::Put(table, key(LAST), work.number.to_le_bytes().to_vec())));
        ops
    }

    /// Reads a slot, any one, from both tables of slots.
    fn read_back(&self, work: &Work, written: &Written) -> Result<()> {
        let slot = Random::of(work.number, u64::from(work.thread)).below(written.slots.len() as u64);
        let commit = written.slots[usize::try_from(slot)?];
        let expected = (commit > 0).then(|| Work::new(self.tables.plan.seed, work.thread, commit).value(slot));
        let snapshot = self.db.snapshot();
        for table in &self.tables.slots {
            let found = snapshot.get(table, key(work.thread, slot))?;
            if found.as_deref() != expected.as_deref() {
                let found = found.map_or(0, |value| number(&value));
                bail!(
                    "`{}` gives thread {} for slot {slot} a value of commit {found}, not of {commit}, after commit {}",
                    table.name(),
                    work.thread,
                    work.number
                );
            }
        }
        Ok(())
    }
}
