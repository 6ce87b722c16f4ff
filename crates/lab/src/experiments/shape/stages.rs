//! The five shapes, the reads that each of them is given, and what they are compared with.

use super::case::Case;
use super::data::{KEY_BYTES, key};
use crate::driver::{Client, Lacks, Scan, Store, TableId, TableShape, unless_lacking};
use crate::progress;
use crate::random::Random;
use crate::report::{Figure, Step};
use crate::run::{Bench, Db, Did, End, Plan, Role};
use anyhow::{Result, ensure};

pub(super) const TABLE: TableId = TableId(0);

/// Values that a range read fetches.
const RANGE_VALUES: u64 = 8;

/// Keys that are got before a shape is read.
const WARM_READS: u64 = 50_000;

/// The figure that says how fast reads are beside those of the last stage.
const RELATIVE: &str = "relative";

/// A shape, by the verb that leads to it from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Data in the memtable, L0 and all levels.
    PreFlush,
    /// The memtable is empty.
    PostFlush,
    /// L0 is empty too.
    CompactL0,
    /// L1 is empty too, unless it is the last.
    CompactL1,
    /// One sorted sequence.
    CompactAll,
}

impl Stage {
    pub(super) const ALL: [Self; 5] =
        [Self::PreFlush, Self::PostFlush, Self::CompactL0, Self::CompactL1, Self::CompactAll];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PreFlush => "pre_flush",
            Self::PostFlush => "post_flush",
            Self::CompactL0 => "compact_l0",
            Self::CompactL1 => "compact_l1",
            Self::CompactAll => "compact_all",
        }
    }

    fn reach(self, store: &dyn Store) -> Result<()> {
        match self {
            Self::PreFlush => {}
            Self::PostFlush => store.flush()?,
            Self::CompactL0 => store.compact_level(0)?,
            Self::CompactL1 => store.compact_level(1)?,
            Self::CompactAll => store.compact_all()?,
        }
        store.wait_idle()
    }
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// A seek and the next eight.
    Range,
    /// A key that is there, asking filters.
    Point,
    /// The same without filters.
    NoFilter,
}

impl Reads {
    pub(super) const ALL: [Self; 3] = [Self::Range, Self::Point, Self::NoFilter];

    /// What is read from a database that has filters, or has none.
    const fn with(filters: bool) -> &'static [Self] {
        if filters { &[Self::Range, Self::Point] } else { &[Self::NoFilter] }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Point => "point",
            Self::NoFilter => "nofilter",
        }
    }

    fn unit(self) -> &'static str {
        if self == Self::Range { "range" } else { "get" }
    }
}

