//! Opening, closing, and the verbs of an open database.

use super::ground::{FIRST, Ground, SECOND, get, look, put, random_batch, same, write};
use crate::driver::config::Durability;
use crate::driver::lacks::unless_lacking;
use crate::driver::model::Model;
use crate::random::Random;
use anyhow::{Context as _, Result, ensure};

pub(super) fn reopen(ground: &Ground<'_>) -> Result<()> {
    let (mut model, mut random) = (Model::new(2), Random::new(4));
    for _ in 0..3 {
        let store = ground.open()?;
        {
            let mut client = store.client()?;
            look(&mut *client)?;
            same(&mut *client, &model).context("after a reopen")?;
            let batch = random_batch(&mut random, 300);
            write(&mut *client, &batch)?;
            model.apply(&batch, &mut Vec::new());
        }
        if unless_lacking(store.sync())?.is_err() {
            unless_lacking(store.flush())?.ok();
        }
        store.close()?;
    }
    Ok(())
}

pub(super) fn verbs(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open()?;
    let (mut model, mut random) = (Model::new(2), Random::new(5));
    ensure!(!store.settings().is_empty(), "there are no settings to report");
    for _ in 0..2 {
        let mut client = store.client()?;
        let batch = random_batch(&mut random, 300);
        write(&mut *client, &batch)?;
        model.apply(&batch, &mut Vec::new());
        for verb in [
            store.hold(true),
            store.hold(false),
            store.sync(),
            store.flush(),
            store.wait_idle(),
            store.compact_level(0),
            store.compact_level(1),
            store.compact_all(),
            store.wait_idle(),
        ] {
            unless_lacking(verb)?.ok();
        }
        let shape = store.shape()?;
        ensure!(shape.is_empty() || shape.len() == 2, "two tables have {} shapes", shape.len());
        store.counters()?;
        look(&mut *client)?;
        same(&mut *client, &model)?;
    }
    let size = crate::measure::directory_size(&ground.dir, &|path| store.is_log(path))?;
    ensure!(size.allocated_bytes > 0 || !store.processes().is_empty(), "the database takes no space");
    store.close()
}

pub(super) fn durabilities(ground: &Ground<'_>) -> Result<()> {
    std::fs::create_dir_all(&ground.dir)?;
    let mut opened = 0;
    for (number, durability) in
        [Durability::Sync, Durability::Interval(10), Durability::Buffered, Durability::NoLog].into_iter().enumerate()
    {
        let dir = ground.dir.join(number.to_string());
        let text = || format!("with {durability:?}");
        let Ok(store) = unless_lacking(ground.open_at(&dir, durability)).with_context(text)? else { continue };
        opened += 1;
        {
            let mut client = store.client()?;
            put(&mut *client, FIRST, b"k", b"1").with_context(text)?;
            put(&mut *client, SECOND, b"k", b"2").with_context(text)?;
            look(&mut *client)?;
            ensure!(get(&mut *client, FIRST, b"k")?.as_deref() == Some(b"1"), "no value with {durability:?}");
        }
        if durability == Durability::NoLog {
            store.flush().with_context(text)?;
        }
        store.close().with_context(text)?;
        let store = ground.open_at(&dir, durability).with_context(text)?;
        {
            let mut client = store.client()?;
            look(&mut *client)?;
            let value = get(&mut *client, SECOND, b"k")?;
            ensure!(value.as_deref() == Some(b"2"), "{durability:?}: a reopened database has {value:?}");
        }
        store.close().with_context(text)?;
    }
    ensure!(opened > 0, "no durability opens");
    Ok(())
}
