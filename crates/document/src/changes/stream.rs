//! A stream that reads the log.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use spinney::{ChangeFeed, Commit, ErrorKind, Kind, TableId};

use super::begin::{Begin, NOT_RESUMABLE, lost};
use super::event::{Frame, Logged, Named, split};
use super::fragments::{fragments, too_large};
use super::names::{find_name, look_up};
use super::options::StreamOptions;
use super::token::{Place, ResumeToken, TokenKind};
use crate::aggregate::{Pipeline, Run};
use crate::base::{Error, ErrorCode, Interrupt, Result, interrupt};
use crate::bson::{DOCUMENT_BYTES_MAX, Document, DocumentBuf, Timestamp};
use crate::catalog::Namespace;
use crate::database::Database;
use crate::notes::{ChangeNote, Note};

/// How long a stream rests that was woken by commits which were none of its own: not at first, then longer each time,
/// so that many streams beside many commits do not take the processor.
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(100);

/// How many milliseconds a commit that nothing has made durable stays unseen while a stream waits.
const UNSEEN_MS_MAX: i64 = 500;

/// What a commit counts for as work of the operation that reads it.
const COMMIT_WORK: usize = 32;

/// What a stream is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// All databases.
    All,
    /// The collections of a database.
    Database(String),
    /// A collection.
    Collection(Namespace),
}

/// A change stream.
#[derive(Debug)]
pub struct ChangeStream {
    database: Database,
    feed: ChangeFeed,
    watched: Watched,
    options: StreamOptions,
    /// What becomes of each event.
    pipeline: Pipeline,
    run: Run,
    begin: Begin,
    /// On a member of a replica set: the position behind the newest that was read.
    next: Option<u64>,
    /// Events behind the pipeline that are not given yet: the next one, or its fragments.
    ready: VecDeque<(ResumeToken, DocumentBuf)>,
    /// The fragment behind which the stream begins, until the event's other fragments were shown.
    fragment: Option<ResumeToken>,
    /// Events that are read, before the pipeline.
    pending: VecDeque<(ResumeToken, DocumentBuf)>,
    /// Behind the last event that was given.
    last: Option<ResumeToken>,
    /// When all commits were made durable for the stream, in milliseconds since 1970.
    synced_ms: i64,
    /// The collections of tables, as of the commit that is read.
    names: HashMap<TableId, Option<Named>>,
    is_over: bool,
}

impl ChangeStream {
    /// Begins a stream, whose events go through a pipeline.
    ///
    /// # Errors
    /// 40573 when the engine does not keep its log, `ChangeStreamHistoryLost` (286) when it no longer has the place to
    /// begin at, `InvalidResumeToken` (260), `IllegalOperation` (20) for a stage that no stream has.
    pub fn open(
        database: &Database,
        watched: Watched,
        options: StreamOptions,
        pipeline: Pipeline,
        run: Run,
    ) -> Result<Self> {
        check_stages(&pipeline)?;
        let (engine, recorder) = (database.engine(), database.catalog().recorder());
        let Some(since) = recorder.since() else {
            let what = "The $changeStream stage is only supported while the log is kept: set log_keep_bytes or \
                        log_keep_time in the options of the engine";
            return Err(Error::new(ErrorCode::new(40573), what));
        };
        let mut begin = Begin::find(database, options.start, since)?;
        let fragment = begin.behind.filter(|token| token.fragment > 0);
        if let Some(token) = fragment {
            if !options.splits {
                let what = "To resume behind a fragment of an event, the pipeline must end with the stage \
                            $changeStreamSplitLargeEvent";
                return Err(Error::new(ErrorCode::CHANGE_STREAM_FATAL_ERROR, what).with_label(NOT_RESUMABLE));
            }
            // The event is read again for its other fragments.
            begin.behind = Some(ResumeToken { seen: token.seen.saturating_sub(1), fragment: 0, ..token });
        }
        let feed = engine.changes(begin.lsn).map_err(of_feed)?;
        Ok(Self {
            database: database.clone(),
            feed,
            watched,
            options,
            pipeline,
            run,
            begin,
            next: database.catalog().committer().map(|_| begin.position),
            ready: VecDeque::new(),
            fragment,
            pending: VecDeque::new(),
            last: None,
            names: HashMap::new(),
            synced_ms: database.environment().now_ms(),
            is_over: false,
        })
    }

