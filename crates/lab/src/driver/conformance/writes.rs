//! Puts, deletes and batches.

use super::ground::{FIRST, Ground, SECOND, get, gets_alike, look, put, same, scan, write};
use crate::driver::batch::Batch;
use crate::driver::client::Scan;
use crate::driver::config::TableId;
use crate::driver::model::Model;
use crate::random::Random;
use anyhow::{Result, ensure};
use spinney::base::num::usize_of;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn what_is_put_is_got(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open()?;
    {
        let mut client = store.client()?;
        let mut has = |table: TableId, key: &[u8], wanted: Option<&[u8]>| -> Result<()> {
            look(&mut *client)?;
            let found = get(&mut *client, table, key)?;
            ensure!(found.as_deref() == wanted, "{key:?} has {found:?}, not {wanted:?}");
            Ok(())
        };
        has(FIRST, b"k", None)?;
        let mut writer = store.client()?;
        put(&mut *writer, FIRST, b"k", b"one")?;
        has(FIRST, b"k", Some(b"one"))?;
        has(SECOND, b"k", None)?;
        has(FIRST, b"kk", None)?;
        put(&mut *writer, FIRST, b"k", b"another")?;
        has(FIRST, b"k", Some(b"another"))?;
        put(&mut *writer, FIRST, b"k", b"")?;
        has(FIRST, b"k", Some(b""))?;
        let mut batch = Batch::new();
        batch.delete(FIRST, b"k");
        batch.delete(SECOND, b"never there");
        write(&mut *writer, &batch)?;
        has(FIRST, b"k", None)?;
        write(&mut *writer, &batch)?;
        write(&mut *writer, &Batch::new())?;
        put(&mut *writer, FIRST, b"k", b"again")?;
        has(FIRST, b"k", Some(b"again"))?;
    }
    store.close()
}

pub(super) fn changes_apply_in_order(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open()?;
    {
        let mut client = store.client()?;
        put(&mut *client, FIRST, b"old", b"v")?;
        let mut batch = Batch::new();
        batch.put(FIRST, b"put, deleted", b"1");
        batch.delete(FIRST, b"put, deleted");
        batch.delete(FIRST, b"old");
        batch.put(FIRST, b"old", b"new");
        batch.put(SECOND, b"twice", b"1");
        batch.put(SECOND, b"twice", b"2");
        write(&mut *client, &batch)?;
        let mut model = Model::new(2);
        model.apply(&batch, &mut Vec::new());
        look(&mut *client)?;
        same(&mut *client, &model)?;
    }
    store.close()
}

pub(super) fn sizes(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open()?;
    let mut model = Model::new(2);
    let mut random = Random::new(3);
    {
        let mut client = store.client()?;
        for len in 1..=500_usize {
            let mut batch = Batch::new();
            // Values around the sizes at which engines store them elsewhere, and some of 100 KB.
            let value_len = if len.is_multiple_of(50) { 100_000 + len } else { len * 17 };
            let mut value = vec![0; value_len];
            random.fill(&mut value);
            batch.put(FIRST, &vec![b'k'; len], &value);
            batch.put(SECOND, &vec![0xff; len], &[]);
            let mut key = vec![0; len];
            random.fill(&mut key);
            batch.put(SECOND, &key, &value[..usize_of(random.below(40)).min(value_len)]);
            write(&mut *client, &batch)?;
            model.apply(&batch, &mut Vec::new());
        }
        look(&mut *client)?;
        same(&mut *client, &model)?;
        for len in 1..=500 {
            gets_alike(&mut *client, &model, FIRST, &vec![b'k'; len])?;
            gets_alike(&mut *client, &model, SECOND, &vec![0xff; len])?;
        }
    }
    store.close()
}

/// A thread counts in both tables with one batch; a view never shows one count without the other.
pub(super) fn batches_are_seen_whole(ground: &Ground<'_>) -> Result<()> {
    let store = ground.open()?;
    store.client()?.view()?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<()> {
            let mut client = store.client()?;
            loop {
                let last = ended.load(Ordering::Acquire);
                client.view()?;
                let first = get(&mut *client, FIRST, b"count")?;
                let second = get(&mut *client, SECOND, b"count")?;
                ensure!(first == second, "a view has {first:?} in one table and {second:?} in the other");
                let entries = scan(&mut *client, &Scan::all(FIRST))?.len();
                let second = scan(&mut *client, &Scan::all(SECOND))?.len();
                ensure!(entries == second, "a view has {entries} entries in one table and {second} in the other");
                if last {
                    ensure!(first == Some(199_u64.to_be_bytes().to_vec()), "the last view has {first:?}");
                    return Ok(());
                }
            }
        });
        let written = (|| {
            let mut client = store.client()?;
            let mut batch = Batch::new();
            for count in 0..200_u64 {
                batch.clear();
                for table in [FIRST, SECOND] {
                    batch.put(table, b"count", &count.to_be_bytes());
                    batch.put(table, &count.to_be_bytes(), b"");
                }
                write(&mut *client, &batch)?;
            }
            Ok(())
        })();
        ended.store(true, Ordering::Release);
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(written)
    })?;
    store.close()
}
