//! A member of a replica set, for callers in the runtime.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::copy_grant::CopyGrant;
use super::membership::Membership;
use super::receiving::Receiving;
use crate::base::caller::Caller;
use crate::base::config::Config;
use crate::base::error::{Error, Result};
use crate::base::settings::Settings;
use crate::base::status::{MemberStatus, Role, Stalled, Status};
use crate::base::watched;
use crate::entry::hello::Program;
use crate::raft::consensus::{Consensus, Fate, Outcome};
use crate::raft::network::SendCopy;
use crate::raft::types::Peer;
use crate::raft::view::{State, View};
use crate::storage::applier::Applier;
use crate::storage::log::{Damage, Log};

/// What other threads wait for a change of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Grows with every change of the others.
    pub(crate) change: u64,
    pub(crate) role: Role,
    pub(crate) term: u64,
    /// The identity of the primary.
    pub(crate) primary: Option<u64>,
    /// The term in which this node leads, with a majority that answers, and takes writes or prepares to.
    pub(crate) leading: Option<u64>,
    /// Whether it takes writes.
    pub(crate) writable: bool,
    /// The index of the configuration, and whether a majority has it.
    pub(crate) config: (Option<u64>, bool),
    /// A copy of the primary's database is complete.
    pub(crate) copy_received: bool,
}

/// What is decided here about leading.
#[derive(Debug, Default)]
pub(crate) struct Intent {
    /// It does not become primary before.
    pub(crate) frozen_until: Option<Instant>,
    /// It hands over, and takes no new writes.
    pub(crate) stepping_down: bool,
    /// The term in which writes may begin: what was written before is applied, and what earlier primaries left is
    /// cleaned up. Forgotten when a majority answers no more, as callers may then send again what was proposed.
    pub(crate) prepared_term: Option<u64>,
    /// Whether that is being done.
    pub(crate) preparing: bool,
    /// Until what it waits before it takes writes.
    pub(crate) preparation: String,
    /// Why it left the lead to another member, the last time that it did.
    pub(crate) given_up: Option<String>,
    /// How often the node was seen not to lead: what was begun before such a time does not count.
    pub(crate) interruptions: u64,
    /// A copy of the primary's database is complete, or the copy for which the consensus was ended did not come.
    pub(crate) copy_received: bool,
    /// When a step of the copy came for which the consensus was ended, or that was asked for.
    pub(crate) copy_heard: Option<Instant>,
    /// Why there is no copy for a member whose data disagrees.
    pub(crate) denied_copy: Option<String>,
    /// Whether all is applied that was committed before the open, or before a primary was first heard of.
    pub(crate) recovered: bool,
}

