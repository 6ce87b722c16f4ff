//! Cursors: queries whose results are fetched in batches.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::num::u64_of;
use crate::base::{Environment, Error, ErrorCode, Interrupt, Need, Result};
use crate::bson::{DOCUMENT_BYTES_MAX, DocumentBuf, DocumentBuilder};

/// How many documents the first batch has when the command does not say it.
pub const FIRST_BATCH_MAX: u64 = 101;

/// Where the documents of a cursor come from.
pub trait Source: Send + Debug {
    /// The next document; nothing at the end, or, when [`Self::is_endless`], when there is none now.
    ///
    /// # Errors
    /// Those of the query; nothing follows an error.
    fn advance(&mut self) -> Result<Option<DocumentBuf>>;

    /// Whether it is known that nothing follows, without looking for it.
    fn is_done(&self) -> bool {
        false
    }

    /// Whether the cursor stays open when there is no document now.
    fn is_endless(&self) -> bool {
        false
    }

    /// Waits for a document until a time in milliseconds since 1970, for a source that is endless.
    ///
    /// # Errors
    /// Those of the query.
    fn wait(&mut self, _until_ms: i64, _interrupt: &Interrupt) -> Result<()> {
        Ok(())
    }

    /// Whether the cursor stays open when the collection that it is over is gone, and tells it itself.
    fn outlives_collection(&self) -> bool {
        false
    }

    /// Where a later stream goes on behind the batch, `postBatchResumeToken`.
    fn resume_token(&self) -> Option<DocumentBuf> {
        None
    }
}

/// The documents of an iterator.
#[derive(Debug)]
pub struct Documents<I>(pub I);

impl<I: Iterator<Item = Result<DocumentBuf>> + Send + Debug> Source for Documents<I> {
    fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        self.0.next().transpose()
    }
}

/// Documents that are all known.
#[derive(Debug)]
pub struct Known(std::vec::IntoIter<DocumentBuf>);

impl Known {
    /// The source of these documents.
    #[must_use]
    pub fn new(documents: Vec<DocumentBuf>) -> Self {
        Self(documents.into_iter())
    }
}

impl Source for Known {
    fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        Ok(self.0.next())
    }

    fn is_done(&self) -> bool {
        self.0.len() == 0
    }
}

/// A search that was ended.
#[derive(Debug)]
struct Failed(Error);

impl Source for Failed {
    fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        Err(self.0.clone())
    }
}

/// Who may use a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The namespace that `getMore` must name.
    pub namespace: String,
    /// The session.
    pub session: Option<[u8; 16]>,
    /// The transaction within the session.
    pub txn_number: Option<i64>,
    /// The user.
    pub user: Option<String>,
    /// What the command needed that opened the cursor, and each batch needs.
    pub need: Option<Arc<Need>>,
    /// The machine of the client that opened it, and its user: when there are too many cursors, those of the client who
    /// has most give way.
    pub client: Arc<str>,
}

/// A cursor that no batch is fetched from now.
#[derive(Debug)]
pub struct Cursor {
    /// The documents.
    pub source: Box<dyn Source>,
    /// Who may use it.
    pub owner: Owner,
    /// Whether it stays open for longer when it is not used.
    pub no_timeout: bool,
    /// Whether `getMore` waits for documents.
    pub awaits_data: bool,
    /// How many milliseconds of the command's limit are left; nothing without a limit.
    pub left_ms: Option<u64>,
    /// The command that opened it.
    pub command: DocumentBuf,
    /// A document that was too large for the batch before.
    pub kept: Option<DocumentBuf>,
    /// What the message of an error begins with that a search meets for the first batch, as MongoDB has it.
    pub while_running: String,
}

impl Cursor {
    /// A cursor over documents.
    #[must_use]
    pub fn new(source: impl Source + 'static, owner: Owner, command: DocumentBuf) -> Self {
        Self {
            source: Box::new(source),
            owner,
            no_timeout: false,
            awaits_data: false,
            left_ms: None,
            command,
            kept: None,
            while_running: String::new(),
        }
    }

