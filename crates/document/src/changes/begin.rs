//! Where a stream begins.

use spinney::Lsn;

use super::options::Start;
use super::token::{Place, ResumeToken, TokenKind};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Timestamp;
use crate::catalog::Since;
use crate::database::Database;
use crate::notes::clock::just_behind;

/// The label of an error behind which a stream cannot go on.
pub(super) const NOT_RESUMABLE: &str = "NonResumableChangeStreamError";

/// Where a stream begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// Where the log is read from.
    pub(super) lsn: Lsn,
    /// Commits before this time are not shown.
    pub(super) time: Timestamp,
    /// Commits of a replica set before this position are not shown.
    pub(super) position: u64,
    /// The event behind which it begins, until its commit was read.
    pub(super) behind: Option<ResumeToken>,
    /// What the first commit that is read must be at or before, so that the log lacks nothing.
    reaches: Option<Reach>,
}

/// What the log must reach back to.
#[derive(Clone, Copy, Debug)]
enum Reach {
    Time,
    Position,
}

impl Begin {
    /// # Errors
    /// `ChangeStreamHistoryLost` (286) when the log no longer has the place to begin at, `InvalidResumeToken` (260) for
    /// a token of another kind of server.
    pub(super) fn find(database: &Database, start: Start, since: Since) -> Result<Self> {
        let (engine, recorder) = (database.engine(), database.catalog().recorder());
        let is_member = database.catalog().committer().is_some();
        let oldest = engine.log_start().max(since.lsn);
        let zero = Timestamp::from_bits(0);
        let start = match start {
            // Nothing was read yet.
            Start::Behind(ResumeToken { at: Place::Position(0), kind: TokenKind::Place, time, .. }) => Start::At(time),
            start => start,
        };
        let at = |lsn, time| Self { lsn, time, position: 0, behind: None, reaches: None };
        match start {
            Start::Now if is_member => {
                // In this order: a commit that is under way now has no smaller position.
                let (_, lsn) = recorder.clock().visible(engine);
                Ok(Self { position: recorder.position() + 1, ..at(lsn, zero) })
            }
            // Commits that are under way are shown.
            Start::Now => {
                let (time, lsn) = recorder.clock().visible(engine);
                Ok(at(lsn, just_behind(time)))
            }
            Start::Behind(token) => {
                let (time, behind) = match token.kind {
                    TokenKind::Place => (token.time, None),
                    TokenKind::Event | TokenKind::Invalidate => (zero, Some(token)),
                };
                match token.at {
                    Place::Position(position) if is_member => {
                        let lsn = recorder.before_position(position).unwrap_or(oldest);
                        if lsn == oldest && oldest == since.lsn && position <= since.position {
                            return Err(lost("this member has begun behind the resume token"));
                        }
                        let reaches = (lsn == oldest && oldest > since.lsn).then_some(Reach::Position);
                        Ok(Self { lsn, time, position, behind, reaches })
                    }
                    Place::Position(_) => {
                        let what = "the resume token is of a replica set, of which this database is no member";
                        Err(Error::new(ErrorCode::INVALID_RESUME_TOKEN, what))
                    }
                    Place::Lsn(_) if is_member => Err(lost("the resume token is older than the replica set")),
                    Place::Lsn(lsn) if lsn < since.lsn => Err(lost("the resume token is older than the log")),
                    Place::Lsn(lsn) => Ok(Self { behind, ..at(lsn, time) }),
                }
            }
            Start::At(time) if since.is_cut && (time < since.time || time > recorder.far_ahead()) => Err(lost(
                "the cluster time was far ahead of the time of day, and was set back: history begins behind it",
            )),
            // Nothing is known of before, and nothing is lost since.
            Start::At(time) if !is_member && time < since.time && oldest == since.lsn => Ok(at(oldest, since.time)),
            Start::At(time) if !is_member && time < since.time => Err(lost("the log does not reach back to the time")),
            // A member's own clock says nothing of the set's commits, but what it does not have it does not show.
            Start::At(time) if is_member && time < since.time && since.position > 0 => {
                Err(lost("this member has begun behind the time"))
            }
            Start::At(time) => {
                let lsn = recorder.position_before(time).unwrap_or(oldest);
                let reaches = (lsn == oldest && oldest > since.lsn).then_some(Reach::Time);
                Ok(Self { reaches, ..at(lsn, time) })
            }
        }
    }

    /// Whether a commit that is read is to be shown.
    ///
    /// # Errors
    /// `ChangeStreamHistoryLost` (286) when it is the first of the log, and commits before it may be lost that were to
    /// be shown.
    pub(super) fn is_reached(&mut self, at: Place, time: Option<Timestamp>) -> Result<bool> {
        match (self.reaches, at, time) {
            (Some(Reach::Position), Place::Position(position), _) if position > self.position => {
                return Err(lost("the log does not reach back to the resume token"));
            }
            (Some(Reach::Time), _, Some(time)) if time > self.time => {
                return Err(lost("the log does not reach back to the time"));
            }
            (Some(Reach::Time), _, None) => {}
            _ => self.reaches = None,
        }
        let is_before = matches!(at, Place::Position(position) if position < self.position);
        Ok(!is_before && time.is_none_or(|time| time >= self.time))
    }
}

pub(super) fn lost(why: &str) -> Error {
    let what =
        format!("Resume of change stream was not possible, as the resume point may no longer be in the log: {why}");
    Error::new(ErrorCode::CHANGE_STREAM_HISTORY_LOST, what).with_label(NOT_RESUMABLE)
}
