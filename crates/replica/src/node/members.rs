//! The members of a set: made, changed, and the primary's role handed over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use spinney::base::codec::{Decoder, Malformed};
use spinney_document::base::{Environment, System};
use tokio::time::{Instant, sleep, timeout};

use super::candidates::caught_up;
use super::core::Core;
use super::messages::{self, HELLO, INTRODUCE};
use crate::base::config::{Config, Member, Times};
use crate::base::error::{Error, Result};
use crate::entry::hello::{Hello, Program};
use crate::entry::introduction::{Introduced, Introduction};
use crate::raft::consensus::Consensus;
use crate::raft::types::Peer;
use crate::raft::view::State;

/// How long a member may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a new copy of the log may take to catch up before that is given up for the time being.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a member that is removed may take to hear of it.
const TELL_TIMEOUT: Duration = Duration::from_secs(1);

const MEMBERS_MAX: usize = 50;
const VOTERS_MAX: usize = 7;

/// How many entries a new member may lack when it gets its vote.
const LAG_MAX: u64 = 64;

impl Core {
    /// What another member says of itself.
    async fn ask_hello(&self, member: &Member) -> Result<Hello> {
        let unreachable = |error: &dyn std::fmt::Display| {
            Error::InvalidConfig(format!("member {} cannot be reached: {error}", member.host))
        };
        let message = messages::control(HELLO, &[]);
        let reply = self.caller.call(member, message, HELLO_TIMEOUT).await.map_err(|error| unreachable(&error))?;
        let program = Program::decode(&mut Decoder::new(&reply)).map_err(|_| Error::Malformed("a hello"))?;
        let refused = program.refused(&member.host);
        self.programs.lock().insert(member.id, program);
        if let Some(what) = refused {
            return Err(Error::InvalidConfig(what));
        }
        let hello = Hello::decode(&reply).map_err(|_| Error::Malformed("a hello"))?;
        if hello.set_name != self.settings.set_name {
            let (host, theirs, ours) = (&member.host, &hello.set_name, &self.settings.set_name);
            let what = format!("member {host} is of the replica set '{theirs}', not of '{ours}'");
            return Err(Error::InvalidConfig(what));
        }
        Ok(hello)
    }

    /// Tells a member of which set this one is, and hears whether this one is still a member of it.
    async fn introduce(&self, identity: u64, peer: &Peer, owed: u64) {
        let (host, set_id) = (self.settings.host.clone(), peer.set_id);
        let has_primary = self.watch().borrow().primary.is_some();
        let introduction =
            Introduction { identity: self.identity, expected: identity, host, set_id, has_primary, owed };
        let message = messages::control(INTRODUCE, &introduction.encode());
        // One that does not answer is told again.
        let Ok(reply) = self.caller.call(&peer.member, message, HELLO_TIMEOUT).await else { return };
        let Ok(reply) = Introduced::decode(&reply) else { return };
        let Ok(view) = self.consensus().map(Consensus::view) else { return };
        // A member that is being added may be told of members from before.
        let was_member = view.members_committed && view.peers.contains_key(&self.identity);
        if was_member && reply.set_id == set_id && !reply.is_member && view.members_at < Some(reply.members_at) {
            let why = "this member was removed from its replica set, or has been replaced: to have it in the set again, \
                       start it with an empty directory, and add it";
            self.exclude(why, true);
        }
    }

    /// Takes no part in the set any more; also after the next start, if `for_good`.
    fn exclude(&self, why: &str, for_good: bool) {
        if for_good {
            // It finds out again when this fails.
            self.applier.rows().set_removed(why).ok();
        }
        if self.membership.exclude(why.to_owned()) {
            self.refresh();
        }
    }

    /// Answers a member of a set that has this one's address for one of its own.
    pub(crate) fn answer_introduction(&self, introduction: &[u8]) -> Result<Vec<u8>> {
        let introduction =
            Introduction::decode(introduction).map_err(|Malformed| Error::Malformed("an introduction"))?;
        let Introduction { identity, expected, host, set_id, has_primary, owed } = introduction;
        let view = self.consensus()?.view();
        let own = view.current_peers().next().map(|(_, (peer, _))| peer.set_id);
        if own.is_none() {
            self.membership.name(host);
        } else if own != Some(set_id) {
            if has_primary {
                self.yield_to(&host)?;
            }
        } else if expected == self.identity && Some(owed) > view.last && !self.membership.owes(Some(owed)) {
            self.applier.rows().set_owed(owed)?;
            self.membership.owe(owed);
        }
        let members_at = view.members_at.filter(|_| view.members_committed).unwrap_or_default();
        let is_member = !view.members_committed || view.peers.contains_key(&identity);
        Ok(Introduced { set_id: own.unwrap_or_default(), members_at, is_member }.encode())
    }