    /// The next event; nothing when there is none now.
    ///
    /// # Errors
    /// `ChangeStreamHistoryLost` (286) when the log went on without the stream, `ChangeStreamFatalError` (280) when the
    /// pipeline takes the `_id` away, `NoMatchingDocument` (47), `BSONObjectTooLarge` (10334); those of the pipeline.
    pub fn advance(&mut self) -> Result<Option<DocumentBuf>> {
        loop {
            if self.has_ready()?
                && let Some((token, event)) = self.ready.pop_front()
            {
                self.last = Some(token);
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            interrupt::work(COMMIT_WORK)?;
            let Some(commit) = self.poll()? else { return Ok(None) };
            self.take(&commit)?;
        }
    }

    /// Waits for an event until a time in milliseconds since 1970. The thread sleeps until a commit becomes visible or
    /// durable, or is applied on a member of a replica set, or the operation ends.
    ///
    /// # Errors
    /// As [`Self::advance`]; `Interrupted` (11601).
    pub fn wait(&mut self, until_ms: i64, operation: &Interrupt) -> Result<()> {
        let environment = Arc::clone(self.database.environment());
        let waker = self.feed.waker();
        let _waking = operation.waking(move || waker.wake());
        let catalog = Arc::clone(self.database.catalog());
        let _waiting = catalog.recorder().waiting(self.feed.waker());
        let mut rest = Duration::ZERO;
        while !self.is_over {
            if self.has_ready()? {
                return Ok(());
            }
            // Before all that is looked at, so that nothing comes unnoticed between the look and the sleep.
            let seen = self.feed.news();
            operation.check()?;
            let left = until_ms.saturating_sub(environment.now_ms());
            let Ok(left @ 1..) = u64::try_from(left) else { return Ok(()) };
            match self.poll()? {
                Some(commit) => self.take(&commit)?,
                None => {
                    let unseen = self.feed.awaits_sync();
                    let most = if unseen { left.min(UNSEEN_MS_MAX.unsigned_abs()) } else { left };
                    self.feed.wait_for_news(seen, operation.patience(most));
                    if unseen {
                        self.sync_when_due(environment.now_ms())?;
                    }
                    interrupt::rest(rest.min(operation.patience(left)));
                    rest = (rest * 2).clamp(REST_MIN, REST_MAX);
                }
            }
        }
        Ok(())
    }

    /// Makes all commits durable, unless that was done a moment ago: a stream shows what is durable. Where commits are
    /// acknowledged before, as with `--journal buffered` or a write concern of `j: false`, nothing else may do so.
    fn sync_when_due(&mut self, now_ms: i64) -> Result<()> {
        if now_ms.saturating_sub(self.synced_ms) >= UNSEEN_MS_MAX && !self.database.engine().is_read_only() {
            self.synced_ms = now_ms;
            self.database.engine().sync()?;
        }
        Ok(())
    }

    /// The next commit. What a replica set has agreed on is shown when readers see it: it is made durable here too for
    /// that, where nothing has done so yet.
    fn poll(&mut self) -> Result<Option<Commit>> {
        let polled = self.feed.poll().map_err(of_feed)?;
        if polled.is_some() || self.next.is_none_or(|next| self.database.catalog().recorder().position() < next) {
            return Ok(polled);
        }
        self.database.engine().sync()?;
        self.feed.poll().map_err(of_feed)
    }

    /// Whether the stream has given its last event.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over && self.pending.is_empty() && self.ready.is_empty()
    }

    /// Where a later stream goes on behind what was given.
    #[must_use]
    pub fn resume_token(&self) -> ResumeToken {
        let next = self.ready.front().or(self.pending.front()).map(|(token, _)| *token);
        match (self.last, next) {
            (Some(last), Some(_)) => last,
            (Some(last), None) if self.is_over => last,
            // In front of the first event.
            (None, Some(next)) if next.fragment > 1 => ResumeToken { fragment: next.fragment - 1, ..next },
            (None, Some(next)) if next.seen > 1 => ResumeToken { seen: next.seen - 1, fragment: 0, ..next },
            (None, Some(next)) => {
                ResumeToken { seen: 0, kind: TokenKind::Place, time: self.begin.time, fragment: 0, ..next }
            }
            _ => {
                // Until its commit was read.
                if let Some(behind) = self.begin.behind {
                    return self.fragment.unwrap_or(behind);
                }
                let at = self.next.map_or(Place::Lsn(self.feed.resume_lsn()), Place::Position);
                ResumeToken { at, seen: 0, kind: TokenKind::Place, time: self.begin.time, fragment: 0 }
            }
        }
    }

