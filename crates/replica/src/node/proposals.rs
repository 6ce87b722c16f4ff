//! Commits on their way into the replicated log.
//!
//! A commit that finds few entries under way is proposed at once. What comes while they are under way waits, and is
//! proposed together in one entry: one message to each member and one sync there, as the redo log gathers commits while
//! it syncs.
//!
//! # Concurrency
//! The threads that commit add to the last group under a latch; tasks of the runtime take the first one.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::core::Core;
use crate::base::error::{Error, Result};
use crate::entry::change::{COMMITS_MAX, CommitsBuilder};

/// How many entries with commits are under way at a time: the next one is sent while the devices sync one.
const ENTRIES_MAX: usize = 2;

/// Bytes of records in one entry, at the most; a larger record goes alone.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Hears what becomes of a commit that was proposed.
pub(crate) type Told = oneshot::Receiver<Result<()>>;

/// A prepared commit.
#[derive(Debug)]
pub(crate) struct Proposed {
    /// The term in which it was prepared.
    pub(crate) term: u64,
    /// A number that no other one of this member has.
    pub(crate) number: u64,
    /// The ids that the record uses, with the names of the tables.
    pub(crate) tables: Vec<(u32, String)>,
    pub(crate) record: Vec<u8>,
}

/// The commits that wait, and how many entries are under way.
#[derive(Debug, Default)]
pub(crate) struct Proposals {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: VecDeque<Group>,
    entries: usize,
}

/// Commits of one term that become one entry.
#[derive(Debug)]
struct Group {
    term: u64,
    commits: CommitsBuilder,
    told: Vec<oneshot::Sender<Result<()>>>,
}

impl Group {
    fn takes(&self, commit: &Proposed) -> bool {
        self.term == commit.term
            && self.told.len() < COMMITS_MAX
            && self.commits.bytes() + commit.record.len() <= ENTRY_BYTES_MAX
    }
}

impl Proposals {
    /// Has a commit proposed in its term, by a task of the runtime. The receiver hears what [`Core::propose`] says, and
    /// nothing when the node ends before.
    pub(crate) fn add(self: &Arc<Self>, core: &Arc<Core>, runtime: &Handle, commit: &Proposed) -> Told {
        let (sender, told) = oneshot::channel();
        let mut state = self.state.lock();
        if !state.groups.back().is_some_and(|group| group.takes(commit)) {
            let commits = CommitsBuilder::new(core.identity);
            state.groups.push_back(Group { term: commit.term, commits, told: Vec::new() });
        }
        if let Some(group) = state.groups.back_mut() {
            group.commits.push(commit.number, &commit.tables, &commit.record);
            group.told.push(sender);
        }
        if state.entries < ENTRIES_MAX {
            state.entries += 1;
            runtime.spawn(Arc::clone(self).propose_waiting(Arc::clone(core)));
        }
        told
    }

    /// Proposes groups until none waits.
    async fn propose_waiting(self: Arc<Self>, core: Arc<Core>) {
        while let Some(group) = self.next() {
            let proposed = core.propose(group.term, group.commits.finish()).await;
            for told in group.told {
                // The thread may have heard of it by the one that applied it.
                drop(told.send(match &proposed {
                    Ok(()) => Ok(()),
                    Err(Error::NotPrimary(host)) => Err(Error::NotPrimary(host.clone())),
                    Err(Error::Interrupted) => Err(Error::Interrupted),
                    Err(error) => Err(Error::Ended(error.to_string())),
                }));
            }
        }
    }

    /// Takes the first group; when there is none, one entry less is under way.
    fn next(&self) -> Option<Group> {
        let mut state = self.state.lock();
        let group = state.groups.pop_front();
        if group.is_none() {
            state.entries -= 1;
        }
        group
    }
}