    /// Refuses writes, as there is an older set with this member's address.
    fn yield_to(&self, host: &str) -> Result<()> {
        let what = format!(
            "there is another replica set with this name, of which {host} is a member, and which has the address of \
             this one: this one was founded later, without its files, and takes no writes. To go on with the other \
             one, stop this member and start it with an empty directory and --join"
        );
        if !self.membership.yields() {
            self.applier.rows().set_older_set(&what)?;
            self.membership.yield_to(what);
            self.refresh();
        }
        Ok(())
    }

    /// Looks whether another process answers at this member's address: a copy of its directory that runs elsewhere, or
    /// this one is that copy.
    async fn look_for_double(&self) {
        let Some(me) = self.config().and_then(|config| config.by_host(&self.settings.host).cloned()) else { return };
        let message = messages::control(HELLO, &[]);
        let Ok(reply) = self.caller.call(&me, message, HELLO_TIMEOUT).await else { return };
        let Ok(hello) = Hello::decode(&reply) else { return };
        if hello.identity == self.identity && hello.process != self.membership.process() {
            let why = "another process with a copy of this member's directory answers at its address: end one of them";
            self.exclude(why, false);
        }
    }

    /// Checks that the member may found a set.
    fn check_founding(&self) -> Result<()> {
        if self.membership.copied().is_some() {
            let what = "the database is a checkpoint of a member's: to begin a set with it, drop its table 'replica'";
            return Err(Error::InvalidConfig(what.to_owned()));
        }
        match self.membership.named() {
            Some(host) => Err(Error::InvalidConfig(format!(
                "{host} is a member of a replica set with this name that has the address of this one: it is filled as \
                 soon as that set has a primary"
            ))),
            None => Ok(()),
        }
    }

    /// Makes a set of the members: see [`Node::initiate`](crate::Node::initiate).
    pub(crate) async fn initiate(self: &Arc<Self>, members: Vec<Member>, times: Option<Times>) -> Result<()> {
        let _changing = self.changing.try_lock().map_err(|_| Error::ConfigInProgress)?;
        if self.config().is_some() {
            return Err(Error::AlreadyInitiated);
        }
        self.check_founding()?;
        check(&members)?;
        self.settings.clone().with_times(times).check()?;
        let me = members.iter().find(|member| member.host == self.settings.host).ok_or_else(|| {
            Error::InvalidConfig(format!("no member has the address of this one, {}", self.settings.host))
        })?;
        let others: Vec<&Member> = members.iter().filter(|member| member.id != me.id).collect();
        let hellos = join_all(others.iter().map(|member| self.ask_hello(member))).await;
        let random = System.random().to_be_bytes();
        let mut set_id = [0; 12];
        set_id[..8].copy_from_slice(&random);
        let peer = |member: &Member| Peer { member: member.clone(), version: 1, set_id, times };
        let mut peers = BTreeMap::from([(self.identity, peer(me))]);
        for (member, hello) in others.into_iter().zip(hellos) {
            let hello = hello?;
            if hello.initiated || hello.has_data || hello.copied {
                return Err(is_in_use(&member.host));
            }
            peers.insert(hello.identity, peer(member));
        }
        if peers.len() != members.len() {
            return Err(Error::InvalidConfig("two members are one process".to_owned()));
        }
        if peers.values().any(|peer| !peer.member.votes) {
            return Err(Error::InvalidConfig("all first members must vote; add the others later".to_owned()));
        }
        if !self.has_data() {
            self.consensus()?.initialize(peers).await?;
            self.refresh();
            return Ok(());
        }
        // The log alone does not make a copy of what is there already: the others get a copy of the database.
        self.applier.rows().set_seeded()?;
        let me = peers.iter().filter(|(identity, _)| **identity == self.identity);
        self.consensus()?.initialize(me.map(|(identity, peer)| (*identity, peer.clone())).collect()).await?;
        self.refresh();
        tokio::spawn(add_first_members(Arc::downgrade(self), peers));
        Ok(())
    }

    /// Whether its database has collections.
    pub(crate) fn has_data(&self) -> bool {
        self.has_data.get().is_some_and(|has_data| has_data())
    }