    /// Whether there is an event behind the pipeline. Those that it holds back are dropped.
    fn has_ready(&mut self) -> Result<bool> {
        while self.ready.is_empty() {
            let Some((token, event)) = self.pending.pop_front() else { return Ok(false) };
            match self.through_pipeline(&token, event)? {
                Some(event) => self.show(token, event)?,
                None => self.last = Some(token),
            }
        }
        Ok(true)
    }

    /// Lets an event be given next: whole, or in those of its fragments that were not given before.
    fn show(&mut self, token: ResumeToken, event: DocumentBuf) -> Result<()> {
        let is_of = |fragment: &mut ResumeToken| (fragment.at, fragment.seen) == (token.at, token.seen);
        let given = self.fragment.take_if(is_of);
        if event.as_bytes().len() > DOCUMENT_BYTES_MAX {
            if !self.options.splits {
                return Err(too_large(&event));
            }
            self.ready.extend(fragments(&event, &token, DOCUMENT_BYTES_MAX)?);
        } else {
            self.ready.push_back((token, event));
        }
        if let Some(given) = given {
            self.last = Some(given);
            // An event that is small by now was given before in what its fragments told.
            self.ready.retain(|(token, _)| token.fragment > given.fragment);
        }
        Ok(())
    }

    fn through_pipeline(&self, token: &ResumeToken, event: DocumentBuf) -> Result<Option<DocumentBuf>> {
        if self.pipeline.stages().is_empty() {
            return Ok(Some(event));
        }
        let mut rows = self.pipeline.run(Box::new(std::iter::once(Ok(event))), &self.run)?;
        let Some(shown) = rows.next().transpose()? else { return Ok(None) };
        let id = token.document();
        if shown.view().get("_id").and_then(|id| id.as_document()) != Some(id.view()) {
            let what = "Encountered an event whose _id field, which contains the resume token, was modified by the \
                        pipeline. Modifying the _id field of an event makes it impossible to resume the stream from \
                        that point. Only transformations that retain the unmodified _id field are allowed.";
            return Err(Error::new(ErrorCode::CHANGE_STREAM_FATAL_ERROR, what).with_label(NOT_RESUMABLE));
        }
        Ok(Some(shown))
    }

    /// Reads the events of a commit.
    fn take(&mut self, commit: &Commit) -> Result<()> {
        let Some(note) = Note::decode(commit.note()) else { return Ok(()) };
        let at = match (self.next, note.position) {
            (None, _) => Place::Lsn(commit.lsn),
            (Some(_), Some(position)) => {
                self.next = Some(position + 1);
                Place::Position(position)
            }
            // Of this member alone.
            (Some(_), None) => return Ok(()),
        };
        if !self.begin.is_reached(at, note.time)? {
            return Ok(());
        }
        let Some(time) = note.time else { return Ok(()) };
        let behind = self.begin.behind.take().filter(|token| token.at == at);
        let seen = behind.map_or(0, |token| token.seen);
        let mut count = 0;
        let mut token = |kind| {
            count += u32::from(kind == TokenKind::Event);
            ResumeToken { at, seen: count, kind, time, fragment: 0 }
        };
        // A transaction inserts into collections that it creates.
        self.take_collections(&note, time, behind, &mut token);
        self.take_documents(commit, &note, time, seen, &mut token)
    }

