//! A member whose data disagrees with the replicated log gets a copy of the primary's database.
//!
//! Such a member applies nothing any more, and keeps the log for the others. It asks the primary whether it may have a
//! copy now, which a primary sends to one member at a time and only while the others are a majority without it. It
//! notes the time, of which it has [`RESYNCS_MAX`] in an hour, and ends its consensus, so that its log does not grow
//! any more. It asks again with the end of its log. The primary waits until it has applied as much, and sends its
//! database as it does to a member whose log ends too early. The program then opens the copy, or its own database when
//! none came.

use std::sync::{Arc, Weak};
use std::time::Duration;

use spinney::base::codec::Malformed;
use spinney_document::base::{Environment, System};
use tokio::time::{Instant, sleep, timeout};

use super::copy_grant::CopyGrant;
use super::core::Core;
use super::messages::{self, RESYNC};
use crate::base::config::Member;
use crate::base::error::{Error, Result};
use crate::entry::log_entry::LogId;
use crate::entry::resync_request::ResyncRequest;
use crate::raft::view::View;
use crate::storage::resyncs::{self, RESYNCS_MAX};

/// How long the primary may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the primary may take to have applied what the member's log has.
const APPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the member waits for the next step of a copy, the first one included.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// After what time a member whose consensus has ended asks again.
const RETRY: Duration = Duration::from_secs(1);

/// How often it looks whether one came.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

impl Core {
    /// Answers a member that asks for a copy, and sends it when the member is ready for it.
    pub(crate) fn answer_resync(self: &Arc<Self>, request: &[u8]) -> Result<Vec<u8>> {
        let request = ResyncRequest::decode(request).map_err(|Malformed| Error::Malformed("a request for a copy"))?;
        let refuse = |why: &str| Error::Ended(why.to_owned());
        let view = self.consensus()?.view();
        if !self.watch().borrow().writable {
            return Err(self.not_primary());
        }
        let (peer, _) = view
            .peers
            .get(&request.identity)
            .ok_or(Error::Malformed("a request for a copy by no member of the set"))?;
        if !self.is_majority_without(&view, request.identity) {
            return Err(refuse("the other members are no majority without this one"));
        }
        if !self.copy_grant.lock().grant(request, Instant::now()) {
            return Err(refuse("another member gets a copy now"));
        }
        let Some(end) = request.end else { return Ok(Vec::new()) };
        let copies = self.copies.get().cloned().ok_or_else(|| refuse("the primary does not run"))?;
        let (member, mut applied, term) = (peer.member.clone(), self.applier.applied(), view.term);
        let core = Arc::clone(self);
        tokio::spawn(async move {
            let reached = applied.wait_for(|applied| *applied >= Some(end));
            if let Ok(Ok(_)) = timeout(APPLY_TIMEOUT, reached).await {
                // Not tried again: the reply to its last step may be lost. A member without a copy asks again.
                drop(copies.send(&member, request.identity, term).await);
            }
            // Nobody else gets one before it is known again which members answer.
            sleep(core.settings.election_timeout * 2).await;
            *core.copy_grant.lock() = CopyGrant::default();
        });
        Ok(Vec::new())
    }

    /// Whether members that answer are a majority of those that vote, without one.
    fn is_majority_without(&self, view: &View, without: u64) -> bool {
        let voters = || view.peers.iter().filter(|(_, (_, votes))| *votes).map(|(identity, _)| *identity);
        let answers = |identity: &u64| {
            let age = view.answered.get(identity).copied().flatten();
            *identity == self.identity || age.is_some_and(|age| age < self.settings.election_timeout)
        };
        voters().filter(|identity| *identity != without && answers(identity)).count() > voters().count() / 2
    }

    /// Which members may be asked for a copy: the primary, when that is another one. A consensus that ended for a log
    /// that disagrees with the primary's does not know which member that is: all others then.
    fn candidates(&self, view: &View) -> Vec<(u64, Member)> {
        let primary = self.watch().borrow().primary.filter(|primary| *primary != self.identity);
        let asked = |identity: u64| match primary {
            Some(primary) => identity == primary,
            None => self.log.damage().is_some() && identity != self.identity,
        };
        let asked = view.peers.iter().filter(|(identity, _)| asked(**identity));
        asked.map(|(identity, (peer, _))| (*identity, peer.member.clone())).collect()
    }

    /// Asks a member for a copy: whether it may be had, or, when this member's log has `end`ed, to send it.
    async fn ask_copy(&self, identity: u64, member: &Member, end: Option<LogId>) -> std::io::Result<()> {
        let request = ResyncRequest { identity: self.identity, end };
        let message = messages::addressed(identity, RESYNC, &request.encode());
        self.caller.call(member, message, ANSWER_TIMEOUT).await.map(drop)
    }

    /// Why there is no copy now.
    async fn resync(self: &Arc<Self>) -> std::result::Result<(), String> {
        let consensus = self.consensus().map_err(|error| error.to_string())?;
        let (dir, now_ms) = (self.applier.rows().engine().path().to_owned(), System.now_ms());
        let failed = |error: std::io::Error| format!("the times of earlier copies cannot be kept: {error}");
        if resyncs::lately(&dir, now_ms).map_err(failed)?.len() >= RESYNCS_MAX {
            return Err(format!("it had {RESYNCS_MAX} copies within an hour"));
        }
        let view = consensus.view();
        let mut denied = "no primary is known".to_owned();
        let mut granted = None;
        for (identity, member) in self.candidates(&view) {
            match self.ask_copy(identity, &member, None).await {
                Ok(()) => {
                    granted = Some((identity, member));
                    break;
                }
                Err(error) => denied = format!("the primary sends none: {error}"),
            }
        }
        let (primary, member) = granted.ok_or(denied)?;
        resyncs::note(&dir, now_ms).map_err(failed)?;
        self.intent.lock().copy_heard = Some(Instant::now());
        self.refresh();
        consensus.end().await;
        let end = self.log.ends().1.unwrap_or_default();
        if self.ask_copy(primary, &member, Some(end)).await.is_ok() {
            let silent = || {
                let intent = self.intent.lock();
                !intent.copy_received && intent.copy_heard.is_some_and(|heard| heard.elapsed() < STEP_TIMEOUT)
            };
            while silent() {
                sleep(LOOK_PERIOD).await;
            }
        }
        // With a copy or without one, its part in the set begins anew.
        self.intent.lock().copy_received = true;
        self.refresh();
        Ok(())
    }
}

/// Gets a copy for a member whose consensus has ended, as its log disagrees with the primary's.
pub(crate) async fn resync_until_copied(core: Weak<Core>) {
    loop {
        let Some(core) = core.upgrade() else { return };
        if core.intent.lock().copy_received {
            return;
        }
        resync(core).await;
        sleep(RETRY).await;
    }
}

/// Gets a copy, if that is possible now. It is tried again.
pub(crate) async fn resync(core: Arc<Core>) {
    let Ok(_one) = core.resyncing.try_lock() else { return };
    let denied = core.resync().await.err();
    core.intent.lock().denied_copy = denied;
}