    /// Changes the members: see [`Node::change_members`](crate::Node::change_members).
    pub(crate) async fn change_members(&self, config: Config, deadline: Duration) -> Result<()> {
        let _changing = self.changing.try_lock().map_err(|_| Error::ConfigInProgress)?;
        timeout(deadline, self.change_members_now(config)).await.unwrap_or(Err(Error::TimedOut))
    }

    async fn change_members_now(&self, config: Config) -> Result<()> {
        check(&config.members)?;
        self.settings.clone().with_times(config.times).check()?;
        let consensus = self.consensus()?;
        let view = consensus.view();
        let old = self.config().ok_or(Error::NotInitiated)?;
        if self.watch().borrow().leading.is_none() {
            return Err(self.not_primary());
        }
        if config.version <= old.version {
            let what = format!("the version must be greater than {}, not {}", old.version, config.version);
            return Err(Error::InvalidConfig(what));
        }
        let known: BTreeMap<&str, u64> =
            view.peers.iter().map(|(identity, (peer, _))| (&*peer.member.host, *identity)).collect();
        check_change(&old, &config)?;
        let mut peers = BTreeMap::new();
        for member in &config.members {
            let (version, set_id, times) = (config.version, old.set_id, config.times);
            let peer = Peer { member: member.clone(), version, set_id, times };
            let identity = match known.get(&*member.host) {
                Some(identity) if *identity == self.identity => *identity,
                Some(identity) => match self.ask_hello(member).await {
                    Ok(hello) if takes_over(&hello, *identity, old.set_id) => hello.identity,
                    _ => *identity,
                },
                None => {
                    let hello = self.ask_hello(member).await?;
                    if hello.initiated || hello.has_data || hello.copied {
                        return Err(is_in_use(&member.host));
                    }
                    hello.identity
                }
            };
            peers.insert(identity, peer);
        }
        self.set_peers(peers).await
    }

    /// Makes members of peers, and removes those that are not among them.
    async fn set_peers(&self, peers: BTreeMap<u64, Peer>) -> Result<()> {
        let consensus = self.consensus()?;
        // A log that does not begin with all data must not be read from its beginning.
        let seeded = self.applier.rows().is_seeded()?;
        consensus.wait(|view| view.state != State::Leader || !seeded || view.purged.is_some()).await?;
        let view = consensus.view();
        for (identity, peer) in peers.iter().filter(|(identity, _)| !view.peers.contains_key(identity)) {
            consensus.add_learner(*identity, peer.clone()).await?;
        }
        let voters: BTreeSet<u64> =
            peers.iter().filter(|(_, peer)| peer.member.votes).map(|(identity, _)| *identity).collect();
        let votes = |id: &u64| view.peers.get(id).is_some_and(|(_, votes)| *votes);
        let new: Vec<u64> = voters.iter().copied().filter(|id| !votes(id)).collect();
        consensus
            .wait(|view| {
                let last = view.last.unwrap_or_default();
                let has = |id: &u64| view.matched.get(id).copied().flatten().is_some_and(|at| at + LAG_MAX >= last);
                view.state != State::Leader || new.iter().all(has)
            })
            .await?;
        let removed: BTreeSet<u64> = view.peers.keys().copied().filter(|id| !peers.contains_key(id)).collect();
        consensus.set_members(peers, voters).await?;
        if !removed.is_empty() {
            self.tell_removed(&removed).await;
            consensus.remove(removed).await?;
        }
        self.refresh();
        Ok(())
    }

    /// Waits until members that are removed know it: one is not told anything afterwards. One that is not there stays
    /// without a primary.
    async fn tell_removed(&self, removed: &BTreeSet<u64>) {
        let Ok(consensus) = self.consensus() else { return };
        let told = consensus.wait(|view| {
            let members_at = view.members_at.map(|at| at.index);
            let answers = |id: &u64| view.answered.get(id).copied().flatten().is_some_and(|age| age < TELL_TIMEOUT);
            let knows = |id: &u64| view.matched.get(id).copied().flatten() >= members_at;
            view.state != State::Leader || removed.iter().all(|id| knows(id) || !answers(id))
        });
        // It is removed all the same.
        drop(timeout(TELL_TIMEOUT, told).await);
    }

