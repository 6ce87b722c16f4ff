//! Commits on their way into the replicated log.
//!
//! A commit that finds no entry under way is proposed at once. What comes while one is under way waits, and is proposed
//! together in one entry: one message to each member and one sync there, as the redo log gathers commits while it
//! syncs. A second entry goes on its way when it has as many commits as the first, and half as many as entries had
//! lately: the devices sync the one while the other is sent, and entries are as large as the number of clients lets
//! them be.
//!
//! # Concurrency
//! The threads that commit add to the last group under a latch, within which that of the pending commits is taken.
//! Tasks of the runtime take the first group, each in its turn, which ends when the group has its place in the log: the
//! times that commits get under the latch are in the order of the log.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use spinney::TableId;
use spinney_document::PreparedCommit;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::core::Core;
use super::pending::PendingCommits;
use crate::base::error::{Error, Result};
use crate::entry::change::{COMMITS_MAX, CommitsBuilder};
use crate::raft::consensus::Outcome;

/// How many entries with commits are under way at a time, at the most.
const ENTRIES_MAX: usize = 2;

/// Bytes of records in one entry, at the most; a larger record goes alone.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Hears what becomes of a commit that was proposed.
pub(crate) type Told = oneshot::Receiver<Result<()>>;

/// A prepared commit.
#[derive(Debug)]
pub(crate) struct Proposed<H> {
    /// The term in which it was prepared.
    pub(crate) term: u64,
    /// A number that no other one of this member has.
    pub(crate) number: u64,
    pub(crate) commit: H,
}

/// What a commit that was prepared says of itself.
pub(crate) trait Recorded {
    /// Its changes and its note.
    fn record(&self) -> &[u8];

    /// Gives it its time: it has its place among the commits of its primary.
    fn stamp(&mut self);

    /// The ids that the record uses, with the names of the tables.
    fn tables(&self) -> impl Iterator<Item = (TableId, &str)>;
}

impl Recorded for PreparedCommit {
    fn record(&self) -> &[u8] {
        self.record()
    }

    fn stamp(&mut self) {
        self.stamp();
    }

    fn tables(&self) -> impl Iterator<Item = (TableId, &str)> {
        self.tables()
    }
}

/// The commits that wait, and those that are under way.
#[derive(Debug)]
pub(crate) struct Proposals<H> {
    /// All whose fate is not known yet.
    pending: Arc<PendingCommits<H>>,
    state: Mutex<State>,
    /// Whose turn it is to take a group and to propose it.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    groups: VecDeque<Group>,
    /// Tasks that propose, one entry each.
    entries: usize,
    /// The commits of these entries. None when the first task has not begun.
    under_way: usize,
    /// The commits of the largest of the newest entries; an older one counts for less.
    lately: usize,
}

impl State {
    /// Whether the first group may be proposed while so many other entries are under way.
    fn may_propose(&self, others: usize) -> bool {
        let least = self.under_way.max(self.lately / 2);
        let enough = |group: &Group| self.under_way > 0 && group.told.len() >= least;
        others == 0 || (others < ENTRIES_MAX && self.groups.front().is_some_and(enough))
    }

    /// An entry with so many commits is under way no more.
    fn end(&mut self, commits: usize) {
        self.under_way -= commits;
        self.lately = commits.max(self.lately - self.lately.div_ceil(4));
    }
}

/// Commits of one term that become one entry.
#[derive(Debug)]
struct Group {
    term: u64,
    commits: CommitsBuilder,
    numbers: Vec<u64>,
    told: Vec<oneshot::Sender<Result<()>>>,
}

impl Group {
    fn takes(&self, commit: &Proposed<impl Recorded>) -> bool {
        self.term == commit.term
            && self.told.len() < COMMITS_MAX
            && self.commits.bytes() + commit.commit.record().len() <= ENTRY_BYTES_MAX
    }
}

