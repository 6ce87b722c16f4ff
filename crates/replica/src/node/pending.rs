//! Commits that were prepared and proposed here, and wait to be applied.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::storage::applier::Waiter;

/// Commits by the numbers of their proposals, with what keeps their locks.
///
/// # Invariants
/// 1. A commit stays until it is applied, or is certainly lost: it was refused, so that it is in no log; or an entry of
///    a later term was applied, so that no other entry of its term can follow.
#[derive(Debug)]
pub(crate) struct PendingCommits<H> {
    commits: Mutex<BTreeMap<u64, Pending<H>>>,
}

#[derive(Debug)]
struct Pending<H> {
    term: u64,
    held: H,
    /// Told when it is applied, and dropped when it is lost.
    applied: Waiter,
}

impl<H> Default for PendingCommits<H> {
    fn default() -> Self {
        Self { commits: Mutex::default() }
    }
}

impl<H> PendingCommits<H> {
    /// Keeps a commit that is about to be proposed in a term. The receiver is told when it is applied, and fails when
    /// it is lost.
    pub(crate) fn add(&self, number: u64, term: u64, held: H) -> oneshot::Receiver<()> {
        let (applied, told) = oneshot::channel();
        self.commits.lock().insert(number, Pending { term, held, applied });
        told
    }

    /// Lets commits go that are lost.
    pub(crate) fn forget(&self, numbers: &[u64]) {
        let lost: Vec<_> = {
            let mut commits = self.commits.lock();
            numbers.iter().filter_map(|number| commits.remove(number)).collect()
        };
        // Locks are released without the latch.
        drop(lost);
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.commits.lock().len()
    }

    /// Has a commit applied by `apply`, which takes what is held of it; gives what is to be told afterwards. One that
    /// could not be applied is held on, so that nothing is built on what it was to change.
    ///
    /// # Errors
    /// Those of `apply`.
    pub(crate) fn apply<E>(
        &self,
        number: u64,
        apply: impl FnOnce(&mut Option<H>) -> Result<(), E>,
    ) -> Result<Option<Waiter>, E> {
        let Some(Pending { term, held, applied }) = self.commits.lock().remove(&number) else {
            return apply(&mut None).map(|()| None);
        };
        let mut held = Some(held);
        match (apply(&mut held), held) {
            (Err(error), Some(held)) => {
                self.commits.lock().insert(number, Pending { term, held, applied });
                Err(error)
            }
            (done, _) => done.map(|()| Some(applied)),
        }
    }

    /// Lets those go that were proposed in terms before `term`: they are lost.
    pub(crate) fn settle(&self, term: u64) {
        let lost: Vec<_> = {
            let mut commits = self.commits.lock();
            let lost: Vec<u64> =
                commits.iter().filter(|(_, commit)| commit.term < term).map(|(number, _)| *number).collect();
            lost.into_iter().filter_map(|number| commits.remove(&number)).collect()
        };
        // Locks are released without the latch.
        drop(lost);
    }

    /// Lets all go: the node has ended.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.commits.lock());
        drop(all);
    }
}