/// Called in a thread that may block when this node begins to lead, before others write.
pub(crate) type OnLead = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// A member of a replica set. Shared by all who use it.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) identity: u64,
    pub(crate) log: Log,
    pub(crate) applier: Applier,
    pub(crate) caller: Arc<dyn Caller>,
    consensus: OnceLock<Consensus>,
    pub(crate) intent: Mutex<Intent>,
    standing: watched::Sender<Standing>,
    pub(crate) elections: AtomicU64,
    pub(crate) on_lead: OnceLock<OnLead>,
    /// Whether the database has collections.
    pub(crate) has_data: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// The copy that is received, and the place of the last entry that it has at the least.
    pub(crate) incoming: Mutex<Option<Receiving>>,
    /// The programs of other members by their ids, as they told last.
    pub(crate) programs: Mutex<BTreeMap<u64, Program>>,
    /// What it found out about its part in the set, and about the others.
    pub(crate) membership: Membership,
    /// When the primary was heard last.
    heard: Mutex<Option<Instant>>,
    /// Held while it is found out whose files are gone.
    pub(crate) replacing: tokio::sync::Mutex<()>,
    /// Held while the members are changed.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// What sends copies of this node's database, when it runs.
    pub(crate) copies: OnceLock<Arc<dyn SendCopy>>,
    /// Which member whose data disagrees gets a copy from here.
    pub(crate) copy_grant: Mutex<CopyGrant>,
    /// Held while this node asks for a copy.
    pub(crate) resyncing: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("host", &self.settings.host)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(settings: Settings, identity: u64, log: Log, applier: Applier, caller: Arc<dyn Caller>) -> Self {
        let standing = Standing {
            change: 1,
            role: Role::Uninitiated,
            term: 0,
            primary: None,
            leading: None,
            writable: false,
            config: (None, false),
            copy_received: false,
        };
        Self {
            settings,
            identity,
            log,
            applier,
            caller,
            consensus: OnceLock::new(),
            intent: Mutex::default(),
            standing: watched::Sender::new(standing),
            elections: AtomicU64::new(0),
            on_lead: OnceLock::new(),
            has_data: OnceLock::new(),
            incoming: Mutex::default(),
            programs: Mutex::default(),
            membership: Membership::default(),
            heard: Mutex::default(),
            replacing: tokio::sync::Mutex::new(()),
            changing: tokio::sync::Mutex::new(()),
            copies: OnceLock::new(),
            copy_grant: Mutex::default(),
            resyncing: tokio::sync::Mutex::new(()),
        }
    }

    /// Takes the consensus that it has from now on.
    ///
    /// # Errors
    /// `Ended` when it has one.
    pub(crate) fn begin(&self, consensus: Consensus) -> Result<()> {
        self.consensus.set(consensus).map_err(|_| Error::Ended("it runs already".to_owned()))
    }

    /// The consensus.
    pub(crate) fn consensus(&self) -> Result<&Consensus> {
        self.consensus.get().ok_or_else(|| Error::Ended("it does not run".to_owned()))
    }

    /// What others wait for a change of.
    pub(crate) fn watch(&self) -> watched::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Looks at the consensus, and tells those that wait when something changed.
    pub(crate) fn refresh(&self) {
        let Ok(consensus) = self.consensus() else { return };
        // Held until others see it, so that an older view does not follow a newer one.
        let mut intent = self.intent.lock();
        let view = consensus.view();
        let leading = self.leads(&view).then_some(view.term);
        if leading.is_none() {
            intent.prepared_term = None;
            intent.interruptions += 1;
        }
        let new = self.standing_of(&view, &intent, leading);
        self.standing.send_if_modified(|old| {
            let new = Standing { change: old.change, ..new };
            if *old == new {
                return false;
            }
            if new.role == Role::Candidate && old.role != Role::Candidate {
                // Relaxed: a counter that is only shown.
                self.elections.fetch_add(1, Ordering::Relaxed);
            }
            *old = Standing { change: old.change + 1, ..new };
            true
        });
    }

    fn standing_of(&self, view: &View, intent: &Intent, leading: Option<u64>) -> Standing {
        let disagrees = self.disagrees();
        let writable = leading.is_some()
            && leading == intent.prepared_term
            && !intent.stepping_down
            && !disagrees
            && !self.membership.yields();
        let role = match view.state {
            _ if self.membership.is_excluded() => Role::Removed,
            _ if intent.copy_heard.is_some() || self.log.damage().is_some() => Role::Recovering,
            _ if view.failure.is_some() || view.state == State::Ended => Role::Failed,
            _ if view.peers.is_empty() => Role::Uninitiated,
            _ if !view.current_peers().any(|(identity, _)| *identity == self.identity) => Role::Removed,
            _ if leading.is_some() => Role::Primary,
            State::Candidate => Role::Candidate,
            _ if !intent.recovered || disagrees => Role::Recovering,
            _ => Role::Secondary,
        };
        let primary = match view.leader {
            Some(me) if me == self.identity => leading.and(view.leader),
            leader => leader.filter(|_| role != Role::Removed && self.hears_of_primary()),
        };
        Standing {
            change: 0,
            role,
            term: view.term,
            primary,
            leading,
            writable,
            config: (view.members_at.map(|at| at.index), view.members_committed),
            copy_received: intent.copy_received,
        }
    }

    /// Whether what this member has disagrees with the log.
    pub(crate) fn disagrees(&self) -> bool {
        self.applier.disagrees() || self.log.damage().is_some()
    }

    /// Whether this member cannot write or apply entries now: another one is to lead.
    pub(crate) fn is_stuck(&self) -> bool {
        self.applier.stall().is_some() || self.log.lacks().is_some() || self.log.damage().is_some()
    }

    /// Takes note that the primary was heard.
    pub(crate) fn hear(&self) {
        *self.heard.lock() = Some(Instant::now());
    }

    /// Whether the primary was heard lately.
    fn hears_of_primary(&self) -> bool {
        self.heard.lock().is_some_and(|heard| heard.elapsed() < self.settings.election_timeout * 4)
    }

    /// Whether this node leads, and a majority has answered lately.
    fn leads(&self, view: &View) -> bool {
        view.state == State::Leader && view.failure.is_none() && view.silence() < self.settings.silence_max()
    }

    /// Proposes an entry in a term in which this node leads.
    ///
    /// # Errors
    /// `NotPrimary` when it is in no log; `Interrupted` when its fate is not known, and this node leads no more;
    /// `Ended`.
    pub(crate) async fn propose(&self, term: u64, payload: Vec<u8>) -> Result<()> {
        let mut fate = self.consensus()?.propose(term, payload).await?;
        let outcome = self.while_leading(term, &mut fate).await;
        self.told(outcome.unwrap_or(Outcome::Unknown))
    }

    /// Waits for the fate of a proposal for as long as this node leads in the term.
    pub(crate) async fn while_leading(&self, term: u64, fate: &mut Fate) -> Option<Outcome> {
        let mut standing = self.watch();
        tokio::select! {
            biased;
            outcome = fate => Some(outcome),
            _ = standing.wait_for(|standing| standing.leading != Some(term)) => None,
        }
    }

    /// What those are told who proposed.
    ///
    /// # Errors
    /// As [`Self::propose`].
    pub(crate) fn told(&self, outcome: Outcome) -> Result<()> {
        match outcome {
            Outcome::Applied => Ok(()),
            Outcome::Refused => Err(self.not_primary()),
            Outcome::Unknown => Err(Error::Interrupted),
        }
    }

    /// The error of a node that is not primary.
    pub(crate) fn not_primary(&self) -> Error {
        Error::NotPrimary(self.status().primary_host().map(str::to_owned))
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> Option<Config> {
        config_of(&self.consensus().ok()?.view())
    }

    /// What the node is and knows now.
    pub(crate) fn status(&self) -> Status {
        let standing = self.standing.borrow().clone();
        let Ok(consensus) = self.consensus() else { return Status::uninitiated() };
        let view = consensus.view();
        // The consensus hears of it a moment later.
        let applied = *self.applier.applied().borrow();
        let id_of = |identity: u64| {
            view.current_peers().find(|(known, _)| **known == identity).map(|(_, (peer, _))| peer.member.id)
        };
        let members = self.members_of(&view);
        Status {
            change: standing.change,
            term: view.term,
            role: standing.role,
            writable: standing.writable,
            me: id_of(self.identity),
            primary: standing.primary.and_then(id_of),
            config: config_of(&view),
            config_committed: view.members_committed,
            last: view.last.unwrap_or_default(),
            committed: view.committed.unwrap_or_default(),
            applied: applied.map_or(0, |applied| applied.index),
            applied_term: applied.map_or(0, |applied| applied.term),
            first: view.purged.map_or(0, |purged| purged + 1),
            log_bytes: self.log.held_bytes(),
            // Relaxed: a counter that is only shown.
            elections: self.elections.load(Ordering::Relaxed),
            members,
            copy_received: standing.copy_received,
            times_changed: self.times_changed(&view),
            stalled: self.stalled(&view),
            apply_failures: self.applier.failures(),
            given_up: self.intent.lock().given_up.clone(),
            problem: self.membership.problem(),
            failure: view.failure,
        }
    }
}

