//! Scans and reads of many keys, against a model.

use super::ground::{
    FIRST, Ground, SECOND, get, gets_alike, keys, look, random_batch, random_key, same, scans_alike, write,
};
use crate::driver::batch::Batch;
use crate::driver::client::{Client, Direction, Scan};
use crate::driver::lacks::unless_lacking;
use crate::driver::model::Model;
use crate::random::Random;
use anyhow::{Result, ensure};

pub(super) fn scans(ground: &Ground<'_>) -> Result<()> {
    const ROUNDS: u64 = 24;
    let store = ground.open()?;
    let (mut model, mut random) = (Model::new(2), Random::new(1));
    {
        let mut client = store.client()?;
        every_scan(&mut *client, &model, &mut random)?;
        for round in 0..ROUNDS {
            let batch = random_batch(&mut random, 200);
            write(&mut *client, &batch)?;
            model.apply(&batch, &mut Vec::new());
            if round == ROUNDS / 3 {
                unless_lacking(store.flush())?.ok();
            }
            if round == ROUNDS / 2 {
                unless_lacking(store.compact_all())?.ok();
            }
            look(&mut *client)?;
            for (table, key) in keys(&batch) {
                gets_alike(&mut *client, &model, table, key)?;
            }
            gets_alike(&mut *client, &model, FIRST, &random_key(&mut random))?;
            every_scan(&mut *client, &model, &mut random)?;
        }
        same(&mut *client, &model)?;
    }
    store.close()
}

/// A scan of each kind: with and without a begin and an end, both ways, with and without a limit.
pub(super) fn every_scan(client: &mut dyn Client, model: &Model, random: &mut Random) -> Result<()> {
    for kind in 0..16 {
        let (a, b) = (random_key(random), random_key(random));
        let direction = if kind & 1 == 0 { Direction::Forward } else { Direction::Backward };
        // Mostly the right way round: a range that ends before it begins is empty, and no error.
        let right_way = (a < b) == (direction == Direction::Forward) || random.below(8) == 0;
        let (from, until) = if right_way { (&a, &b) } else { (&b, &a) };
        let scan = Scan {
            table: if random.below(3) == 0 { SECOND } else { FIRST },
            from: (kind & 2 != 0).then_some(&from[..]),
            until: (kind & 4 != 0).then_some(&until[..]),
            direction,
            limit: if kind & 8 == 0 { u64::MAX } else { random.below(10) },
        };
        scans_alike(client, model, &scan)?;
    }
    // A range from an entry to an entry, and one from a key to itself.
    let keys: Vec<Vec<u8>> = model.scan(&Scan::all(FIRST)).map(|(key, _)| key.to_vec()).collect();
    for direction in [Direction::Forward, Direction::Backward] {
        if let [first, .., last] = &keys[..] {
            let (from, until) = if direction == Direction::Forward { (first, last) } else { (last, first) };
            let scan = Scan { table: FIRST, from: Some(from), until: Some(until), direction, limit: u64::MAX };
            scans_alike(client, model, &scan)?;
            scans_alike(client, model, &Scan { until: Some(from), ..scan })?;
        }
    }
    Ok(())
}

pub(super) fn many_keys(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open()?;
    {
        let mut client = store.client()?;
        let mut batch = Batch::new();
        for number in 0..100_u8 {
            batch.put(FIRST, &[number], &[number; 3][..usize::from(number % 4)]);
        }
        write(&mut *client, &batch)?;
        look(&mut *client)?;
        // In no order, one twice, one missing.
        let keys: [&[u8]; 6] = [&[7], &[99], &[200], &[7], &[0], &[50]];
        let mut found = vec![None; keys.len()];
        client.multi_get(FIRST, &keys, &mut |at, value| found[at] = Some(value.to_vec()))?;
        for (key, value) in keys.iter().zip(found) {
            let single = get(&mut *client, FIRST, key)?;
            ensure!(value == single, "{key:?} has {value:?} with others and {single:?} alone");
        }
        client.multi_get(FIRST, &[], &mut |_, _| {})?;
    }
    store.close()
}
