//! The change feed.

use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use spinney::Lsn;
use spinney::base::Kind;

use crate::bytes::Bytes;
use crate::database::Database;
use crate::status::{Given as _, Status, call, done};

/// Committed changes in their order. For one thread at a time.
#[derive(Debug)]
pub struct ChangeFeed(spinney::ChangeFeed);

/// A commit.
#[derive(Debug)]
pub struct Commit {
    seqnum: u64,
    note: Vec<u8>,
    changes: Vec<Change>,
}

/// A change of a commit, with bytes of its own.
#[derive(Debug)]
struct Change {
    kind: ChangeKind,
    table: String,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Commit {
    fn of(commit: &spinney::Commit) -> Self {
        let change = |change: &spinney::Change<'_>| Change {
            kind: match change.kind {
                Kind::Delete => ChangeKind::Delete,
                Kind::Merge => ChangeKind::Merge,
                Kind::RangeDelete => ChangeKind::RangeDelete,
                Kind::SingleDelete => ChangeKind::SingleDelete,
                _ => ChangeKind::Put,
            },
            table: commit.table_name(change.table).unwrap_or_default().to_owned(),
            key: change.key.to_vec(),
            value: change.value.to_vec(),
        };
        let changes = commit.changes().iter().map(change).collect();
        Self { seqnum: commit.seqnum.0, note: commit.note().to_vec(), changes }
    }
}

/// What becomes of a key.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum ChangeKind {
    /// It has this value.
    Put = 1,
    /// It is removed.
    Delete = 2,
    /// The value is an operand of the table's merge operator.
    Merge = 3,
    /// All keys from the key on and before the value are removed; an empty value is no limit.
    RangeDelete = 4,
    /// It is removed, and was put once.
    SingleDelete = 5,
}

/// A change of a commit. Its bytes are valid until the commit is freed.
#[repr(C)]
#[derive(Debug)]
pub struct CommitChange {
    /// What becomes of the key.
    pub kind: ChangeKind,
    /// The name of the table, UTF-8 without a NUL at its end; empty when the table was dropped meanwhile.
    pub table: Bytes,
    /// The key; of a range-delete the first one.
    pub key: Bytes,
    /// The value, the operand, or the key behind the range.
    pub value: Bytes,
}

/// The position of the log up to which all commits are durable; 0 for `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_log_end(database: Option<&Database>) -> u64 {
    database.map_or(0, |db| db.0.log_end().0)
}

/// The oldest position of the log from which a feed can begin; 0 for `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_log_start(database: Option<&Database>) -> u64 {
    database.map_or(0, |db| db.0.log_start().0)
}

/// Gives the commits from a position of the log on. Free the feed with `spinney_changes_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_changes(
    database: Option<&Database>,
    from: u64,
    feed: Option<&mut MaybeUninit<Box<ChangeFeed>>>,
) -> Status {
    done(|| {
        let (db, out) = (&database.given("database")?.0, feed.given("feed")?);
        out.write(Box::new(ChangeFeed(db.changes(Lsn(from))?)));
        Ok(())
    })
}

/// Gives the next commit, waited for at most so many milliseconds; `SPINNEY_STATUS_NONE` when there is none by then.
/// Free it with `spinney_commit_free`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_changes_wait(
    feed: Option<&mut ChangeFeed>,
    milliseconds: u64,
    commit: Option<&mut MaybeUninit<Option<Box<Commit>>>>,
) -> Status {
    call(|| {
        let out = commit.given("commit")?;
        out.write(None);
        let Some(commit) = feed.given("feed")?.0.wait(Duration::from_millis(milliseconds))? else {
            return Ok(Status::None);
        };
        out.write(Some(Box::new(Commit::of(&commit))));
        Ok(Status::Ok)
    })
}

/// The position from which another feed goes on; 0 for `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_changes_resume(feed: Option<&ChangeFeed>) -> u64 {
    feed.map_or(0, |feed| feed.0.resume_lsn().0)
}

/// Frees a feed. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_changes_free(feed: Option<Box<ChangeFeed>>) {
    drop(feed);
}

/// How many changes a commit has.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_commit_count(commit: Option<&Commit>) -> usize {
    commit.map_or(0, |commit| commit.changes.len())
}

/// The place of the first change of a commit in the order of visibility.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_commit_seqnum(commit: Option<&Commit>) -> u64 {
    commit.map_or(0, |commit| commit.seqnum)
}

/// The note of a commit; empty when it has none. Valid until the commit is freed.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_commit_note(commit: Option<&Commit>) -> Bytes {
    commit.map_or(Bytes { data: ptr::null(), size: 0 }, |commit| Bytes::of(&commit.note))
}

/// Gives change number `index` of a commit, from 0 on; `SPINNEY_STATUS_NONE` behind the last.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_commit_change(
    commit: Option<&Commit>,
    index: usize,
    change: Option<&mut MaybeUninit<CommitChange>>,
) -> Status {
    call(|| {
        let (commit, out) = (commit.given("commit")?, change.given("change")?);
        let Some(Change { kind, table, key, value }) = commit.changes.get(index) else { return Ok(Status::None) };
        let (table, key, value) = (Bytes::of(table.as_bytes()), Bytes::of(key), Bytes::of(value));
        out.write(CommitChange { kind: *kind, table, key, value });
        Ok(Status::Ok)
    })
}

/// Frees a commit. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_commit_free(commit: Option<Box<Commit>>) {
    drop(commit);
}