    /// Hands over: see [`Node::step_down`](crate::Node::step_down).
    pub(crate) async fn step_down(&self, period: Duration, catch_up: Duration, force: bool) -> Result<()> {
        if self.watch().borrow().leading.is_none() {
            return Err(self.not_primary());
        }
        let consensus = self.consensus()?;
        let begun = Instant::now();
        {
            let mut intent = self.intent.lock();
            intent.stepping_down = true;
            intent.frozen_until = Some(begun + period.max(self.settings.election_timeout));
        }
        self.refresh();
        let ready = consensus.wait(|view| view.state != State::Leader || caught_up(self, view, 0).next().is_some());
        let waited = timeout(catch_up, ready).await;
        let mut successor = caught_up(self, &consensus.view(), 0).max_by_key(|(_, matched)| *matched);
        if successor.is_none() && force {
            successor = caught_up(self, &consensus.view(), u64::MAX / 2).max_by_key(|(_, matched)| *matched);
        }
        match (successor, waited) {
            (Some((identity, _)), _) => {
                consensus.transfer(identity).await?;
                let gone = consensus.wait(|view| view.state != State::Leader);
                match timeout(self.settings.election_timeout * 4, gone).await {
                    Ok(gone) => drop(gone?),
                    Err(_) if force => {}
                    Err(_) => return Err(self.stay(Error::NoSuccessor)),
                }
            }
            (None, Ok(Err(error))) => return Err(error),
            (None, _) if force => {}
            (None, _) => return Err(self.stay(Error::NoSuccessor)),
        }
        self.refresh();
        Ok(())
    }

    /// Goes on as primary, as nobody could take over.
    fn stay(&self, error: Error) -> Error {
        {
            let mut intent = self.intent.lock();
            intent.stepping_down = false;
            intent.frozen_until = None;
        }
        self.refresh();
        error
    }

    /// Keeps from leading: see [`Node::freeze`](crate::Node::freeze).
    pub(crate) fn freeze(&self, period: Duration) {
        self.intent.lock().frozen_until = (!period.is_zero()).then(|| Instant::now() + period);
    }

    /// Ends: a primary hands over first.
    pub(crate) async fn end(self: &Arc<Self>, within: Duration) {
        let Ok(consensus) = self.consensus().cloned() else { return };
        if self.watch().borrow().leading.is_some() && consensus.view().peers.len() > 1 {
            // Nobody may be there to take over.
            drop(timeout(within, self.step_down(within, within / 2, false)).await);
        }
        consensus.end().await;
        self.refresh();
    }
}

/// Gives members the place of those whose files are gone: a new copy of the log answers at the address of one that does
/// not, and has neither data nor a configuration.
pub(crate) async fn replace_lost_copies(core: Arc<Core>) {
    let Ok(consensus) = core.consensus() else { return };
    let Ok(_replacing) = core.replacing.try_lock() else { return };
    let view = consensus.view();
    let answers = |identity: &u64| {
        let age = view.answered.get(identity).copied().flatten();
        *identity == core.identity || age.is_some_and(|age| age < core.settings.election_timeout)
    };
    let mut peers: BTreeMap<u64, Peer> = view.peers.iter().map(|(id, (peer, _))| (*id, peer.clone())).collect();
    let silent: Vec<u64> = peers.keys().copied().filter(|identity| !answers(identity)).collect();
    let mut replaced = false;
    let Some(set_id) = core.config().map(|config| config.set_id) else { return };
    for identity in silent {
        let Some(peer) = peers.get(&identity).cloned() else { continue };
        // It founds no set of its own meanwhile.
        core.introduce(identity, &peer, 0).await;
        match core.ask_hello(&peer.member).await {
            Ok(hello) if takes_over(&hello, identity, set_id) => {
                peers.remove(&identity);
                peers.insert(hello.identity, peer);
                replaced = true;
            }
            _ => {}
        }
    }
    if !replaced {
        return;
    }
    let Ok(_changing) = core.changing.try_lock() else { return };
    if consensus.view().members_at == view.members_at {
        // It is tried again when it fails.
        drop(timeout(REPLACE_TIMEOUT, core.set_peers(peers)).await);
    }
}

/// Whether what says a hello at the address of a member is that member without its files: a new copy of the log, with
/// no data but those of a checkpoint of a member of this set.
fn takes_over(hello: &Hello, identity: u64, set_id: [u8; 12]) -> bool {
    let is_empty = if hello.copied { hello.set_id == set_id } else { !hello.has_data };
    hello.identity != identity && !hello.initiated && is_empty
}

/// What is wrong with what says a hello at the address of a member, if anything is.
fn problem_of(hello: &Hello, identity: u64, peer: &Peer) -> Option<String> {
    let host = &peer.member.host;
    let is_known = hello.set_id != [0; 12];
    if is_known && hello.set_id != peer.set_id {
        return Some(format!(
            "{host} is a member of another replica set with the same name: to have it in this one, start it with an \
             empty directory"
        ));
    }
    (hello.identity != identity && hello.initiated).then(|| {
        format!("{host} does not have the directory of this member: start it with its own directory, or an empty one")
    })
}