    fn take_documents(
        &mut self,
        commit: &Commit,
        note: &Note,
        time: Timestamp,
        seen: u32,
        token: &mut impl FnMut(TokenKind) -> ResumeToken,
    ) -> Result<()> {
        let changes = commit.changes();
        let mut found: Vec<(u64, TableId, Logged<'_>)> = Vec::new();
        for change in changes.iter().filter(|change| matches!(change.kind, Kind::Put | Kind::Delete)) {
            let Some(named) = self.named(commit, change.table, time)? else { continue };
            let number = named.number;
            let document = Document::from_checked_bytes(change.value).filter(|_| change.kind == Kind::Put);
            found.push((number, change.table, Logged { key: change.key, document, note: None }));
        }
        found.sort_by(|a, b| (a.0, a.2.key).cmp(&(b.0, b.2.key)));
        let inserts: Vec<(usize, Option<&ChangeNote>)> = match &note.changes {
            None => (0..found.len()).map(|at| (at, None)).collect(),
            Some(notes) => notes.iter().map(|note| (note.index(), Some(note))).collect(),
        };
        for (at, note_of) in inserts {
            let token = token(TokenKind::Event);
            let Some((_, table, logged)) = found.get(at) else { continue };
            let Some(Some(named)) = self.names.get(table) else { continue };
            if token.seen <= seen || !self.is_watched(&named.database, Some(&named.collection)) {
                continue;
            }
            let now = self.database.catalog().recorder().clock().last();
            let frame = Frame { time, now, session: note.session.as_ref(), options: &self.options };
            let lookup = || look_up(self.database.catalog(), named, logged.key);
            let event = frame.of_document(&token, named, Logged { note: note_of, ..*logged }, lookup)?;
            self.pending.push_back((token, event));
        }
        Ok(())
    }

    fn take_collections(
        &mut self,
        note: &Note,
        time: Timestamp,
        behind: Option<ResumeToken>,
        token: &mut impl FnMut(TokenKind) -> ResumeToken,
    ) {
        let seen = behind.map_or(0, |token| token.seen);
        for told in &note.events {
            // What a table was called may be another name from here on.
            self.names.clear();
            let (at, told) = (token(TokenKind::Event), told.view());
            let text = |name| told.get(name).and_then(|value| value.as_str()).unwrap_or_default();
            let (database, collection) = split(text("ns"));
            let to = told.get("to").and_then(|to| to.as_str());
            let is_target = to.is_some_and(|to| {
                let (database, collection) = split(to);
                self.is_watched(database, collection)
            });
            if self.is_over || !(self.is_watched(database, collection) || is_target) {
                continue;
            }
            let frame = Frame { time, now: time, session: None, options: &self.options };
            if at.seen > seen {
                let event = frame.of_collection(&at, told);
                self.pending.extend(event.map(|event| (at, event)));
            }
            let ends = matches!(
                (&self.watched, text("op")),
                (Watched::Collection(_), "drop" | "rename" | "dropDatabase") | (Watched::Database(_), "dropDatabase")
            );
            // A stream that goes on behind its end is not ended again by the same event.
            let was_last = at.seen == seen && behind.is_some_and(|token| token.kind == TokenKind::Event);
            if ends && (at.seen > seen || was_last) {
                let end = ResumeToken { kind: TokenKind::Invalidate, ..at };
                self.pending.push_back((end, frame.invalidate(&end)));
                self.is_over = true;
            }
        }
    }

    fn is_watched(&self, database: &str, collection: Option<&str>) -> bool {
        if collection.is_some_and(|name| name.starts_with("system.")) {
            return false;
        }
        match &self.watched {
            Watched::All => !matches!(database, "admin" | "config" | "local"),
            Watched::Database(name) => name == database,
            Watched::Collection(namespace) => {
                namespace.database() == database && collection.is_none_or(|name| name == namespace.collection())
            }
        }
    }

    /// The collection that a table is of, if it is of one.
    fn named(&mut self, commit: &Commit, table: TableId, time: Timestamp) -> Result<Option<&Named>> {
        if !self.names.contains_key(&table) {
            let named = find_name(self.database.catalog(), commit.table_name(table), table, time)?;
            self.names.insert(table, named);
        }
        Ok(self.names.get(&table).and_then(Option::as_ref))
    }
}

/// Refuses stages that would need more than one event.
fn check_stages(pipeline: &Pipeline) -> Result<()> {
    const STAGES: [&str; 8] =
        ["$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$redact"];
    match pipeline.stages().iter().find(|stage| !STAGES.contains(&stage.name())) {
        Some(stage) => {
            let what = format!("{} is not permitted in a $changeStream pipeline", stage.name());
            Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what))
        }
        None => Ok(()),
    }
}

/// An error of the engine's feed.
fn of_feed(error: spinney::Error) -> Error {
    match error.kind() {
        ErrorKind::Gone => lost(&error.to_string()),
        ErrorKind::Invalid => Error::new(ErrorCode::INVALID_RESUME_TOKEN, error.to_string()),
        _ => Error::from(error),
    }
}
