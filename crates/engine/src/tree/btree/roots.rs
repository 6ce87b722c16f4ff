//! The roots of a tree that somebody may read: the installed one, and those before it that are held.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::base::sync::{Mutex, fence};
use crate::store::{Extent, SpaceMap};

use super::root::TreeRoot;

/// The roots of a tree.
#[derive(Debug)]
pub(super) struct Roots(Mutex<Known>);

#[derive(Debug)]
struct Known {
    installed: Arc<TreeRoot>,
    /// Roots installed before, oldest first; some may still be held.
    older: Vec<Older>,
}

#[derive(Clone, Debug)]
struct Older {
    generation: u64,
    root: Weak<TreeRoot>,
    /// It stands for roots of which nothing is known.
    is_unknown: bool,
}

/// What a root does not reach: its list of free space, and the first unit after its file.
type Unreached<'r> = (&'r [Extent], u64);

/// Whether an extent is among what a root does not reach.
fn is_among(extent: Extent, (free, file_units): Unreached<'_>) -> bool {
    let at = free.partition_point(|free| free.end() <= extent.start);
    let is_free = free.get(at).is_some_and(|free| free.start <= extent.start && extent.end() <= free.end());
    is_free || extent.start >= file_units
}

impl Roots {
    pub(super) fn new(installed: Arc<TreeRoot>) -> Self {
        Self(Mutex::new(Known { installed, older: Vec::new() }))
    }

    /// The installed root.
    pub(super) fn installed(&self) -> Arc<TreeRoot> {
        Arc::clone(&self.0.lock().installed)
    }

    pub(super) fn install(&self, root: Arc<TreeRoot>) {
        let mut known = self.0.lock();
        let old = std::mem::replace(&mut known.installed, root);
        let generation = old.meta().generation;
        known.older.push(Older { generation, root: Arc::downgrade(&old), is_unknown: false });
    }

    /// As long as `kept` is held, all roots before the installed one count as held.
    pub(super) fn keep_unknown(&self, kept: &Arc<TreeRoot>) {
        let generation = kept.meta().generation.saturating_sub(1);
        self.0.lock().older.push(Older { generation, root: Arc::downgrade(kept), is_unknown: true });
    }

    /// Makes free what no root that is held reaches. What came and went since an older root that is still held is
    /// found by the list of free space of that root.
    pub(super) fn reclaim(&self, space: &Mutex<SpaceMap>) {
        let older: Vec<(Older, Arc<TreeRoot>)> = {
            let mut known = self.0.lock();
            let upgraded = known.older.iter().filter_map(|older| Some((older.clone(), older.root.upgrade()?)));
            let held = upgraded.collect::<Vec<_>>();
            known.older.retain(|older| held.iter().any(|(held, _)| held.generation == older.generation));
            held
        };
        // With the release in the drop of the last handle: what its holder read of the blocks came before what we write
        // there.
        fence(Ordering::Acquire);
        let Some(oldest) = older.iter().map(|(older, _)| older.generation).min() else {
            return space.lock().reclaim(u64::MAX);
        };
        // The root before reaches all that one freed.
        let is_held = |generation: u64| older.iter().any(|(older, _)| older.generation == generation);
        let between = {
            let mut space = space.lock();
            space.reclaim(oldest);
            space.pending().filter(|generation| !is_held(generation.saturating_sub(1))).collect::<Vec<_>>()
        };
        if between.is_empty() {
            return;
        }
        let held = older.iter().map(|(older, root)| {
            // A list that cannot be read frees nothing.
            let free = if older.is_unknown { None } else { root.free().ok() };
            (older.generation, free.map(|free| (free, root.meta().file_units())))
        });
        let held: Vec<(u64, Option<Unreached<'_>>)> = held.collect();
        let is_reached = |generation: u64, extent: Extent| {
            let reaches =
                |unreached: Option<Unreached<'_>>| unreached.is_none_or(|unreached| !is_among(extent, unreached));
            !between.contains(&generation)
                || held.iter().any(|(held, unreached)| *held < generation && reaches(*unreached))
        };
        space.lock().reclaim_unreached(is_reached);
    }
}
