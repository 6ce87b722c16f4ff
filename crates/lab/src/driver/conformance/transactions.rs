//! Transactions: alone, against a model, and of two threads.

use super::ground::{FIRST, Ground, SECOND, commit, get, gets_alike, keys, look, put, random_batch, same, write};
use super::reads::every_scan;
use crate::driver::batch::Batch;
use crate::driver::client::{Client, Outcome};
use crate::driver::model::Model;
use crate::random::Random;
use anyhow::{Context as _, Result, ensure};

pub(super) fn isolated(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open_for_transactions()?;
    {
        let (mut client, mut other) = (store.client()?, store.client()?);
        put(&mut *client, FIRST, b"k", b"old")?;
        client.begin()?;
        put(&mut *client, FIRST, b"k", b"new")?;
        put(&mut *client, SECOND, b"k", b"new")?;
        ensure!(get(&mut *client, FIRST, b"k")?.as_deref() == Some(b"new"), "a transaction does not see its own write");
        let mut value = Vec::new();
        client.get_for_update(SECOND, b"k", &mut |found| value = found.to_vec())?;
        ensure!(value == b"new", "a read for update does not see the transaction's own write");
        look(&mut *other)?;
        ensure!(get(&mut *other, FIRST, b"k")?.as_deref() == Some(b"old"), "a write is seen before its commit");
        ensure!(get(&mut *other, SECOND, b"k")?.is_none(), "a key is seen before its commit");
        commit(&mut *client)?;
        look(&mut *other)?;
        ensure!(get(&mut *other, FIRST, b"k")?.as_deref() == Some(b"new"), "a commit is not seen by others");
        ensure!(get(&mut *other, SECOND, b"k")?.as_deref() == Some(b"new"), "half of a commit is not seen by others");
        look(&mut *client)?;
        ensure!(get(&mut *client, SECOND, b"k")?.as_deref() == Some(b"new"), "a commit is not seen by its client");
    }
    store.close()
}

pub(super) fn rollback(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open_for_transactions()?;
    let mut model = Model::new(2);
    {
        let mut client = store.client()?;
        let mut batch = Batch::new();
        batch.put(FIRST, b"kept", b"1");
        batch.put(FIRST, b"changed", b"1");
        write(&mut *client, &batch)?;
        model.apply(&batch, &mut Vec::new());
        client.begin()?;
        batch.clear();
        batch.delete(FIRST, b"kept");
        batch.put(FIRST, b"changed", b"2");
        batch.put(SECOND, b"new", b"2");
        write(&mut *client, &batch)?;
        client.rollback()?;
        look(&mut *client)?;
        same(&mut *client, &model)?;
        // A transaction without changes ends both ways.
        client.begin()?;
        client.rollback()?;
        client.begin()?;
        commit(&mut *client)?;
        // One that is dropped is rolled back, and its locks are gone.
        client.begin()?;
        write(&mut *client, &batch)?;
        drop(client);
        let mut client = store.client()?;
        look(&mut *client)?;
        same(&mut *client, &model)?;
        write(&mut *client, &batch)?;
        model.apply(&batch, &mut Vec::new());
        look(&mut *client)?;
        same(&mut *client, &model)?;
    }
    store.close()
}

pub(super) fn model(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open_for_transactions()?;
    let (mut model, mut random) = (Model::new(2), Random::new(2));
    {
        let mut client = store.client()?;
        for _ in 0..12 {
            client.begin()?;
            let mut undo = Vec::new();
            for _ in 0..=random.below(3) {
                let batch = random_batch(&mut random, 60);
                write(&mut *client, &batch)?;
                model.apply(&batch, &mut undo);
                for (table, key) in keys(&batch) {
                    gets_alike(&mut *client, &model, table, key)?;
                }
                every_scan(&mut *client, &model, &mut random)?;
            }
            if random.below(3) == 0 {
                client.rollback()?;
                model.take_back(&mut undo);
            } else {
                commit(&mut *client)?;
            }
            look(&mut *client)?;
            same(&mut *client, &model)?;
        }
    }
    store.close()
}

/// Two threads add to two counters, each in the order that suits a deadlock least; a conflict is run again.
pub(super) fn threads(ground: &Ground<'_>) -> Result<()> {
    const ROUNDS: u64 = 50;
    let store = ground.open_for_transactions()?;
    store.client()?.begin()?;
    put(&mut *store.client()?, FIRST, b"counter", &0_u64.to_be_bytes())?;
    put(&mut *store.client()?, SECOND, b"counter", &0_u64.to_be_bytes())?;
    std::thread::scope(|scope| {
        let add = || -> Result<()> {
            let mut client = store.client()?;
            let mut done = 0;
            while done < ROUNDS {
                done += u64::from(add_one(&mut *client)? == Outcome::Done);
            }
            Ok(())
        };
        let threads = [scope.spawn(add), scope.spawn(add)];
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    {
        let mut client = store.client()?;
        look(&mut *client)?;
        for table in [FIRST, SECOND] {
            let sum = get(&mut *client, table, b"counter")?;
            let wanted = (2 * ROUNDS).to_be_bytes();
            ensure!(sum.as_deref() == Some(&wanted), "two threads counted to {sum:?}, not {wanted:?}");
        }
    }
    store.close()
}

fn add_one(client: &mut dyn Client) -> Result<Outcome> {
    client.begin()?;
    for table in [FIRST, SECOND] {
        let mut count = None;
        client.get_for_update(table, b"counter", &mut |value| count = value.try_into().ok().map(u64::from_be_bytes))?;
        let mut batch = Batch::new();
        batch.put(table, b"counter", &(count.context("the counter is gone")? + 1).to_be_bytes());
        if client.write(&batch)? == Outcome::Conflict {
            return Ok(Outcome::Conflict);
        }
    }
    client.commit()
}
