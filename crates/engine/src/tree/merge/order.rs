//! The order of a merge's sources by the entries that they are at.
//!
//! A source that moved is put in its place step by step, which takes as many steps as there are sources that come
//! before its next entry: mostly none or few, since large trees hold nearly all entries. A tree of losers is slower for
//! any number of sources that was tried, up to 128.
//!
//! # Invariants
//! 1. All keys that the sources are at begin with `prefix`, and a player's head is of what follows it. So heads order
//!    sources in the direction of travel, up to ties; a source that is positioned nowhere has the largest.
//! 2. A lazy source comes before its equals: its head is the smallest that its entry can have.

use std::cmp::Ordering;

use crate::base::key::{head, shared_bytes};
use crate::base::num::{u32_of, usize_of32};
use crate::tree::cursor::MergeSource;

/// Ties of heads after which the common prefix is computed again.
const TIES_MAX: u32 = if cfg!(test) { 2 } else { 32 };
/// Sources that a source that moved passes one by one before a binary search among the rest.
const STEPS_MAX: usize = if cfg!(test) { 2 } else { 32 };
/// Common bytes that are left to the heads: neighbours have nearly all in common, but not for long.
const PREFIX_SLACK: usize = if cfg!(test) { 1 } else { 4 };

/// The sources of a merge, newest tree first.
pub(super) type Sources = [Box<dyn MergeSource>];

/// The sources in the order in which their entries come in the direction of travel, where there are several.
#[derive(Debug, Default)]
pub(super) struct SourceOrder {
    /// Empty for a single source.
    players: Vec<Player>,
    /// Nearly all that the keys had in common when it was computed: at the beginning, and after many ties.
    pub(super) prefix: Vec<u8>,
    /// Ties since then.
    ties: u32,
    /// The direction of travel.
    is_forward: bool,
}

/// A source and what orders it among the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Player {
    /// The head of its key after the prefix; going backward its complement, so that the smaller always comes first.
    head: u64,
    source: u32,
    /// The source has not read its entry.
    pub(super) is_lazy: bool,
}

impl Player {
    /// The number of the source.
    #[inline]
    pub(super) const fn source(self) -> usize {
        usize_of32(self.source)
    }
}

impl SourceOrder {
    /// The order of `sources` sources, none of which is in it yet.
    pub(super) fn new(sources: usize) -> Self {
        Self { players: Vec::with_capacity(if sources > 1 { sources } else { 0 }), ..Self::default() }
    }

    /// The source whose entry comes first.
    #[inline]
    pub(super) fn first(&self) -> Player {
        self.players[0]
    }

    /// The source whose entry comes second, if there are several sources.
    #[inline]
    pub(super) fn second(&self) -> Option<&Player> {
        self.players.get(1)
    }

    /// Whether the heads of the first two sources are equal, so that both may be at the same key.
    #[inline]
    pub(super) fn first_two_tie(&self) -> bool {
        self.players[0].head == self.players[1].head
    }

    /// Begins with the prefix of `key` that all keys of `sources` share, lazy ones included.
    pub(super) fn begin_at(&mut self, sources: &Sources, key: &[u8]) {
        self.prefix.clear();
        self.prefix.extend_from_slice(&key[..common(sources, key)]);
        self.ties = 0;
    }

    /// Begins with the prefix that the keys of `sources`, none of which is lazy, share.
    pub(super) fn begin(&mut self, sources: &Sources) {
        self.prefix.clear();
        self.take_prefix(sources);
    }

    /// Computes the common prefix again after many ties; returns whether it became longer.
    #[cold]
    pub(super) fn lengthen_prefix(&mut self, sources: &Sources) -> bool {
        self.take_prefix(sources)
    }

    /// Whether there were enough ties for a longer prefix to pay.
    #[inline]
    pub(super) const fn has_many_ties(&self) -> bool {
        self.ties >= TIES_MAX
    }

    /// Puts all sources in order, for travel in a direction.
    pub(super) fn place_all(&mut self, sources: &Sources, forward: bool, any_lazy: bool) {
        self.players.clear();
        self.is_forward = forward;
        for source in 0..sources.len() {
            let lazy = if any_lazy { self.lazy_player(sources, source) } else { None };
            let player = lazy.or_else(|| self.player(sources, source)).expect("the prefix is of all keys");
            self.players.push(player);
            let mut at = source;
            while at > 0 && self.is_before(sources, player, self.players[at - 1]) {
                self.players[at] = self.players[at - 1];
                at -= 1;
            }
            self.players[at] = player;
        }
    }

