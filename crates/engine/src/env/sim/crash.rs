//! Power loss: which of the changes that were not durable survive it.

use super::cached::{Cached, Change, DirChange, FileChange, Pending};
use super::content::Content;
use super::disk::{Disk, Node};
use super::rng::Rng;
use crate::base::num::{u64_of, usize_of};

/// What survives a power loss of that which was not made durable. What was made durable always survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashProfile {
    /// Nothing.
    Strict,
    /// Everything.
    All,
    /// What was done before some moment, in the order it was done; the write of that moment may be cut short.
    Prefix,
    /// Each change by itself, independent of all others, also directory entries. A lost write may be torn: each
    /// 512-byte sector then has the new bytes or the old ones, or, where the file had no durable bytes, zeros or
    /// garbage.
    Random,
    /// As [`CrashProfile::Random`], but a torn write may leave zeros and garbage also over durable bytes in its range,
    /// as a device does whose sectors are not written atomically.
    Hostile,
    /// Directory entries and lengths, but no data: what was written reads as the old bytes, or as zeros past the old
    /// end.
    MetadataOnly,
}

impl CrashProfile {
    /// Every profile.
    pub const EVERY: [Self; 6] =
        [Self::Strict, Self::All, Self::Prefix, Self::Random, Self::Hostile, Self::MetadataOnly];
}

/// What a device writes atomically, in bytes.
const SECTOR_BYTES: u64 = 512;

/// Cuts the power.
pub(super) fn power_crash(disk: &mut Disk, profile: CrashProfile, rng: &mut Rng) {
    let cut = match profile {
        CrashProfile::Prefix => random_moment(disk, rng),
        _ => 0,
    };
    let mut survivors = Survivors { profile, rng, cut, odds: 0 };
    for node in disk.nodes.values_mut() {
        // Odds differ from node to node, so that all, none, or nearly so of one is as likely as half.
        survivors.odds = survivors.rng.below(5);
        match node {
            Node::File(file) => file.crash(|pending, content| survivors.file(pending, content)),
            Node::Dir(dir) => dir.crash(|pending, entries| {
                if survivors.dir(pending) {
                    pending.change.apply(entries);
                }
            }),
        }
    }
}

/// The stamp of one of the changes that are not durable, or one after them all.
fn random_moment(disk: &Disk, rng: &mut Rng) -> u64 {
    fn stamps<C: Change>(cached: &Cached<C>, out: &mut Vec<u64>) {
        out.extend(cached.pending.iter().filter(|pending| !pending.synced).map(|pending| pending.stamp));
    }
    let mut all = Vec::new();
    for node in disk.nodes.values() {
        match node {
            Node::File(file) => stamps(file, &mut all),
            Node::Dir(dir) => stamps(dir, &mut all),
        }
    }
    all.sort_unstable();
    all.get(rng.cut(all.len())).copied().unwrap_or(u64::MAX)
}

struct Survivors<'a> {
    profile: CrashProfile,
    rng: &'a mut Rng,
    /// The moment of [`CrashProfile::Prefix`].
    cut: u64,
    /// How many changes in four survive whole.
    odds: u64,
}

impl Survivors<'_> {
    fn survives(&mut self) -> bool {
        self.rng.below(4) < self.odds
    }

    fn dir(&mut self, pending: &Pending<DirChange>) -> bool {
        match self.profile {
            CrashProfile::Strict => false,
            CrashProfile::All | CrashProfile::MetadataOnly => true,
            CrashProfile::Prefix => pending.stamp < self.cut,
            CrashProfile::Random | CrashProfile::Hostile => self.survives(),
        }
    }

    fn file(&mut self, pending: &Pending<FileChange>, content: &mut Content) {
        let change = &pending.change;
        match self.profile {
            CrashProfile::Strict => {}
            CrashProfile::All => change.apply(content),
            CrashProfile::Prefix if pending.stamp < self.cut => change.apply(content),
            CrashProfile::Prefix if pending.stamp == self.cut => self.cut_short(change, content),
            CrashProfile::Prefix => {}
            CrashProfile::MetadataOnly => match change {
                FileChange::Write { offset, bytes } => content.grow(offset + u64_of(bytes.len())),
                _ => change.apply(content),
            },
            CrashProfile::Random | CrashProfile::Hostile => match change {
                _ if self.survives() => change.apply(content),
                FileChange::Write { offset, bytes } if self.rng.one_in(2) => self.tear(content, *offset, bytes),
                _ => {}
            },
        }
    }

    /// Leaves the first sectors of a write.
    fn cut_short(&mut self, change: &FileChange, content: &mut Content) {
        if let FileChange::Write { offset, bytes } = change {
            let mut sectors = sectors(*offset, bytes);
            let kept = self.rng.cut(sectors.len());
            for (at, bytes) in sectors.drain(..kept) {
                content.write(bytes, at);
            }
        }
    }

    /// Leaves some sectors of a write, and of the file's growth all or what those sectors need.
    fn tear(&mut self, content: &mut Content, offset: u64, bytes: &[u8]) {
        let durable_end = content.len();
        for (at, bytes) in sectors(offset, bytes) {
            let is_atomic = self.profile == CrashProfile::Random && at < durable_end;
            match self.rng.below(6) {
                0..=2 => content.write(bytes, at),
                3 if !is_atomic => content.write(&vec![0; bytes.len()], at),
                4 if !is_atomic => {
                    let mut garbage = vec![0; bytes.len()];
                    self.rng.fill(&mut garbage);
                    content.write(&garbage, at);
                }
                _ => {}
            }
        }
        if self.rng.one_in(2) {
            content.grow(offset + u64_of(bytes.len()));
        }
    }
}

/// Splits a write where sectors of the device meet.
fn sectors(offset: u64, mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut sectors = Vec::new();
    let mut at = offset;
    while !bytes.is_empty() {
        let (sector, rest) = bytes.split_at(usize_of(SECTOR_BYTES - at % SECTOR_BYTES).min(bytes.len()));
        sectors.push((at, sector));
        at += u64_of(sector.len());
        bytes = rest;
    }
    sectors
}
