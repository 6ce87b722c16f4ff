//! Tailable cursors: they stay open behind the last document of a capped collection, and go on with later ones.

use std::ops::Bound;
use std::sync::Arc;

use spinney::Range;

use super::call::Call;
use super::cursors::Source;
use crate::base::{Environment, Error, ErrorCode, Interrupt, Result, interrupt};
use crate::bson::{Document, DocumentBuf};
use crate::catalog::capped::record_number;
use crate::catalog::{Capped, CollectionState, Namespace};
use crate::exec::damaged;
use crate::plan::{Hint, Query};

/// The documents of a capped collection that match, in the order in which they were inserted.
#[derive(Debug)]
pub(super) struct Tail {
    collection: Arc<CollectionState>,
    name: String,
    query: Query,
    environment: Arc<dyn Environment>,
    engine: spinney::Database,
    /// Whether the newest documents come first.
    reverse: bool,
    /// The walk behind `last`; nothing at the end of what was there when it began.
    walk: Option<Range>,
    /// How many commits there were before the walk began.
    commits: u64,
    /// The key of the last document that was met, whether it matched or not.
    last: Option<Vec<u8>>,
    skip: u64,
    left: u64,
    /// A document that was found while waiting.
    ready: Option<DocumentBuf>,
}

impl Tail {
    /// A cursor over the documents that a query asks for.
    ///
    /// # Errors
    /// `BadValue` (2) for a collection that is not capped.
    pub(super) fn new(
        call: &Call<'_>,
        namespace: &Namespace,
        collection: &Arc<CollectionState>,
        query: Query,
    ) -> Result<Self> {
        if collection.capped.is_none() {
            let what =
                format!("error processing query: ns={namespace}: tailable cursor requested on non capped collection");
            return Err(Error::bad_value(what));
        }
        // Such a cursor meets the documents of its beginning, and none that are inserted later.
        let reverse = matches!(query.hint, Some(Hint::Natural { reverse: true }));
        let (skip, left) = (query.skip, query.limit.unwrap_or(u64::MAX));
        let database = &call.state.database;
        Ok(Self {
            collection: Arc::clone(collection),
            name: namespace.to_string(),
            query,
            environment: Arc::clone(database.environment()),
            engine: database.engine().clone(),
            reverse,
            walk: None,
            commits: 0,
            last: None,
            skip,
            left,
            ready: None,
        })
    }

    /// Begins a walk behind the last document.
    fn begin(&mut self) -> Result<Range> {
        if self.collection.schema().dropped {
            let what = format!("collection dropped or renamed: {}", self.name);
            return Err(Error::new(ErrorCode::QUERY_PLAN_KILLED, what));
        }
        // Before the snapshot: a commit that it lacks is waited for no longer.
        self.commits = self.collection.capped.as_ref().map_or(0, |capped| capped.commits());
        let (snapshot, table) = (self.engine.snapshot(), &self.collection.table);
        let Some(last) = &self.last else {
            return Ok(if self.reverse { snapshot.range_rev(table, ..) } else { snapshot.range(table, ..) });
        };
        if snapshot.get(table, last)?.is_none() {
            let number = record_number(last).unwrap_or_default();
            let what = format!(
                "CollectionScan died due to position in capped collection being deleted. Last seen record id: \
                 RecordId({number})"
            );
            return Err(Error::new(ErrorCode::CAPPED_POSITION_LOST, what));
        }
        if self.reverse {
            return Ok(snapshot.range_rev(table, (Bound::<&[u8]>::Unbounded, Bound::Excluded(last.as_slice()))));
        }
        Ok(snapshot.range(table, (Bound::Excluded(last.as_slice()), Bound::<&[u8]>::Unbounded)))
    }

    /// The next document that matches of those behind the last one.
    fn next(&mut self) -> Result<Option<DocumentBuf>> {
        let mut walk = match self.walk.take() {
            Some(walk) => walk,
            None => self.begin()?,
        };
        while self.left > 0 {
            let Some((key, bytes)) = walk.advance()? else { return Ok(None) };
            interrupt::work(8)?;
            self.last.get_or_insert_default().splice(.., key.iter().copied());
            let document = Document::from_checked_bytes(bytes).ok_or_else(damaged)?;
            let (matches, position) = self.query.filter.matches_at(document)?;
            if !matches {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.left -= 1;
            let shown = match &self.query.projection {
                Some(projection) => projection.apply(document, position)?,
                None => document.into(),
            };
            self.walk = Some(walk);
            return Ok(Some(shown));
        }
        Ok(None)
    }
}

impl Source for Tail {
    fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        match self.ready.take() {
            Some(ready) => Ok(Some(ready)),
            None => self.next(),
        }
    }

    /// A cursor that has met no document is at its end, as there is none behind which it could stay. One with a limit
    /// stays open when that is reached.
    fn is_endless(&self) -> bool {
        self.last.is_some()
    }

    fn wait(&mut self, until_ms: i64, interrupt: &Interrupt) -> Result<()> {
        loop {
            self.ready = self.next()?;
            if self.ready.is_some() {
                return Ok(());
            }
            let collection = Arc::clone(&self.collection);
            let Some(capped) = &collection.capped else { return Ok(()) };
            let waited_for = Arc::clone(&collection);
            let _waking = interrupt.waking(move || waited_for.capped.iter().for_each(Capped::committed));
            while capped.commits() == self.commits && !collection.schema().dropped {
                interrupt.check()?;
                let left = until_ms.saturating_sub(self.environment.now_ms());
                let Ok(left @ 1..) = u64::try_from(left) else { return Ok(()) };
                capped.wait(self.commits, interrupt.patience(left));
            }
        }
    }
}