    /// Pushes documents to the open array of a reply: up to `documents_max`, and up to 16 MiB. Whether the cursor is at
    /// its end.
    ///
    /// # Errors
    /// Those of the source, and of `check`, which is asked before each document.
    pub fn fill(
        &mut self,
        builder: &mut DocumentBuilder,
        documents_max: u64,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<bool> {
        let mut count = 0;
        while count < documents_max {
            check()?;
            let document = match self.kept.take() {
                Some(document) => document,
                None => match self.source.advance()? {
                    Some(document) => document,
                    None => return Ok(!self.source.is_endless()),
                },
            };
            if count > 0 && builder.len() + document.as_bytes().len() > DOCUMENT_BYTES_MAX {
                self.kept = Some(document);
                return Ok(false);
            }
            builder.push(&document);
            count += 1;
        }
        Ok(self.source.is_done() && self.kept.is_none())
    }
}

impl Cursor {
    /// Where a later stream goes on behind the batch; nothing when a document was too large for it, behind which the
    /// source is already.
    #[must_use]
    pub fn resume_token(&self) -> Option<DocumentBuf> {
        self.source.resume_token().filter(|_| self.kept.is_none())
    }
}

/// A cursor in the registry.
#[derive(Debug)]
struct Slot {
    owner: Owner,
    /// Whether it stays open when the collection that it is over is gone.
    outlives_collection: bool,
    no_timeout: bool,
    /// When it was used last, in milliseconds since 1970.
    used_ms: i64,
    /// Nothing while a batch is fetched.
    cursor: Option<Box<Cursor>>,
    /// Ends the fetch of a batch when the cursor is killed.
    fetching: Option<Arc<Interrupt>>,
}

/// What is shown of a cursor of which no batch is fetched.
#[derive(Clone, Debug)]
pub struct IdleCursor {
    /// Its id.
    pub id: i64,
    /// Who may use it.
    pub owner: Owner,
    /// When it was used last, in milliseconds since 1970.
    pub used_ms: i64,
    /// Whether it stays open for longer when it is not used.
    pub no_timeout: bool,
    /// Whether it stays open at the end of its documents.
    pub is_endless: bool,
    /// Whether `getMore` waits for documents.
    pub awaits_data: bool,
    /// The command that opened it.
    pub command: DocumentBuf,
}

/// The open cursors of a service.
#[derive(Debug, Default)]
pub struct Cursors {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    open: HashMap<i64, Slot>,
    /// When idle cursors were looked for last, in milliseconds since 1970.
    swept_ms: i64,
    timed_out: u64,
    gave_way: u64,
}

/// The limits of a registry, as the options of the service have them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// After how many milliseconds without use a cursor is closed.
    pub idle_ms: u64,
    /// The same for those that do not time out.
    pub idle_max_ms: u64,
    /// How many there may be.
    pub cursors_max: usize,
}

/// What `serverStatus` tells of cursors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorCounts {
    /// Open cursors.
    pub open: u64,
    /// Those of them that a batch is fetched from.
    pub pinned: u64,
    /// Those of them that do not time out.
    pub no_timeout: u64,
    /// Cursors that were closed because they were not used.
    pub timed_out: u64,
    /// Cursors that were closed because there were too many, and their client had most.
    pub gave_way: u64,
}

/// Errors of connections and of members that change, behind which a change stream goes on.
const RESUMABLE: [i32; 17] =
    [6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10_107, 11_600, 11_602, 13_388, 13_435, 13_436];

/// How often idle cursors are looked for, in milliseconds.
const SWEEP_MS: i64 = 1000;

