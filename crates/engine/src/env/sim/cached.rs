//! What a crash can take back: a durable state, the changes made since, and the state that readers see.
//!
//! # Invariants
//! 1. Changes that are `synced` survive every crash; they stay in the list only because older changes, that do not,
//!    come first.

use super::content::Content;
use super::node::NodeId;
use super::rng::Rng;
use crate::base::num::u64_of;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A change of a file's bytes or of a directory's entries.
pub(super) trait Change: Clone {
    /// What is changed.
    type State: Clone + Default;
    /// Makes the change.
    fn apply(&self, state: &mut Self::State);
}

/// A state with the changes that are not durable yet.
#[derive(Clone)]
pub(super) struct Cached<C: Change> {
    /// With all changes: what readers see.
    pub(super) current: C::State,
    /// Without the pending ones.
    pub(super) durable: C::State,
    /// In the order they were made.
    pub(super) pending: Vec<Pending<C>>,
    /// Whether readers may see what is neither durable nor pending.
    has_lost: bool,
}

/// A change that was made but is not in the durable state yet.
#[derive(Clone)]
pub(super) struct Pending<C> {
    /// Orders changes over all files and directories.
    pub(super) stamp: u64,
    /// Whether a crash keeps it for certain.
    pub(super) synced: bool,
    pub(super) change: C,
}

impl<C: Change> Default for Cached<C> {
    fn default() -> Self {
        Self { current: C::State::default(), durable: C::State::default(), pending: Vec::new(), has_lost: false }
    }
}

impl<C: Change> Cached<C> {
    /// Makes a change that a crash may take back.
    pub(super) fn change(&mut self, stamp: u64, change: C) {
        change.apply(&mut self.current);
        self.pending.push(Pending { stamp, synced: false, change });
    }

    /// Makes a change that no crash takes back. It does not make older changes durable.
    pub(super) fn change_durably(&mut self, stamp: u64, change: C) {
        change.apply(&mut self.current);
        if self.pending.is_empty() {
            change.apply(&mut self.durable);
        } else {
            self.pending.push(Pending { stamp, synced: true, change });
        }
    }

    /// Makes all changes durable.
    pub(super) fn sync(&mut self) {
        for pending in self.pending.drain(..) {
            pending.change.apply(&mut self.durable);
        }
    }

    /// A sync that power cut short: makes a random part of the changes durable, often none.
    pub(super) fn sync_partly(&mut self, rng: &mut Rng) {
        if rng.one_in(2) {
            for pending in &mut self.pending {
                pending.synced |= rng.one_in(2);
            }
        }
    }

    /// Drops the changes that are not durable, while readers go on seeing them.
    pub(super) fn lose(&mut self) {
        self.pending.retain(|pending| pending.synced);
        self.has_lost = true;
    }

    /// As [`Self::change`] and [`Self::lose`] of that change alone.
    pub(super) fn change_and_lose(&mut self, change: &C) {
        change.apply(&mut self.current);
        self.has_lost = true;
    }

    /// What there is without the cache: nothing that was lost.
    pub(super) fn past_cache(&self) -> Cow<'_, C::State> {
        if !self.has_lost {
            return Cow::Borrowed(&self.current);
        }
        let mut state = self.durable.clone();
        self.pending.iter().for_each(|pending| pending.change.apply(&mut state));
        Cow::Owned(state)
    }

    /// Keeps what `survive` makes of each change.
    pub(super) fn crash(&mut self, mut survive: impl FnMut(&Pending<C>, &mut C::State)) {
        for pending in self.pending.drain(..) {
            if pending.synced {
                pending.change.apply(&mut self.durable);
            } else {
                survive(&pending, &mut self.durable);
            }
        }
        self.current = self.durable.clone();
        self.has_lost = false;
    }

    /// How many changes a crash may take back.
    pub(super) fn unsynced(&self) -> u64 {
        u64_of(self.pending.iter().filter(|pending| !pending.synced).count())
    }
}

/// A change of a file.
#[derive(Clone)]
pub(super) enum FileChange {
    Write { offset: u64, bytes: Arc<[u8]> },
    SetLen(u64),
    Reserve(u64),
    Punch { offset: u64, bytes: u64 },
}

impl Change for FileChange {
    type State = Content;

    fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write(bytes, *offset),
            Self::SetLen(len) => content.set_len(*len),
            Self::Reserve(len) => content.reserve(*len),
            Self::Punch { offset, bytes } => {
                let inside = content.len().saturating_sub(*offset).min(*bytes);
                content.punch(*offset, inside);
            }
        }
    }
}

/// The names in a directory.
pub(super) type Entries = BTreeMap<Arc<str>, NodeId>;

/// A change of a directory. Only the entry that is named is touched, and only while it still leads to that node: the
/// changes before it may be lost.
#[derive(Clone)]
pub(super) enum DirChange {
    Link { name: Arc<str>, node: NodeId },
    Unlink { name: Arc<str>, node: NodeId },
    Rename { from: Arc<str>, to: Arc<str>, node: NodeId },
}

impl DirChange {
    pub(super) const fn node(&self) -> NodeId {
        match self {
            Self::Link { node, .. } | Self::Unlink { node, .. } | Self::Rename { node, .. } => *node,
        }
    }
}

impl Change for DirChange {
    type State = Entries;

    fn apply(&self, entries: &mut Entries) {
        let mut unlink = |name: &Arc<str>, node: NodeId| {
            if entries.get(name) == Some(&node) {
                entries.remove(name);
            }
        };
        match self {
            Self::Link { name, node } => {
                entries.insert(Arc::clone(name), *node);
            }
            Self::Unlink { name, node } => unlink(name, *node),
            Self::Rename { from, to, node } => {
                unlink(from, *node);
                entries.insert(Arc::clone(to), *node);
            }
        }
    }
}
