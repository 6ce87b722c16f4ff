//! Snapshots of earlier moments, while a history is kept.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use spinney::{Database, Layout, Options, SeqNum, Table, TableOptions};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 40;
const ROUNDS: u64 = 400;

fn all(database: &spinney::Snapshot, table: &Table) -> Model {
    database.range(table, ..).map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

/// Changes keys that were changed before, each change at a moment of its own, beside flushes and compactions.
fn change(table: &Table, model: &mut Model, round: u64, random: u64) {
    let key = (random % KEYS).to_be_bytes().to_vec();
    match random % 11 {
        0 => {
            table.delete(&key).unwrap();
            model.remove(&key);
        }
        1 => {
            let end = (random % KEYS + 4).to_be_bytes().to_vec();
            table.delete_range(key.clone()..end.clone()).unwrap();
            model.retain(|known, _| *known < key || *known >= end);
        }
        _ => {
            let value = round.to_le_bytes().repeat(20);
            table.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

#[test]
fn each_moment_of_a_history_can_be_read_whatever_was_flushed_and_compacted() {
    for layout in [Layout::BTree, Layout::Lsm, Layout::LsmTiered] {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("db"), Options::default()).unwrap();
        let table = database.create_table("t", TableOptions::default().layout(layout)).unwrap();
        let (mut model, mut random) = (Model::new(), 7_u64);
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 33
        };
        for round in 0..ROUNDS {
            change(&table, &mut model, round, next());
        }
        table.flush().unwrap();
        let before = database.snapshot().seqnum();
        table.put("last", "").unwrap();
        model.insert(b"last".to_vec(), Vec::new());
        let mut history = database.keep_history();
        assert!(history.snapshot_at(before).is_none(), "it was overwritten before");
        let mut moments: BTreeMap<SeqNum, Model> = [(history.oldest(), model.clone())].into();
        for round in 0..ROUNDS {
            change(&table, &mut model, round, next());
            moments.insert(database.snapshot().seqnum(), model.clone());
            match next() % 40 {
                0 => table.flush().unwrap(),
                1 => table.compact().unwrap(),
                2 => {
                    let oldest = *moments.keys().nth(moments.len() / 2).unwrap();
                    history.forget_before(oldest);
                    moments.retain(|moment, _| *moment >= oldest);
                    assert_eq!(history.oldest(), oldest);
                }
                _ => {}
            }
        }
        table.compact().unwrap();
        for (moment, model) in &moments {
            let snapshot = history.snapshot_at(*moment).unwrap();
            assert_eq!(all(&snapshot, &table), *model, "{layout:?} at {moment:?}");
        }
        assert!(history.snapshot_at(SeqNum(u64::MAX)).is_none(), "it is not visible yet");
        let (newest, kept) = (database.snapshot(), history.snapshot_at(*moments.keys().next().unwrap()).unwrap());
        drop(history);
        table.compact().unwrap();
        assert_eq!(all(&newest, &table), model);
        assert_eq!(all(&kept, &table), *moments.values().next().unwrap(), "a snapshot outlives the history");
    }
}