impl Cursors {
    /// Keeps a cursor, and returns its id. When there are as many as there may be, the client who has most of them
    /// loses those that it has not used for longest.
    ///
    /// # Errors
    /// `OperationFailed` (96) when there are as many as there may be, and a batch is fetched of all of them.
    pub fn add(&self, cursor: Cursor, environment: &dyn Environment, limits: Limits) -> Result<i64> {
        let now = environment.now_ms();
        let mut slots = self.slots.lock();
        slots.sweep(now, limits);
        let gone = if slots.open.len() >= limits.cursors_max { slots.give_way() } else { Vec::new() };
        if slots.open.len() >= limits.cursors_max {
            let what = format!("{} cursors are open, which is the limit", slots.open.len());
            return Err(Error::new(ErrorCode::OPERATION_FAILED, what));
        }
        let id = loop {
            let id = (environment.random() >> 1).cast_signed();
            if id != 0 && !slots.open.contains_key(&id) {
                break id;
            }
        };
        let slot = Slot {
            owner: cursor.owner.clone(),
            outlives_collection: cursor.source.outlives_collection(),
            no_timeout: cursor.no_timeout,
            used_ms: now,
            cursor: Some(Box::new(cursor)),
            fetching: None,
        };
        slots.open.insert(id, slot);
        // Without the lock: a snapshot goes with each.
        drop(slots);
        drop(gone);
        Ok(id)
    }

    /// Takes a cursor for a batch of a client. The batch ends early when the cursor is killed, or when what is left of
    /// the time of the command that opened it is over. It must be given back, or removed.
    ///
    /// # Errors
    /// `CursorNotFound` (43), `Unauthorized` (13) for another user or namespace, 50736 to 50741 for another session or
    /// transaction, `CursorInUse` (12051).
    pub fn take(
        &self,
        id: i64,
        who: &Owner,
        interrupt: &Arc<Interrupt>,
        environment: &dyn Environment,
        limits: Limits,
    ) -> Result<Box<Cursor>> {
        let mut slots = self.slots.lock();
        slots.sweep(environment.now_ms(), limits);
        let slot = slots.open.get_mut(&id).ok_or_else(|| not_found(id))?;
        slot.owner.check(who, id)?;
        let Some(cursor) = slot.cursor.take() else {
            return Err(Error::new(ErrorCode::CURSOR_IN_USE, format!("cursor id {id} is already in use")));
        };
        interrupt.limit(cursor.left_ms.map_or(0, |left| left.max(1)));
        slot.fetching = Some(Arc::clone(interrupt));
        Ok(cursor)
    }

    /// Gives back a cursor after a batch.
    ///
    /// # Errors
    /// `CursorKilled` (237) when it was killed meanwhile.
    pub fn give_back(&self, id: i64, cursor: Box<Cursor>, now_ms: i64) -> Result<()> {
        let mut slots = self.slots.lock();
        let Some(slot) = slots.open.get_mut(&id) else {
            return Err(Error::new(ErrorCode::CURSOR_KILLED, format!("cursor id {id} was killed")));
        };
        slot.used_ms = now_ms;
        slot.cursor = Some(cursor);
        slot.fetching = None;
        Ok(())
    }

    /// Forgets a cursor; whether it was there.
    pub fn remove(&self, id: i64) -> bool {
        let removed = self.slots.lock().open.remove(&id);
        // Dropped here, without the lock: a snapshot goes with it.
        removed.inspect(|slot| slot.fetching.iter().for_each(|interrupt| interrupt.kill())).is_some()
    }

    /// Forgets a cursor whose search failed, and completes the error: `CursorKilled` (237) when the cursor was killed
    /// meanwhile, and a label when another cursor may go on with the change stream.
    #[must_use]
    pub fn failed(&self, id: i64, error: Error) -> Error {
        let Some(slot) = self.slots.lock().open.remove(&id) else {
            return Error::new(ErrorCode::CURSOR_KILLED, error.message());
        };
        // Change streams alone outlive their collection.
        if slot.outlives_collection && RESUMABLE.contains(&error.code().number()) {
            return error.with_label("ResumableChangeStreamError");
        }
        error
    }

    /// Who may use a cursor.
    #[must_use]
    pub fn owner(&self, id: i64) -> Option<Owner> {
        self.slots.lock().open.get(&id).map(|slot| slot.owner.clone())
    }

