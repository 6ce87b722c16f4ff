//! The rule itself: what it knows of the key in hand, and what it decides over each entry.

use std::ops::Bound;
use std::sync::Arc;

use super::context::{GcContext, Seen};
use super::covering::Covering;
use super::filtering::Filtered;
use super::operand_chain::OperandChain;
use super::other_trees::OtherTrees;
use super::pending_single_delete::PendingSingleDelete;
use crate::base::{CoveragePoint, Entry, Kind, Result, SeqNum};
use crate::cache::Fill;
use crate::tree::compaction_filter::TableFilter;
use crate::tree::operator::TableOperator;
use crate::tree::range_tombstone::RangeTombstones;
use crate::tree::values::ValueFiles;

/// What may be dropped, decided entry by entry over a stream in stored order (key ascending, seqnum descending).
#[derive(Debug)]
pub struct GcRule {
    pub(super) context: GcContext,
    covering: Covering,
    /// The key of the entry before. No key is empty.
    pub(super) key: Vec<u8>,
    /// Of `key`, the versions met so far serve the snapshots from this index on; `usize::MAX` before the first version.
    pub(super) served_from: usize,
    /// The seqnum of the oldest version so far that is newer than all snapshots, or one that none has: what comes then
    /// is there twice.
    ahead: SeqNum,
    /// The version kept last is an operand: the next one of its stripe serves the same snapshots with it.
    pub(super) open: bool,
    /// Operands of `key` in the stripe of `served_from`, held back until it is known what they can be folded with.
    pub(super) chain: OperandChain,
    /// The chain's newest operand is the newest version of `key`.
    chain_is_newest: bool,
    /// A single-delete of `key`, held back until it is known what it meets. The chain is empty then.
    pub(super) pending: Option<PendingSingleDelete>,
    consumed: u64,
    pub(super) emitted: u64,
}

impl GcRule {
    /// A rule for the given live snapshots (in any order), where every other snapshot, now or to come, sees at least up
    /// to `published`. `bottom` says that no tree outside the stream holds an older version of a key in it. Operands
    /// stay as they are.
    #[must_use]
    pub fn new(snapshots: Vec<SeqNum>, published: SeqNum, bottom: bool) -> Self {
        Self {
            context: GcContext::new(snapshots, published, bottom),
            covering: Covering::default(),
            key: Vec::new(),
            served_from: usize::MAX,
            ahead: SeqNum::MAX,
            open: false,
            chain: OperandChain::default(),
            chain_is_newest: false,
            pending: None,
            consumed: 0,
            emitted: 0,
        }
    }

    /// The same rule, with trees outside of the stream, which may hold some of its versions too.
    #[must_use]
    pub fn with_other_trees(mut self, other_trees: OtherTrees) -> Self {
        self.context.other_trees = other_trees;
        self
    }

    /// The same rule, where operands are folded.
    #[must_use]
    pub fn with_operator(mut self, operator: TableOperator) -> Self {
        self.context.operator = operator;
        self
    }

    /// The same rule, where a compaction filter is asked about values.
    #[must_use]
    pub fn with_filter(mut self, filter: TableFilter) -> Self {
        self.context.filter = filter;
        self
    }

    /// The same rule, over a stream whose entries may point into these value files.
    #[must_use]
    pub fn with_values(mut self, values: ValueFiles) -> Self {
        self.context.values = values;
        self
    }

    /// The same rule, where entries keep their seqnums or not.
    #[must_use]
    pub const fn keeping_seqnums(mut self, keeps_seqnums: bool) -> Self {
        self.context.keeps_seqnums = keeps_seqnums;
        self
    }

    /// The same rule, with range tombstones: all of them up to the newest entry of the stream.
    #[must_use]
    pub fn with_range_tombstones(mut self, range_tombstones: Arc<RangeTombstones>) -> Self {
        self.covering = Covering::new(range_tombstones);
        self
    }

    /// Begins with another stream, which may show keys of the one before once more. That one was shown to its end.
    pub fn restart(&mut self) {
        self.key.clear();
    }

    /// Whether it matters up to where the trees of the stream are clean.
    #[inline]
    #[must_use]
    pub const fn compares_seqnums(&self) -> bool {
        self.covering.any() || self.context.keeps_seqnums
    }

    /// Whether range tombstones after `after` that every snapshot sees touch the keys from `low` to `high`.
    pub(in crate::tree) fn erases_in(&self, low: &[u8], high: Bound<&[u8]>, after: SeqNum) -> bool {
        self.covering.touch(low, high, (after, self.context.oldest()))
    }

    /// Up to where a tree is clean that holds what is kept, when none of the entries is newer than `newest`.
    #[must_use]
    pub fn clean_to(&self, newest: SeqNum) -> SeqNum {
        if self.context.keeps_seqnums {
            // Entries would count as having at least that.
            return SeqNum::ZERO;
        }
        newest.max(self.covering.newest()).min(self.context.oldest())
    }

