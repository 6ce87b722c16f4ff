//! The read of a key whose newest version is a merge operand: what lies behind it is collected, newest to oldest, and
//! folded.

use crate::base::checksum::hash_key;
use crate::base::{Kind, Result, SeqNum, Value};
use crate::cache::Fill;
use crate::tree::btree::BTreeCursor;
use crate::tree::multi_get::GetResults;
use crate::tree::operator::TableOperator;
use crate::tree::run::{RunCursor, run_of};
use crate::tree::values::ValueFiles;
use crate::tree::{Found, MergeSource};

use super::version::Version;

impl Version {
    /// The value that `snapshot` sees under `key`, where [`Version::get`] has found `found`.
    ///
    /// # Errors
    /// When a block cannot be read or is corrupt, and what the operator says when there are operands.
    #[inline]
    pub fn value(
        &self,
        key: &[u8],
        snapshot: SeqNum,
        found: Option<Found>,
        operator: &TableOperator,
    ) -> Result<Option<Value>> {
        match found {
            Some(Found { kind: Kind::Put, value, .. }) => Ok(Some(value)),
            Some(Found { kind: Kind::Merge, .. }) => self.fold(key, snapshot, operator).map(Some),
            Some(Found { kind: Kind::PutPointer, value, .. }) => self.trees.values.read(&value, Fill::Keep).map(Some),
            _ => Ok(None),
        }
    }

    /// [`Self::value`] of several keys, in their order. Separated values are read together.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn values(
        &self,
        keys: &[&[u8]],
        snapshot: SeqNum,
        mut found: GetResults,
        operator: &TableOperator,
    ) -> Result<Vec<Option<Value>>> {
        self.fetch(&mut found)?;
        let value = |(key, found): (&&[u8], _)| self.value(key, snapshot, found, operator);
        keys.iter().zip(found).map(value).collect()
    }

    /// Replaces pointers by the separated values that they point to.
    fn fetch(&self, found: &mut GetResults) -> Result<()> {
        let is_apart = |found: &&mut Found| found.kind == Kind::PutPointer;
        let apart: Vec<_> = found.iter_mut().flatten().filter(is_apart).collect();
        if apart.is_empty() {
            return Ok(());
        }
        let values = self.trees.values.read_many(apart.iter().map(|found| &*found.value))?;
        for (found, value) in apart.into_iter().zip(values) {
            (found.kind, found.value) = (Kind::Put, value);
        }
        Ok(())
    }

    /// Folds what `snapshot` sees of `key`: from its newest version in the newest tree to the first that is no operand.
    #[cold]
    fn fold(&self, key: &[u8], snapshot: SeqNum, operator: &TableOperator) -> Result<Value> {
        operator.get()?;
        let floor = self.range_tombstones.floor(key, snapshot);
        let mut chain = Chain { key, snapshot, floor, values: &self.trees.values, operands: Vec::new(), base: None };
        self.collect(&mut chain)?;
        let operands: Vec<&[u8]> = chain.operands.iter().rev().map(|operand| &**operand).collect();
        operator.full(key, chain.base.as_deref(), &operands).map(|value| Value::owned(&value))
    }

    fn collect(&self, chain: &mut Chain<'_>) -> Result<()> {
        let (key, snapshot) = (chain.key, chain.snapshot);
        for mem in self.memtables() {
            if chain.tree(mem.entries.get(key, snapshot), SeqNum::ZERO, || mem.entries.cursor())? {
                return Ok(());
            }
        }
        let trees = &self.trees;
        let levels = trees.levels.iter().filter_map(|level| run_of(&level.runs, key));
        let hash = hash_key(key);
        for run in trees.l0.iter().map(|handle| &handle.run).chain(levels) {
            if chain.tree(run.get(key, hash, snapshot)?, run.seqnum_bounds().smallest, || {
                Box::new(RunCursor::over(run, Fill::Keep))
            })? {
                return Ok(());
            }
        }
        if let Some(root) = &trees.btree {
            chain.tree(root.get(key, snapshot)?, root.seqnum_bounds().smallest, || {
                Box::new(BTreeCursor::over(root, Fill::Keep))
            })?;
        }
        Ok(())
    }
}

/// What a snapshot sees of a key, as far as it was read.
struct Chain<'k> {
    key: &'k [u8],
    snapshot: SeqNum,
    values: &'k ValueFiles,
    /// Older versions are erased.
    floor: SeqNum,
    /// Newest first.
    operands: Vec<Value>,
    base: Option<Value>,
}

impl Chain<'_> {
    /// Goes on with an older tree, clean up to `clean_to`, in which a lookup has found `found`; true when older ones
    /// are not needed.
    fn tree(
        &mut self,
        found: Option<Found>,
        clean_to: SeqNum,
        cursor: impl FnOnce() -> Box<dyn MergeSource>,
    ) -> Result<bool> {
        match found {
            None => return Ok(false),
            Some(found) if found.seqnum < self.floor => return Ok(true),
            Some(Found { kind: Kind::Merge, .. }) => {}
            Some(found) => return self.ends_with(found.kind, found.value),
        }
        let mut cursor = cursor();
        cursor.seek_ge(self.key)?;
        while let Some(entry) = cursor.entry().filter(|entry| entry.key == self.key) {
            if entry.seqnum.max(clean_to) < self.floor {
                return Ok(true);
            }
            let kind = entry.kind;
            if entry.seqnum <= self.snapshot
                && let Some(value) = cursor.value()
                && self.ends_with(kind, value)?
            {
                return Ok(true);
            }
            cursor.next()?;
        }
        Ok(false)
    }

    /// Adds the next older version; true when it is no operand.
    fn ends_with(&mut self, kind: Kind, value: Value) -> Result<bool> {
        match kind {
            Kind::Merge => self.operands.push(value),
            Kind::Put => self.base = Some(value),
            Kind::PutPointer => self.base = Some(self.values.read(&value, Fill::Keep)?),
            Kind::Delete | Kind::SingleDelete | Kind::RangeDelete => {}
        }
        Ok(kind != Kind::Merge)
    }
}