impl Core {
    fn times_changed(&self, view: &View) -> bool {
        view.members_committed && config_of(view).is_some_and(|config| config.times != self.settings.times)
    }

    fn stalled(&self, view: &View) -> Option<Stalled> {
        let denied = || self.intent.lock().denied_copy.clone();
        if let Some(Damage { at, why }) = self.log.damage() {
            return Some(Stalled { index: at.index, why, needs_copy: true, denied: denied() });
        }
        if let Some(stall) = self.applier.stall() {
            let denied = denied();
            return Some(Stalled { index: stall.at.index, why: stall.why, needs_copy: stall.needs_copy, denied });
        }
        let index = view.last.unwrap_or_default();
        self.log.lacks().map(|why| Stalled { index, why, needs_copy: false, denied: None })
    }

    fn members_of(&self, view: &View) -> Vec<MemberStatus> {
        let programs = self.programs.lock();
        let member = |(identity, (peer, _)): (&u64, &(Peer, bool))| {
            let id = peer.member.id;
            let program = if *identity == self.identity { Some(Program::this()) } else { programs.get(&id).cloned() };
            MemberStatus {
                id,
                matched: view.matched.get(identity).copied().flatten(),
                last_contact: view.answered.get(identity).copied().flatten(),
                refused: program
                    .as_ref()
                    .and_then(|program| program.refused(&peer.member.host))
                    .or_else(|| self.membership.problem_of(id)),
                program: program.map(|program| (program.version, program.format)),
            }
        };
        let mut members: Vec<MemberStatus> = view.current_peers().map(member).collect();
        members.sort_by_key(|member| member.id);
        members
    }
}

/// The configuration that a view shows.
pub(crate) fn config_of(view: &View) -> Option<Config> {
    let by_id: BTreeMap<u64, _> = view.current_peers().map(|(_, (peer, _))| (peer.member.id, peer)).collect();
    let newest = by_id.values().max_by_key(|peer| peer.version)?;
    let Peer { version, set_id, times, .. } = **newest;
    Some(Config { version, set_id, times, members: by_id.into_values().map(|peer| peer.member.clone()).collect() })
}
