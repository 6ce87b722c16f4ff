//! What a node does by itself: it prepares to lead, lets go of old entries, and hands over to whom is wanted more.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::candidates::caught_up;
use super::core::Core;
use super::members::{meet_others, replace_lost_copies, tell_what_is_owed};
use super::resync::{resync, resync_until_copied};
use crate::base::blocking::spawn_blocking;
use crate::base::error::Error;
use crate::raft::consensus::RoleChanges;
use crate::raft::view::{State, View};

/// How often a member meets the others: they tell each other which programs they run, and of which set they are.
const MEET_PERIOD: Duration = Duration::from_secs(10);

/// The same while it knows no primary: it may have been removed.
const MEET_PERIOD_WITHOUT_PRIMARY: Duration = Duration::from_secs(1);

/// How often a primary looks for a member that is wanted more.
const PRIORITY_PERIOD: Duration = Duration::from_secs(1);

/// How long it may take to prepare to lead; another member is to lead then.
const PREPARE_MAX: Duration = Duration::from_secs(10);

/// Runs until the node is dropped or ends.
pub(crate) async fn run(core: Weak<Core>) {
    let mut changes = RoleChanges::default();
    let (mut elections, mut heartbeats) = (false, true);
    let mut looked = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        let Some(core) = core.upgrade() else { return };
        let Ok(consensus) = core.consensus() else { return };
        let view = consensus.view();
        if view.failure.is_some() || view.state == State::Ended {
            return end(&core);
        }
        let (disagrees, alone) = (core.disagrees(), view.peers.len() == 1);
        let frozen = thaw(&core, &view) || (core.is_stuck() && !alone);
        let wanted = !frozen && may_lead(&core, &view);
        if elections != wanted {
            consensus.allow_elections(wanted);
            elections = wanted;
        }
        let silent = view.state == State::Leader && (frozen || view.silence() >= core.settings.lease());
        if heartbeats == silent {
            heartbeats = !silent;
            consensus.allow_heartbeats(heartbeats);
        }
        core.refresh();
        if view.silence() >= core.settings.silence_max() {
            // It is tried again.
            drop(consensus.resign(view.term).await);
        }
        prepare_to_lead(&core);
        give_up_first_entries(&core, &view).await;
        if !view.peers.is_empty() && asked.is_none_or(|asked| asked.elapsed() >= ask_period(&core)) {
            asked = Some(Instant::now());
            tokio::spawn(meet_others(Arc::clone(&core)));
        }
        let fallen_back = core.membership.fallen_back(&view);
        if !fallen_back.is_empty() {
            tokio::spawn(tell_what_is_owed(Arc::clone(&core), fallen_back));
        }
        if looked.elapsed() >= PRIORITY_PERIOD {
            looked = Instant::now();
            if disagrees && alone {
                // There is nobody of whom it could get a copy.
                consensus.end().await;
            } else if disagrees {
                tokio::spawn(resync(Arc::clone(&core)));
            }
            give_up_entries(&core, &view).await;
            if core.watch().borrow().writable && !view.joint {
                tokio::spawn(replace_lost_copies(Arc::clone(&core)));
            }
            if let Some(successor) = wanted_more(&core, &view) {
                // It is tried again when it fails.
                drop(consensus.transfer(successor).await);
            }
        }
        let pause = core.settings.heartbeat;
        tokio::select! {
            biased;
            changed = consensus.role_changed(&mut changes) => if changed.is_err() { return end(&core) },
            () = sleep(pause) => {}
        }
    }
}

/// The consensus has ended. A member whose log disagrees with the primary's gets a copy.
fn end(core: &Arc<Core>) {
    core.refresh();
    if core.log.damage().is_some() {
        tokio::spawn(resync_until_copied(Arc::downgrade(core)));
    }
}

fn ask_period(core: &Core) -> Duration {
    if core.watch().borrow().primary.is_some() { MEET_PERIOD } else { MEET_PERIOD_WITHOUT_PRIMARY }
}

/// Notes when all is applied that was committed before the open, or before a primary was first heard of: what is read
/// before is older than what others have read.
pub(crate) async fn recover(weak: Weak<Core>) {
    let Some(core) = weak.upgrade() else { return };
    let Ok(consensus) = core.consensus().cloned() else { return };
    let last = core.log.ends().1.map(|last| last.index);
    drop(core);
    let Ok(heard) = consensus.wait(|view| view.told.is_some()).await else { return };
    let recovered = consensus.wait(|view| {
        // The log may have been cut since.
        let needed = last.min(view.last).max(heard.told);
        view.applied.map(|applied| applied.index) >= needed
    });
    if recovered.await.is_ok()
        && let Some(core) = weak.upgrade()
    {
        core.intent.lock().recovered = true;
        core.refresh();
    }
}