impl<H: Recorded + Send + 'static> Proposals<H> {
    /// None yet, of which `pending` has those whose fate is not known.
    pub(crate) fn new(pending: Arc<PendingCommits<H>>) -> Self {
        Self { pending, state: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// How many commits wait or are under way.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        let state = self.state.lock();
        state.groups.iter().map(|group| group.told.len()).sum::<usize>() + state.under_way
    }

    /// Has a commit proposed in its term, by a task of the runtime, and adds it before to those that are pending, of
    /// which it is taken when it is refused. The first receiver hears what [`Core::propose`] says, and nothing when the
    /// node ends before; the second one is that of [`PendingCommits::add`].
    pub(crate) fn add(
        self: &Arc<Self>,
        core: &Arc<Core>,
        runtime: &Handle,
        mut commit: Proposed<H>,
    ) -> (Told, oneshot::Receiver<()>) {
        let (sender, told) = oneshot::channel();
        let mut state = self.state.lock();
        commit.commit.stamp();
        if !state.groups.back().is_some_and(|group| group.takes(&commit)) {
            let commits = CommitsBuilder::new(core.identity);
            state.groups.push_back(Group { term: commit.term, commits, numbers: Vec::new(), told: Vec::new() });
        }
        if let Some(group) = state.groups.back_mut() {
            let tables = commit.commit.tables().map(|(id, name)| (id.0, name));
            group.commits.push(commit.number, tables, commit.commit.record());
            group.numbers.push(commit.number);
            group.told.push(sender);
        }
        // No task takes the group before the latch is free.
        let fate = self.pending.add(commit.number, commit.term, commit.commit);
        if state.may_propose(state.entries) {
            state.entries += 1;
            runtime.spawn(Arc::clone(self).propose_waiting(Arc::clone(core)));
        }
        (told, fate)
    }

    /// Proposes groups until none waits.
    async fn propose_waiting(self: Arc<Self>, core: Arc<Core>) {
        loop {
            let turn = self.turn.lock().await;
            let Some(group) = self.next() else { return };
            let Group { term, commits, numbers, told } = group;
            let proposed = self.propose(&core, term, commits.finish(), turn, &numbers).await;
            self.state.lock().end(told.len());
            for told in told {
                // The thread may have heard of it by the one that applied it.
                drop(told.send(match &proposed {
                    Ok(()) => Ok(()),
                    Err(Error::NotPrimary(host)) => Err(Error::NotPrimary(host.clone())),
                    Err(Error::Interrupted) => Err(Error::Interrupted),
                    Err(error) => Err(Error::Ended(error.to_string())),
                }));
            }
            if matches!(proposed, Err(Error::NotPrimary(_))) {
                self.pending.forget(&numbers);
            }
        }
    }

    /// Proposes an entry with the commits of some numbers, and drops `turn` when it has its place in the log. Callers
    /// need not wait for its fate when this node leads no more; that is looked at to its end all the same, so that what
    /// is refused keeps no locks.
    async fn propose<T>(
        self: &Arc<Self>,
        core: &Core,
        term: u64,
        entry: Vec<u8>,
        turn: T,
        numbers: &[u64],
    ) -> Result<()> {
        let mut fate = core.consensus()?.propose(term, entry).await?;
        drop(turn);
        if let Some(outcome) = core.while_leading(term, &mut fate).await {
            return core.told(outcome);
        }
        let (proposals, numbers) = (Arc::clone(self), numbers.to_vec());
        tokio::spawn(async move {
            if fate.await == Outcome::Refused {
                proposals.pending.forget(&numbers);
            }
        });
        Err(Error::Interrupted)
    }

    /// Takes the first group, unless it waits for more commits; then one task less proposes.
    fn next(&self) -> Option<Group> {
        let mut state = self.state.lock();
        let others = state.entries - 1;
        match if state.may_propose(others) { state.groups.pop_front() } else { None } {
            Some(group) => {
                state.under_way += group.told.len();
                Some(group)
            }
            None => {
                state.entries = others;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_entry_has_as_many_commits_as_those_before_and_a_third_one_waits() {
        let group = |commits: usize| Group {
            term: 1,
            commits: CommitsBuilder::new(1),
            numbers: Vec::new(),
            told: (0..commits).map(|_| oneshot::channel().0).collect(),
        };
        let state =
            |waiting: usize, under_way| State { groups: [group(waiting)].into(), under_way, ..State::default() };
        assert!(state(1, 0).may_propose(0) && State::default().may_propose(0));
        assert!(state(5, 5).may_propose(1));
        assert!(!state(4, 5).may_propose(1));
        assert!(!state(5, 0).may_propose(1), "the first task takes it");
        assert!(!state(9, 5).may_propose(ENTRIES_MAX));
        let mut after_many = state(5, 25);
        after_many.end(20);
        assert!(!after_many.may_propose(1), "more are expected, as there were lately");
        for _ in 0..5 {
            after_many.under_way += 1;
            after_many.end(1);
        }
        assert!(after_many.may_propose(1));
    }
}