    /// The cursors of which no batch is fetched now.
    #[must_use]
    pub fn idle(&self) -> Vec<IdleCursor> {
        let slots = self.slots.lock();
        let idle = slots.open.iter().filter_map(|(id, slot)| Some((*id, slot, slot.cursor.as_ref()?)));
        let idle = idle.map(|(id, slot, cursor)| IdleCursor {
            id,
            owner: slot.owner.clone(),
            used_ms: slot.used_ms,
            no_timeout: slot.no_timeout,
            is_endless: cursor.source.is_endless(),
            awaits_data: cursor.awaits_data,
            command: cursor.command.clone(),
        });
        idle.collect()
    }

    /// Whether the search of a cursor has a limit of time, which its batches share.
    #[must_use]
    pub fn is_limited(&self, id: i64) -> bool {
        let slots = self.slots.lock();
        slots.open.get(&id).and_then(|slot| slot.cursor.as_ref()).is_some_and(|cursor| cursor.left_ms.is_some())
    }

    /// Forgets the cursors of which `is_meant` is true, such as those of a session; how many those were.
    pub fn remove_where(&self, is_meant: impl Fn(&Owner) -> bool) -> usize {
        self.remove_slots(|slot| is_meant(&slot.owner))
    }

    fn remove_slots(&self, is_meant: impl Fn(&Slot) -> bool) -> usize {
        let mut slots = self.slots.lock();
        let ids: Vec<i64> = slots.open.iter().filter(|(_, slot)| is_meant(slot)).map(|(id, _)| *id).collect();
        let removed: Vec<Slot> = ids.iter().filter_map(|id| slots.open.remove(id)).collect();
        drop(slots);
        removed.iter().filter_map(|slot| slot.fetching.as_ref()).for_each(|interrupt| interrupt.kill());
        removed.len()
    }

    /// Closes the cursors that have not been used for too long.
    pub fn sweep(&self, now_ms: i64, limits: Limits) {
        let mut slots = self.slots.lock();
        slots.swept_ms = i64::MIN;
        slots.sweep(now_ms, limits);
    }

    /// Ends the searches of the cursors over collections that are gone: they give the error next, and nothing then.
    /// Change streams stay, and tell it.
    pub fn fail_over(&self, is_gone: impl Fn(&str) -> bool, error: &Error) {
        let mut ended = Vec::new();
        let mut slots = self.slots.lock();
        for slot in slots.open.values_mut().filter(|slot| !slot.outlives_collection && is_gone(&slot.owner.namespace)) {
            slot.fetching.iter().for_each(|interrupt| interrupt.kill());
            if let Some(cursor) = &mut slot.cursor {
                cursor.kept = None;
                ended.push(std::mem::replace(&mut cursor.source, Box::new(Failed(error.clone()))));
            }
        }
        // Dropped without the lock: a snapshot goes with each.
        drop(slots);
    }

    /// How many there are.
    #[must_use]
    pub fn counts(&self) -> CursorCounts {
        let slots = self.slots.lock();
        let count = |is: fn(&Slot) -> bool| u64_of(slots.open.values().filter(|slot| is(slot)).count());
        CursorCounts {
            open: u64_of(slots.open.len()),
            pinned: count(|slot| slot.cursor.is_none()),
            no_timeout: count(|slot| slot.no_timeout),
            timed_out: slots.timed_out,
            gave_way: slots.gave_way,
        }
    }
}

impl Slots {
    /// Takes away the cursors that have not been used for longest of the client who has most: a hundredth of all, so
    /// that the search for them is not made for each new cursor.
    fn give_way(&mut self) -> Vec<Slot> {
        let mut idle: HashMap<&Arc<str>, Vec<(i64, i64)>> = HashMap::new();
        for (id, slot) in self.open.iter().filter(|(_, slot)| slot.cursor.is_some()) {
            idle.entry(&slot.owner.client).or_default().push((slot.used_ms, *id));
        }
        let Some(mut most) = idle.into_values().max_by_key(Vec::len) else { return Vec::new() };
        most.sort_unstable();
        let count = (self.open.len() / 100).clamp(1, most.len());
        self.gave_way += u64_of(count);
        most.iter().take(count).filter_map(|(_, id)| self.open.remove(id)).collect()
    }

