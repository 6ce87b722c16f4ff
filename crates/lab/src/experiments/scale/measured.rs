//! A table that is really made, as the model makes its own: flush by flush, each followed by all that it makes due.

use super::params::{KEY_BYTES, Scale, mb};
use crate::command::common::Common;
use crate::driver::{Batch, Config, IndexSize, Store, TableId, TableSpec};
use crate::random::{Permutation, Random};
use crate::report::{Figure, Step};
use crate::run::{Bench, Db};
use crate::text::short;
use anyhow::{Context as _, Result};
use std::ops::Range;

/// The table.
const TABLE: TableId = TableId(0);

/// Rows in a commit.
const BATCH_ROWS: u64 = 1_000;

/// Fills a table and measures that as a step; the figures that the model gives too.
pub(super) fn step(
    scale: &Scale,
    rows: u64,
    config: &Config,
    common: &Common,
    bench: &mut Bench<'_>,
) -> Result<Vec<Figure>> {
    let name = format!("measured {}", short(rows as f64));
    let mut db = bench.open("scale", config, &[TableSpec::new("scale")])?;
    fill(scale, (rows, 0..rows), scale.flush_rows(), common.seed, &mut db, &name)?;
    let index = db.store().index_size()?;
    let step = db.bench().steps().last_mut().context("the step that just ran")?;
    if let Some(cost) = &mut step.cost {
        cost.scale(rows);
    }
    step.unit = "row".to_owned();
    let figures = figures(step, rows * scale.row_bytes(), index);
    db.close()?;
    bench.remove("scale")?;
    Ok(figures)
}

/// Puts those of `rows` keys in random order that have these places in it, so many before each flush.
pub(super) fn fill(
    scale: &Scale,
    (rows, places): (u64, Range<u64>),
    flush_rows: u64,
    seed: u64,
    db: &mut Db<'_, '_>,
    name: &str,
) -> Result<()> {
    let stop = db.bench().stop().clone();
    db.verb(name, |store| {
        let mut from = places.start;
        while from < places.end && !stop.asked() {
            let until = places.end.min(from + flush_rows);
            put(scale, (rows, from..until), seed, store)?;
            store.flush()?;
            store.wait_idle()?;
            from = until;
        }
        Ok(())
    })?;
    Ok(())
}

/// Puts them, and leaves them in memory.
pub(super) fn put(scale: &Scale, (rows, places): (u64, Range<u64>), seed: u64, store: &dyn Store) -> Result<()> {
    let order = Permutation::new(seed, rows);
    let mut value = vec![0; scale.value_bytes as usize];
    let (mut client, mut batch) = (store.client()?, Batch::new());
    for from in places.clone().step_by(usize::try_from(BATCH_ROWS)?) {
        batch.clear();
        for place in from..places.end.min(from + BATCH_ROWS) {
            Random::of(seed, place).fill(&mut value);
            batch.put(TABLE, &key(order.at(place), rows), &value);
        }
        let _done = client.write(&batch)?;
    }
    Ok(())
}

/// The key with a number of so many, spread over all keys.
fn key(number: u64, of: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&(number * (u64::MAX / of)).to_be_bytes());
    key
}

/// The figures of a step that filled a table with so many bytes of keys and values.
fn figures(step: &Step, raw_bytes: u64, index: IndexSize) -> Vec<Figure> {
    let shape = step.after.shape.first();
    let levels = shape.map(|shape| match shape.btree_height {
        Some(height) => height as f64,
        None => shape.levels.iter().filter(|level| level.level > 0).count() as f64,
    });
    let written = step.counters.flush_bytes.zip(step.counters.compaction_written_bytes);
    let written = written.map(|(flushed, compacted)| (flushed + compacted) as f64 / raw_bytes as f64);
    let disk = (index.leaf_bytes + index.filter_bytes) as f64;
    let disk =
        if shape.is_some_and(|shape| shape.btree_height.is_some()) { disk } else { disk + index.index_bytes as f64 };
    vec![
        Figure::less("levels", "", levels),
        Figure::less("trees", "", shape.and_then(|shape| Some(shape.trees? as f64))),
        Figure::less("written/B", "", written),
        Figure::less("disk.GB", "GB", disk / 1e9),
        Figure::less("index.MB", "MB", mb(index.index_bytes as f64)),
        Figure::less("filter.MB", "MB", mb(index.filter_bytes as f64)),
    ]
}
