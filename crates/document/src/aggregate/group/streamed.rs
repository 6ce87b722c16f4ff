//! Groups that come one after the other, because the keys of an index do: only one of them is in memory.

use std::sync::Arc;

use super::keyed::{Keyed, Read};
use super::spec::{Gathered, Group};
use crate::aggregate::lend::{Lender, Lent};
use crate::aggregate::stage::Run;
use crate::base::Result;
use crate::bson::{DocumentBuf, ValueBuf, equal};

/// The groups of keys that come group by group.
pub(super) struct Streamed {
    lender: Box<dyn Lender>,
    current: Current,
    /// Whether there are no more rows.
    ended: bool,
}

/// The group that is being gathered.
struct Current {
    group: Arc<Group>,
    run: Run,
    keyed: Keyed,
    gathered: Option<Gathered>,
    /// The rows for which what is the same for all was not added yet.
    rows: u64,
    kept: usize,
}

impl Streamed {
    pub(super) fn new(group: Arc<Group>, run: Run, keyed: Keyed, lender: Box<dyn Lender>) -> Self {
        Self { lender, current: Current { group, run, keyed, gathered: None, rows: 0, kept: 0 }, ended: false }
    }

    fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        if self.ended {
            return Ok(self.current.finish());
        }
        let (mut finished, current) = (None, &mut self.current);
        let more = self.lender.lend(true, &mut |row| {
            if let (Lent::Key(key), Some(gathered)) = (&row, &mut current.gathered)
                && current.keyed.add_same(key, gathered)
            {
                current.rows += 1;
                return Ok(true);
            }
            finished = current.take(row)?;
            Ok(finished.is_none())
        })?;
        self.ended = !more;
        // The last row may have ended a group and begun another one.
        Ok(if more { finished } else { finished.or_else(|| self.current.finish()) })
    }
}

impl Iterator for Streamed {
    type Item = Result<DocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            (self.ended, self.current.gathered) = (true, None);
        }
        next
    }
}

impl Current {
    /// Adds a row; the group before it when it begins another one.
    #[inline]
    fn take(&mut self, row: Lent<'_>) -> Result<Option<DocumentBuf>> {
        let Lent::Key(key) = row else { return self.take_document(row) };
        let finished = match self.keyed.read(&key)? {
            Read::Same => None,
            Read::Id => self.enter(self.keyed.id())?,
            Read::Unknown => return self.take_document(row),
        };
        self.rows += 1;
        if let Some(gathered) = &mut self.gathered {
            let bytes = self.keyed.add(&self.group, gathered)?;
            self.keep(bytes)?;
        }
        Ok(finished)
    }

    /// Adds a row by its document.
    fn take_document(&mut self, row: Lent<'_>) -> Result<Option<DocumentBuf>> {
        let own;
        let document = match row {
            Lent::Document(document) => document,
            Lent::Key(key) => {
                own = (key.document)()?;
                own.view()
            }
        };
        let finished = self.enter(self.group.id_of(document)?)?;
        if let Some(gathered) = &mut self.gathered {
            let bytes = self.group.add(gathered, document)?;
            self.keep(bytes)?;
        }
        Ok(finished)
    }

    /// Goes to the group of an id; the one before, if it is another one.
    fn enter(&mut self, id: ValueBuf) -> Result<Option<DocumentBuf>> {
        if self.gathered.as_ref().is_some_and(|(current, _)| equal(&current.view(), &id.view())) {
            return Ok(None);
        }
        let finished = self.finish();
        self.gathered = Some(self.group.start(id)?);
        Ok(finished)
    }

    fn finish(&mut self) -> Option<DocumentBuf> {
        let mut gathered = self.gathered.take()?;
        self.keyed.add_repeated(&mut gathered, std::mem::take(&mut self.rows));
        self.run.memory.give(std::mem::take(&mut self.kept));
        Some(self.group.finish(gathered))
    }

    #[inline]
    fn keep(&mut self, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.kept += bytes;
        let memory = &self.run.memory;
        // One group cannot be spilled.
        if !memory.try_take(bytes) && (memory.spill().is_none() || memory.is_far_exceeded()) {
            return Err(memory.exceeded("$group"));
        }
        Ok(())
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        self.run.memory.give(self.kept);
    }
}