impl Case<'_> {
    /// The step's name.
    pub(super) fn step_name(&self, stage: Stage, reads: Reads) -> String {
        format!("{}{} {}", self.prefix(), stage.name(), reads.name())
    }

    /// Puts the database into each shape and reads it there.
    pub(super) fn stages(&self, db: &mut Db<'_, '_>, filters: bool) -> Result<()> {
        for stage in Stage::ALL {
            let wheel = progress::wheel(&format!("{} {}", db.bench().engine().name(), stage.name()));
            let reached = unless_lacking(stage.reach(db.store()))?;
            if reached.is_ok() {
                self.warm_up(db.store())?;
            }
            wheel.finish_and_clear();
            db.bench().stop().check()?;
            if let Err(lacks) = reached {
                Reads::with(filters).iter().for_each(|&reads| self.skip_step(db.bench(), stage, reads, &lacks));
                continue;
            }
            if filters {
                for table in db.store().shape()? {
                    db.bench().note(format!("shape {}{}: {}", self.prefix(), stage.name(), table.line()));
                }
            }
            for &reads in Reads::with(filters) {
                let step = self.read(db, stage, reads)?;
                step.figures = figures(step.before.shape.first());
            }
        }
        Ok(())
    }

    /// Adds all steps as skipped.
    pub(super) fn skip(&self, bench: &mut Bench<'_>, why: &Lacks) {
        for &reads in &Reads::ALL {
            Stage::ALL.iter().for_each(|&stage| self.skip_step(bench, stage, reads, why));
        }
    }

    fn skip_step(&self, bench: &mut Bench<'_>, stage: Stage, reads: Reads, why: &Lacks) {
        bench.skip(&self.step_name(stage, reads), reads.unit(), why);
    }

    /// Reads everything once, and some keys for the sake of filters, so that steps find it in memory: only if it fits
    /// there.
    fn warm_up(&self, store: &dyn Store) -> Result<()> {
        if self.args.live_bytes(self.values) >= self.args.memory / 4 * 3 {
            return Ok(());
        }
        let mut client = store.client()?;
        client.scan(&Scan::all(TABLE), &mut |_, _| ())?;
        let mut get = point_reads(Random::of(self.common.seed, 3), self.values);
        (0..WARM_READS.min(self.args.reads)).try_for_each(|at| get(&mut *client, at).map(drop))
    }

    fn read<'d>(&self, db: &'d mut Db<'_, '_>, stage: Stage, reads: Reads) -> Result<&'d mut Step> {
        let (seed, keys) = (self.common.seed ^ 2, self.values);
        let end = |calls| self.args.seconds.map_or(End::Calls(calls), End::Seconds);
        // The same keys in every shape.
        let random = move |client: usize| Random::of(seed, client as u64);
        let role = if reads == Reads::Range {
            Role::new(&["range"], 1, end(self.args.ranges), move |client| range_reads(random(client), keys))
        } else {
            Role::new(&["get"], 1, end(self.args.reads), move |client| point_reads(random(client), keys))
        };
        let plan = Plan {
            name: self.step_name(stage, reads),
            unit: reads.unit(),
            roles: vec![role],
            live_bytes: Some(self.args.live_bytes(self.values)),
        };
        db.step(&plan)
    }

    /// Says of each step how fast its reads are beside those of the same kind at the last stage.
    pub(super) fn compare(&self, steps: &mut [Step]) {
        for reads in Reads::ALL {
            let rate = |step: &Step| step.cost.map(|cost| cost.rate);
            let last = self.step_name(Stage::CompactAll, reads);
            let last = steps.iter().find(|step| step.name == last).and_then(rate);
            for stage in Stage::ALL {
                let name = self.step_name(stage, reads);
                for step in steps.iter_mut().filter(|step| step.name == name && step.skipped.is_none()) {
                    let relative = rate(step).zip(last).map(|(rate, last)| rate / last);
                    step.figures.push(Figure::more(RELATIVE, "", relative));
                }
            }
        }
    }
}

fn range_reads(mut random: Random, keys: u64) -> impl FnMut(&mut dyn Client, u64) -> Result<Did> {
    move |client, _at| {
        let key = key(random.below(keys));
        let (mut bytes, mut first) = (0, None);
        let scan = Scan::from(TABLE, &key, RANGE_VALUES);
        let found = client.scan(&scan, &mut |found, value| {
            first.get_or_insert(found == key);
            bytes += found.len() + value.len();
        })?;
        ensure!(found > 0 && first != Some(false), "a range does not begin with the key that it was asked for");
        Ok(Did::read(bytes as u64))
    }
}

fn point_reads(mut random: Random, keys: u64) -> impl FnMut(&mut dyn Client, u64) -> Result<Did> {
    move |client, _at| {
        let mut len = 0;
        let there = client.get(TABLE, &key(random.below(keys)), &mut |value| len = value.len())?;
        ensure!(there, "a key that was loaded is not there");
        Ok(Did::read((KEY_BYTES + len) as u64))
    }
}

/// The shape that was read, as columns.
fn figures(shape: Option<&TableShape>) -> Vec<Figure> {
    let number = |value: Option<u64>| value.map(|value| value as f64);
    // A B-tree has no L0, which is another thing than an empty one, unless changes are parked over it.
    let lsm = shape.filter(|shape| shape.btree_height.is_none() || !shape.levels.is_empty());
    let l0 =
        |shape: &TableShape| shape.levels.iter().find(|level| level.level == 0).map_or(0, |level| level.sorted_runs);
    let levels = |shape: &TableShape| shape.levels.iter().filter(|level| level.level > 0).count() as u64;
    vec![
        Figure::plain("memtable", "values", number(shape.and_then(|shape| shape.memtable_entries))),
        Figure::plain("L0", "runs", number(lsm.map(l0))),
        Figure::plain("levels", "", number(lsm.map(levels))),
        Figure::less("trees", "", number(shape.and_then(|shape| shape.trees))),
    ]
}