    /// As [`Self::push`], of an entry from a tree that is clean up to `clean_to`.
    ///
    /// # Errors
    /// What `out` says.
    #[inline]
    pub fn push_from(
        &mut self,
        clean_to: SeqNum,
        entry: &Entry<'_>,
        out: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.compares_seqnums() {
            return self.push_aged(entry.seqnum.max(clean_to), entry, out);
        }
        self.push(entry, out)
    }

    /// As [`Self::push`], of an entry that counts as having `seqnum`.
    #[cold]
    fn push_aged(
        &mut self,
        seqnum: SeqNum,
        entry: &Entry<'_>,
        out: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.covering.any() {
            self.pass_range_tombstones((entry, seqnum), out)?;
        }
        if self.context.keeps_seqnums { self.push(&Entry { seqnum, ..*entry }, out) } else { self.push(entry, out) }
    }

    /// Takes the range tombstones into account that lie between the entry before and `entry`, which counts as having
    /// `seqnum`.
    fn pass_range_tombstones(
        &mut self,
        (entry, seqnum): (&Entry<'_>, SeqNum),
        out: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.key != entry.key {
            self.begin_key(entry.key, out)?;
            self.covering.find(entry.key);
        }
        let Some(oldest) = self.covering.pass_to(seqnum) else { return Ok(()) };
        // A snapshot that sees the operands sees the range tombstone behind them.
        if !self.chain.is_empty() {
            self.end_chain(true, out)?;
        }
        // What lies behind the range tombstone is not its put any more.
        self.emit_pending(out)?;
        let seen = self.context.first_to_see(oldest);
        self.served_from = self.served_from.min(seen);
        self.open = false;
        Ok(())
    }

    /// Ends the key in hand, and begins the next.
    fn begin_key(&mut self, key: &[u8], out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        self.end_key(out)?;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.served_from = usize::MAX;
        self.ahead = SeqNum::MAX;
        self.open = false;
        self.covering.begin_key();
        Ok(())
    }

    /// Takes the next entry of the stream, and gives `out` what is to be written: this entry, one made of those before,
    /// several of them, or nothing.
    ///
    /// # Errors
    /// What `out` says, and when a separated value that operands change cannot be read.
    #[inline]
    pub fn push(&mut self, entry: &Entry<'_>, out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        self.consumed += 1;
        if self.key != entry.key {
            self.begin_key(entry.key, out)?;
        }
        // Snapshots from `seen` on see this version unless a newer one serves them.
        let seen = self.context.first_to_see(entry.seqnum);
        if (entry.kind == Kind::SingleDelete || self.pending.is_some()) && self.wait(entry, seen, out)? {
            return Ok(());
        }
        if (entry.kind == Kind::Merge || !self.chain.is_empty()) && self.defer(entry, seen, out)? {
            return Ok(());
        }
        let is_newest = self.served_from == usize::MAX;
        match self.decide(entry, seen) {
            Some(Seen::ByAll) if self.context.filter.is_registered() && is_newest && !entry.kind.is_tombstone() => {
                self.emit_filtered(self.context.written(entry.seqnum, Seen::ByAll), entry.kind, entry.value, out)
            }
            Some(seen) => {
                self.emitted += 1;
                out(&Entry { seqnum: self.context.written(entry.seqnum, seen), ..*entry })
            }
            None => Ok(()),
        }
    }

    /// Whether puts that every snapshot sees, from `first` on and each the only version of its key in the stream, are
    /// written as they are: [`Self::pass`] takes them all at once.
    #[must_use]
    pub fn lets_pass(&self, first: &[u8]) -> bool {
        !self.compares_seqnums() && !self.context.filter.is_registered() && self.key != first
    }

    /// Ends the key in hand, and takes `count` puts that are written as they are, the last of which is of the key
    /// `last`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn pass(&mut self, (count, last): (u64, &[u8]), out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        self.begin_key(last, out)?;
        self.served_from = 0;
        self.consumed += count;
        self.emitted += count;
        Ok(())
    }

    /// Says that no entry of the key in hand follows, and gives `out` what was held back.
    ///
    /// # Errors
    /// What `out` says.
    #[inline]
    pub fn end_key(&mut self, out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        if !self.chain.is_empty() {
            self.end_chain(self.context.bottom, out)
        } else if self.pending.is_some() {
            self.end_pending(out)
        } else {
            Ok(())
        }
    }

