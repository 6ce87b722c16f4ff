//! `$group` as a stage, over documents and over rows that are lent.

use std::sync::Arc;

use super::gather::{Gathering, Groups, next_group, with_fields};
use super::keyed::{Keyed, Read};
use super::spec::Group;
use super::streamed::Streamed;
use crate::aggregate::effect::Effect;
use crate::aggregate::lend::{KeyRow, Lender, Lent};
use crate::aggregate::memory::Held;
use crate::aggregate::sorter::Sorter;
use crate::aggregate::stage::{Borrower, Rows, Run, Stage, deferred};
use crate::base::Result;
use crate::bson::DocumentBuf;

impl Stage for Group {
    fn name(&self) -> &'static str {
        "$group"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let run = run.clone();
        Ok(deferred(move || {
            let mut gathering = Gathering::new(&self, &run);
            for row in input {
                gathering.take(row?.view())?;
            }
            let groups = gathering.finish();
            rows_of(&self, &run, groups)
        }))
    }

    fn effect(&self) -> Option<Effect> {
        Some(Effect::making(self.reads()))
    }

    fn as_borrower(self: Arc<Self>) -> Option<Arc<dyn Borrower>> {
        Some(self)
    }
}

impl Borrower for Group {
    fn run_lent(self: Arc<Self>, mut lender: Box<dyn Lender>, run: &Run) -> Result<Rows> {
        let keyed = lender.key_fields().and_then(|fields| Keyed::of(&self, &fields));
        let run = run.clone();
        match keyed {
            Some(keyed) if keyed.comes_in_groups() && self.collation.is_none() => {
                Ok(Box::new(Streamed::new(self, run, keyed, lender)))
            }
            keyed => Ok(deferred(move || {
                let mut gathering = Gathering::new(&self, &run);
                match keyed {
                    Some(keyed) => gather_keys(&self, &mut gathering, keyed, &mut *lender)?,
                    None => {
                        lender.lend(false, &mut |row| take_whole(&mut gathering, row).map(|()| true))?;
                    }
                }
                let groups = gathering.finish();
                rows_of(&self, &run, groups)
            })),
        }
    }
}

/// Puts a row to its group by its document.
fn take_whole(gathering: &mut Gathering<'_>, row: Lent<'_>) -> Result<()> {
    match row {
        Lent::Document(document) => gathering.take(document),
        Lent::Key(key) => gathering.take((key.document)()?.view()),
    }
}

/// Puts keys to their groups.
fn gather_keys(group: &Group, gathering: &mut Gathering<'_>, mut keyed: Keyed, lender: &mut dyn Lender) -> Result<()> {
    let reads = group.reads();
    // The rows of the last group for which what is the same for all was not added yet.
    let mut rows = 0;
    lender.lend(true, &mut |row| {
        if let (Lent::Key(key), Some(last)) = (&row, gathering.last())
            && keyed.add_same(key, last)
        {
            rows += 1;
            return Ok(true);
        }
        let read = match &row {
            Lent::Key(key) => keyed.read(key)?,
            Lent::Document(_) => Read::Unknown,
        };
        if !matches!(read, Read::Same)
            && let Some(last) = gathering.last()
        {
            keyed.add_repeated(last, std::mem::take(&mut rows));
        }
        match (read, row) {
            (Read::Id, Lent::Key(KeyRow { document, .. })) => {
                if !gathering.place(keyed.id(), &|| Ok(with_fields(document()?.view(), &reads)))? {
                    keyed.forget();
                    return Ok(true);
                }
            }
            (Read::Same, _) => {}
            (_, row) => {
                keyed.forget();
                return take_whole(gathering, row).map(|()| true);
            }
        }
        rows += 1;
        let bytes = gathering.last().map_or(Ok(0), |last| keyed.add(group, last))?;
        gathering.keep(bytes)?;
        Ok(true)
    })?;
    if let Some(last) = gathering.last() {
        keyed.add_repeated(last, rows);
    }
    Ok(())
}

/// The documents of groups: first those in memory, then the others.
fn rows_of(
    group: &Arc<Group>,
    run: &Run,
    (groups, kept, others): Groups,
) -> Result<impl Iterator<Item = Result<DocumentBuf>> + use<>> {
    let (group, memory) = (Arc::clone(group), Arc::clone(&run.memory));
    let mut groups = groups.into_iter();
    let mut rows = others.map(Sorter::finish).transpose()?;
    let (mut next, mut kept) = (None, Some(kept));
    Ok(std::iter::from_fn(move || {
        if let Some(gathered) = groups.next() {
            return Some(Ok(group.finish(gathered)));
        }
        if let Some(kept) = kept.take() {
            memory.give(kept);
        }
        next_group(&group, rows.as_mut()?, &mut next, Held::new(&memory, "$group")).transpose()
    }))
}