/// Whether the node keeps from leading now; ends that when its time is over.
fn thaw(core: &Core, view: &View) -> bool {
    let mut intent = core.intent.lock();
    let over = intent.frozen_until.is_none_or(|until| until <= Instant::now());
    if over {
        intent.frozen_until = None;
        intent.stepping_down = false;
    } else if view.state != State::Leader {
        intent.stepping_down = false;
    }
    !over
}

fn may_lead(core: &Core, view: &View) -> bool {
    !core.membership.is_excluded()
        && !core.membership.owes(view.last)
        && view.peers.get(&core.identity).is_some_and(|(peer, votes)| *votes && peer.member.priority_thousandths > 0)
}

/// Begins what has to be done before writes are taken, when the node has begun to lead.
fn prepare_to_lead(core: &Arc<Core>) {
    let Some(term) = core.watch().borrow().leading else { return };
    let interruptions = {
        let mut intent = core.intent.lock();
        if intent.preparing || intent.prepared_term == Some(term) {
            return;
        }
        intent.preparing = true;
        intent.interruptions
    };
    let core = Arc::clone(core);
    tokio::spawn(async move {
        let mut leading = pin!(lead(&core));
        let prepared = match timeout(PREPARE_MAX, &mut leading).await {
            Ok(prepared) => prepared.is_ok(),
            Err(_) => {
                core.give_up_lead(term).await;
                // Its thread ends when a later primary has decided on what it waits for.
                drop(leading.await);
                false
            }
        };
        {
            let mut intent = core.intent.lock();
            intent.preparing = false;
            if prepared && intent.interruptions == interruptions {
                intent.prepared_term = Some(term);
            }
        }
        core.refresh();
    });
}

async fn lead(core: &Arc<Core>) -> Result<(), Error> {
    let consensus = core.consensus()?;
    let step = |what: String| core.intent.lock().preparation = what;
    // What earlier primaries wrote is applied then, and what was proposed here is in the log. That is applied too,
    // before a caller who was not told of its fate can send it again.
    step("a majority confirms that it leads".to_owned());
    consensus.linearizable().await?;
    let last = core.log.ends().1.map(|last| last.index);
    step(format!("the entries of its log up to {} are applied", last.unwrap_or_default()));
    consensus.wait(|view| view.state != State::Leader || view.applied.map(|applied| applied.index) >= last).await?;
    if core.on_lead.get().is_none() {
        return Ok(());
    }
    step("what earlier primaries left half done of collections and indexes is dropped".to_owned());
    let core = Arc::clone(core);
    let done = spawn_blocking(move || core.on_lead.get().map_or(Ok(()), |on_lead| on_lead()));
    done.await.map_err(|error| Error::Ended(error.to_string()))?
}

impl Core {
    /// Leaves the lead to another member, as what has to be done first does not end; and says why.
    async fn give_up_lead(&self, term: u64) {
        {
            let mut intent = self.intent.lock();
            let (waited, seconds) = (&intent.preparation, PREPARE_MAX.as_secs());
            intent.given_up = Some(format!("in term {term} it waited for {seconds} s until {waited}"));
            intent.frozen_until = Some(Instant::now() + self.settings.silence_max() * 2);
        }
        if let Ok(consensus) = self.consensus() {
            // It has ended otherwise.
            drop(consensus.resign(term).await);
        }
        self.refresh();
    }
}

/// Gives up the first entries of a log that does not begin with all data, so that nobody reads it from its beginning.
async fn give_up_first_entries(core: &Core, view: &View) {
    let (Some(applied), None) = (*core.applier.applied().borrow(), view.purged) else { return };
    if core.watch().borrow().writable
        && core.applier.rows().is_seeded().unwrap_or(false)
        && let Ok(consensus) = core.consensus()
    {
        // It is tried again.
        drop(consensus.purge(applied.index).await);
    }
}

/// Gives up entries that are applied and larger together than the settings keep.
async fn give_up_entries(core: &Core, view: &View) {
    // What the consensus calls applied may only be taken here: see the applier.
    let Some(applied) = *core.applier.applied().borrow() else { return };
    let kept_from = core.log.index_holding(core.settings.log_keep_bytes);
    let Some(before) = kept_from.and_then(|index| index.checked_sub(1)) else { return };
    let upto = before.min(applied.index);
    if view.purged.is_none_or(|purged| purged < upto)
        && let Ok(consensus) = core.consensus()
    {
        // It is tried again.
        drop(consensus.purge(upto).await);
    }
}

/// The member that is to take over from this primary, if there is one: it has a higher priority and has caught up.
fn wanted_more(core: &Core, view: &View) -> Option<u64> {
    core.watch().borrow().leading?;
    let priority = |identity: u64| view.peers.get(&identity).map(|(peer, _)| peer.member.priority_thousandths);
    let mine = priority(core.identity)?;
    let (best, _) = caught_up(core, view, 0).max_by_key(|(identity, _)| priority(*identity))?;
    (priority(best)? > mine && !view.joint).then_some(best)
}