/// Meets the other members: hears which programs they run, and whether they are the members that this one takes them
/// for; and tells them of which set it is.
pub(crate) async fn meet_others(core: Arc<Core>) {
    let Ok(_one) = core.membership.asking.try_lock() else { return };
    let Ok(consensus) = core.consensus() else { return };
    let (view, core) = (consensus.view(), &core);
    let others = view.current_peers().filter(|(identity, _)| **identity != core.identity);
    let met = others.map(|(identity, (peer, _))| async move {
        // One that does not answer is asked again.
        let problem = match core.ask_hello(&peer.member).await {
            Ok(hello) => problem_of(&hello, *identity, peer),
            // Its program is told of elsewhere.
            Err(_) => None,
        };
        core.membership.set_problem(peer.member.id, problem);
        core.introduce(*identity, peer, 0).await;
    });
    join_all(met).await;
    core.look_for_double().await;
}

/// Tells members that have lost a part of the log that they had acknowledged, to get it again before they vote.
pub(crate) async fn tell_what_is_owed(core: Arc<Core>, owed: BTreeMap<u64, u64>) {
    let Ok(_one) = core.membership.telling.try_lock() else { return };
    let Ok(consensus) = core.consensus() else { return };
    let view = consensus.view();
    let told = owed.iter().filter_map(|(identity, index)| {
        let (peer, _) = view.peers.get(identity)?;
        Some(core.introduce(*identity, peer, *index))
    });
    join_all(told).await;
}

/// The error for a process that is to join and cannot.
fn is_in_use(host: &str) -> Error {
    Error::InvalidConfig(format!("member {host} has data or a configuration already: start it with an empty directory"))
}

/// Adds the other first members of a set that begins with data.
async fn add_first_members(core: Weak<Core>, peers: BTreeMap<u64, Peer>) {
    loop {
        let Some(core) = core.upgrade() else { return };
        let mut standing = core.watch();
        if standing.wait_for(|standing| standing.writable).await.is_err() {
            return;
        }
        let changing = core.changing.lock().await;
        match core.set_peers(peers.clone()).await {
            Ok(()) | Err(Error::Ended(_) | Error::InvalidConfig(_)) => return,
            // It is tried again, when it is primary again.
            Err(_) => drop(changing),
        }
        sleep(core.settings.election_timeout).await;
    }
}

/// Checks members by themselves.
fn check(members: &[Member]) -> Result<()> {
    let refuse = |what: String| Err(Error::InvalidConfig(what));
    let voters = members.iter().filter(|member| member.votes).count();
    if members.is_empty() || members.len() > MEMBERS_MAX {
        return refuse(format!("a replica set has 1 to {MEMBERS_MAX} members, not {}", members.len()));
    }
    if voters == 0 || voters > VOTERS_MAX {
        return refuse(format!("a replica set has 1 to {VOTERS_MAX} members that vote, not {voters}"));
    }
    if !members.iter().any(|member| member.votes && member.priority_thousandths > 0) {
        return refuse("no member may become primary".to_owned());
    }
    for (at, member) in members.iter().enumerate() {
        if members[..at].iter().any(|other| other.id == member.id || other.host == member.host) {
            return refuse(format!("two members have the id {} or the address {}", member.id, member.host));
        }
        if member.priority_thousandths > 1_000_000 {
            return refuse(format!("the priority of member {} is above 1000", member.host));
        }
        if member.priority_thousandths > 0 && (!member.votes || member.hidden) {
            return refuse(format!(
                "the priority of member {} must be 0, as it is hidden or does not vote",
                member.host
            ));
        }
    }
    Ok(())
}

/// Checks that members may follow on others.
fn check_change(old: &Config, new: &Config) -> Result<()> {
    for member in &new.members {
        let same = old.members.iter().find(|other| other.id == member.id || other.host == member.host);
        if let Some(other) = same.filter(|other| other.id != member.id || other.host != member.host) {
            let what = format!("id {} and address {} belong to different members", member.id, other.host);
            return Err(Error::InvalidConfig(what));
        }
    }
    let voters = |config: &Config| -> BTreeSet<u64> {
        config.members.iter().filter(|member| member.votes).map(|member| member.id).collect()
    };
    if voters(old).symmetric_difference(&voters(new)).count() > 1 {
        let what = "at most one member that votes may be added or removed at a time";
        return Err(Error::InvalidConfig(what.to_owned()));
    }
    Ok(())
}