    /// Puts the first source, which moved, in its place; returns whether another one is first now, or `None` when its
    /// key does not begin with the prefix.
    #[inline]
    pub(super) fn place_first(&mut self, sources: &Sources, source: usize) -> Option<bool> {
        let player = self.player(sources, source)?;
        let mut at = self.pass_smaller(0, player.head);
        while at < STEPS_MAX
            && let Some(next) = self.players.get(at + 1).copied()
            && self.is_before(sources, next, player)
        {
            self.players[at] = next;
            at = self.pass_smaller(at + 1, player.head);
        }
        if at == STEPS_MAX {
            at = self.pass_many(sources, at, player);
        }
        self.players[at] = player;
        Some(at > 0)
    }

    /// Moves those with smaller heads one place to the front, from place `at` on and at most to [`STEPS_MAX`]; returns
    /// the place that becomes free. Nearly all steps of a merge end here.
    #[inline]
    fn pass_smaller(&mut self, mut at: usize, head: u64) -> usize {
        let len = self.players.len().min(STEPS_MAX + 1);
        let players = &mut self.players[..len];
        while at + 1 < len && players[at + 1].head < head {
            players[at] = players[at + 1];
            at += 1;
        }
        at
    }

    /// Moves all players that come before `player` one place to the front, from place `at` on; returns the place that
    /// becomes free.
    #[cold]
    fn pass_many(&mut self, sources: &Sources, at: usize, player: Player) -> usize {
        let (mut low, mut high) = (at, self.players.len() - 1);
        while low < high {
            let middle = high - (high - low) / 2;
            if self.is_before(sources, self.players[middle], player) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        self.players.copy_within(at + 1..=low, at);
        low
    }

    /// The source as a player, if it is lazy.
    fn lazy_player(&self, sources: &Sources, source: usize) -> Option<Player> {
        let head = sources[source].lazy_key()?.floor(self.prefix.len());
        Some(Player { head, source: u32_of(source), is_lazy: true })
    }

    /// The source as a player, or `None` when its key does not begin with the prefix.
    #[inline]
    fn player(&self, sources: &Sources, source: usize) -> Option<Player> {
        let head = match sources[source].key() {
            None => u64::MAX,
            Some(key) => {
                let rest = if self.prefix.is_empty() { key } else { key.strip_prefix(&*self.prefix)? };
                if self.is_forward { head(rest) } else { !head(rest) }
            }
        };
        Some(Player { head, source: u32_of(source), is_lazy: false })
    }

    /// Takes into the prefix nearly all that the keys have in common; returns whether that made it longer.
    fn take_prefix(&mut self, sources: &Sources) -> bool {
        self.ties = 0;
        let mut keys = sources.iter().filter_map(|source| source.key());
        // What a single key has in common with itself says nothing about the next one.
        let (Some(first), Some(second)) = (keys.next(), keys.next()) else { return false };
        let first = &first[..shared_bytes(first, second)];
        let common = keys.fold(first, |common, key| &common[..shared_bytes(common, key)]);
        let common = &common[..common.len().saturating_sub(PREFIX_SLACK)];
        let longer = common.len() > self.prefix.len();
        if longer {
            self.prefix.clear();
            self.prefix.extend_from_slice(common);
        }
        longer
    }

    /// Whether `a` comes before `b` in the direction of travel.
    #[inline]
    fn is_before(&mut self, sources: &Sources, a: Player, b: Player) -> bool {
        if a.head == b.head { self.is_before_in_tie(sources, a, b) } else { a.head < b.head }
    }

    fn is_before_in_tie(&mut self, sources: &Sources, a: Player, b: Player) -> bool {
        if a.is_lazy || b.is_lazy {
            return a.is_lazy;
        }
        self.ties += 1;
        match (sources[a.source()].key(), sources[b.source()].key()) {
            (None, _) => false,
            (_, None) => true,
            (Some(x), Some(y)) => {
                let order = x.cmp(y).then(a.source.cmp(&b.source));
                order == if self.is_forward { Ordering::Less } else { Ordering::Greater }
            }
        }
    }
}

/// How many bytes of `key` all keys of `sources` begin with, or nearly as many; none where a single source has any
/// left.
fn common(sources: &Sources, key: &[u8]) -> usize {
    let common = |source: &dyn MergeSource| match source.lazy_key() {
        Some(bound) => Some(shared_bytes(bound.prefix, key)),
        None => Some(shared_bytes(source.key()?, key).saturating_sub(PREFIX_SLACK)),
    };
    let mut commons = sources.iter().filter_map(|source| common(&**source));
    match (commons.next(), commons.next()) {
        (Some(first), Some(second)) => commons.fold(first.min(second), usize::min),
        _ => 0,
    }
}