    /// As [`Self::end_key`], unless entries of the key in hand follow behind `border`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn end_key_unless(
        &mut self,
        border: Option<&[u8]>,
        out: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        if border == Some(&*self.key) { Ok(()) } else { self.end_key(out) }
    }

    /// By whom `entry`, which is to be written, is seen; `None` when it may be dropped.
    fn decide(&mut self, entry: &Entry<'_>, seen: usize) -> Option<Seen> {
        if seen == self.context.snapshots.len() {
            // Newer than `published`: some snapshot may see just this version, and the next may see another. It serves
            // none of those here.
            if entry.seqnum >= self.ahead {
                return None;
            }
            (self.served_from, self.ahead) = (seen, entry.seqnum);
            return Some(Seen::BySome);
        }
        if seen >= self.served_from && !self.open {
            return None;
        }
        self.served_from = seen;
        self.open = entry.kind == Kind::Merge;
        if seen > 0 || self.open {
            return Some(Seen::BySome);
        }
        if self.context.bottom && entry.kind.is_tombstone() {
            if self.context.snapshots.len() > 1 {
                CoveragePoint::TombstoneDropped.mark();
            }
            return None;
        }
        Some(Seen::ByAll)
    }

    /// Holds an operand back, or ends the chain of those that were; true when nothing else is to be done with `entry`.
    #[cold]
    fn defer(
        &mut self,
        entry: &Entry<'_>,
        seen: usize,
        out: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<bool> {
        let same_stripe = seen == self.served_from;
        if !self.chain.is_empty() {
            match entry.kind {
                Kind::Merge if same_stripe => {
                    self.chain.push(entry, &self.key, &self.context.operator);
                    return Ok(true);
                }
                Kind::Put if same_stripe => return self.fold(Some(entry.value), out),
                Kind::PutPointer if same_stripe => {
                    let value = self.context.values.read(entry.value, Fill::Bypass)?;
                    return self.fold(Some(&value), out);
                }
                Kind::Delete if same_stripe => return self.fold(None, out),
                _ => self.end_chain(false, out)?,
            }
        }
        let is_shown = seen < self.served_from && seen < self.context.snapshots.len();
        if entry.kind != Kind::Merge || !is_shown || self.context.operator.registered().is_none() {
            return Ok(false);
        }
        self.chain_is_newest = self.served_from == usize::MAX;
        self.served_from = seen;
        self.open = false;
        self.chain.push(entry, &self.key, &self.context.operator);
        Ok(true)
    }

    /// Ends the chain; `whole` says that there is nothing that its operands could change.
    pub(super) fn end_chain(&mut self, whole: bool, out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        if whole {
            return self.fold(None, out).map(drop);
        }
        match self.chain.partial(&self.key, &self.context.operator) {
            Some(operand) => self.emit_chain(Kind::Merge, &operand, out),
            None => self.emit_operands(out),
        }
    }

    /// Gives one value instead of the chain and what it changes. False, and the operands as they are, when the operator
    /// fails.
    pub(super) fn fold(&mut self, base: Option<&[u8]>, out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<bool> {
        let Ok(value) = self.context.operator.full(&self.key, base, &self.chain.operands()) else {
            return self.emit_operands(out).map(|()| false);
        };
        self.emit_chain(Kind::Put, &value, out).map(|()| true)
    }

    /// Emits the value of the current key, which every snapshot sees, as the compaction filter wants it. `stored` is
    /// the value, or the pointer to it; `seqnum` is written with it.
    #[cold]
    fn emit_filtered(
        &mut self,
        seqnum: SeqNum,
        kind: Kind,
        stored: &[u8],
        out: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        let filtered = self.context.filtered(&self.key, kind, stored)?;
        let (kind, value) = match &filtered {
            Filtered::Dropped => return Ok(()),
            Filtered::Tombstone => (Kind::Delete, &b""[..]),
            Filtered::Changed(value) => (Kind::Put, &**value),
            Filtered::Unchanged => (kind, stored),
        };
        self.emitted += 1;
        out(&Entry { key: &self.key, seqnum, kind, value })
    }

    /// Gives an entry in the place of the chain's newest.
    fn emit_chain(&mut self, kind: Kind, value: &[u8], out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        let seen = if kind == Kind::Put && self.served_from == 0 { Seen::ByAll } else { Seen::BySome };
        let seqnum = self.context.written(self.chain.newest(), seen);
        self.chain.clear();
        self.open = kind == Kind::Merge;
        if seen == Seen::ByAll && self.chain_is_newest && self.context.filter.is_registered() {
            return self.emit_filtered(seqnum, kind, value, out);
        }
        self.emitted += 1;
        out(&Entry { key: &self.key, seqnum, kind, value })
    }

    /// Gives the operands of the chain as they are.
    fn emit_operands(&mut self, out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        self.open = true;
        for (seqnum, value) in self.chain.iter() {
            self.emitted += 1;
            out(&Entry { key: &self.key, seqnum, kind: Kind::Merge, value })?;
        }
        self.chain.clear();
        Ok(())
    }

    /// Entries consumed less entries emitted so far; some may still be emitted, see [`Self::end_key`].
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.consumed - self.emitted
    }
}