    fn sweep(&mut self, now_ms: i64, limits: Limits) {
        if now_ms.saturating_sub(self.swept_ms) < SWEEP_MS {
            return;
        }
        self.swept_ms = now_ms;
        let before = self.open.len();
        self.open.retain(|_, slot| {
            let idle = u64::try_from(now_ms.saturating_sub(slot.used_ms)).unwrap_or_default();
            let limit = if slot.no_timeout { limits.idle_max_ms } else { limits.idle_ms };
            slot.cursor.is_none() || idle < limit
        });
        self.timed_out += u64_of(before - self.open.len());
    }
}

impl Owner {
    /// Whether a client may use a cursor of this owner.
    fn check(&self, who: &Self, id: i64) -> Result<()> {
        let unauthorized = |what: String| Err(Error::new(ErrorCode::UNAUTHORIZED, what));
        if self.user != who.user {
            return unauthorized(format!("cursor id {id} was not created by the authenticated user"));
        }
        if self.namespace != who.namespace {
            let what = format!(
                "Requested getMore on namespace '{}', but cursor belongs to a different namespace {}",
                who.namespace, self.namespace
            );
            return unauthorized(what);
        }
        let refused = |code, what: &str| {
            Err(Error::new(ErrorCode::new(code), format!("Cannot run getMore on cursor {id}, which was {what}")))
        };
        match (self.session, who.session) {
            (None, Some(_)) => return refused(50736, "not created in a session, in a session"),
            (Some(_), None) => return refused(50737, "created in a session, without an lsid"),
            (Some(one), Some(other)) if one != other => return refused(50738, "created in another session"),
            _ => {}
        }
        match (self.txn_number, who.txn_number) {
            (None, Some(_)) => refused(50739, "not created in a transaction, in a transaction"),
            (Some(_), None) => refused(50740, "created in a transaction, without a txnNumber"),
            (Some(one), Some(other)) if one != other => refused(50741, "created in another transaction"),
            _ => Ok(()),
        }
    }
}

/// `CursorNotFound` (43).
#[must_use]
pub fn not_found(id: i64) -> Error {
    Error::new(ErrorCode::CURSOR_NOT_FOUND, format!("cursor id {id} not found"))
}

/// `QueryPlanKilled` (175).
#[must_use]
pub fn plan_killed(name: &str) -> Error {
    Error::new(ErrorCode::QUERY_PLAN_KILLED, format!("collection dropped or renamed: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::System;

    fn cursor(client: &str) -> Cursor {
        let owner = Owner { client: client.into(), ..Owner::default() };
        Cursor::new(Known::new(Vec::new()), owner, DocumentBuf::new())
    }

    /// One client that opened cursors and left them kept every other from a cursor of its own for ten minutes.
    #[test]
    fn at_the_limit_the_client_with_most_cursors_loses_its_oldest() {
        let (cursors, limits) = (Cursors::default(), Limits { idle_ms: 1 << 40, idle_max_ms: 1 << 40, cursors_max: 4 });
        let add = |client: &str| cursors.add(cursor(client), &System, limits).unwrap();
        let few = add("few");
        let many: Vec<i64> = (0..3).map(|_| add("many")).collect();
        let interrupt = Arc::new(Interrupt::default());
        // One that a batch is fetched of stays.
        let held = cursors.take(many[0], &Owner::default(), &interrupt, &System, limits).unwrap();
        let new = add("new");
        assert!(cursors.owner(few).is_some() && cursors.owner(new).is_some() && cursors.owner(many[0]).is_some());
        assert_eq!(many.iter().filter(|id| cursors.owner(**id).is_some()).count(), 2);
        assert_eq!(cursors.counts().gave_way, 1);
        cursors.give_back(many[0], held, 0).unwrap();
    }
}
