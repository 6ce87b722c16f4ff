//! What a transaction writes and does not read back: kept as it comes, and sorted at the commit.

use crate::base::{Kind, TableId};

use super::batch::Batch;
use super::table_handle::Table;

/// The puts of a transaction that it does not see itself.
#[derive(Debug, Default)]
pub(super) struct UnseenWrites {
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
    writes: Vec<Write>,
    tables: Vec<Table>,
}

/// A put: where its key and its value are.
#[derive(Clone, Copy, Debug)]
struct Write {
    table: usize,
    /// The first bytes of the key, so that most comparisons look at no key.
    head: u64,
    key: usize,
    value: usize,
    end: usize,
}

impl UnseenWrites {
    pub(super) fn push(&mut self, table: &Table, key: &[u8], value: &[u8]) {
        let id = |table: &Table| -> TableId { table.state().id };
        let known = self.tables.iter().rposition(|known| id(known) == id(table));
        let table = known.unwrap_or_else(|| {
            self.tables.push(table.clone());
            self.tables.len() - 1
        });
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let (value, end) = (start + key.len(), self.bytes.len());
        self.writes.push(Write { table, head: head_of(key), key: start, value, end });
    }

    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    /// Keeps the first `len` writes.
    pub(super) fn truncate(&mut self, len: usize) {
        self.writes.truncate(len);
        self.bytes.truncate(self.writes.last().map_or(0, |last| last.end));
    }

    /// The keys, and their tables.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&Table, &[u8])> {
        self.writes.iter().map(|write| (&self.tables[write.table], &self.bytes[write.key..write.value]))
    }

    /// Adds the writes to a batch, table by table in the order of their keys.
    pub(super) fn add_to(&self, batch: &mut Batch) {
        let bytes = &self.bytes;
        let mut add = |write: &Write| {
            let (key, value) = (&bytes[write.key..write.value], &bytes[write.value..write.end]);
            batch.push(&self.tables[write.table], Kind::Put, key, value);
        };
        if let [only] = &self.writes[..] {
            return add(only);
        }
        let mut writes = self.writes.clone();
        writes.sort_unstable_by(|a, b| {
            let keys = || bytes[a.key..a.value].cmp(&bytes[b.key..b.value]);
            // Of two puts of a key the later one is behind the other.
            a.table.cmp(&b.table).then(a.head.cmp(&b.head)).then_with(keys).then(a.key.cmp(&b.key))
        });
        writes.iter().for_each(add);
    }
}

/// The first eight bytes of a key as a number, zeros behind a shorter one: in the order of the keys where different.
fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(head)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::ErrorKind;
    use crate::db::{Database, Durability, Options};
    use crate::env::sim::SimEnv;
    use crate::table::TableOptions;

    fn open() -> Database {
        let options = Options { memory_bytes: 64 << 20, ..Options::default() };
        Database::builder("/db").env(SimEnv::new(1).env()).options(options).open().unwrap()
    }

    #[test]
    fn unseen_puts_are_there_after_the_commit_and_not_before() {
        let db = open();
        let (a, b) = ["a", "b"].map(|name| db.create_table(name, TableOptions::default()).unwrap()).into();
        let mut txn = db.begin();
        for number in [5_u8, 1, 200, 7, 3] {
            txn.put_unseen(&a, [number; 9], [number]).unwrap();
            txn.put_unseen(&b, [number], b"").unwrap();
        }
        txn.put(&a, b"seen", b"1").unwrap();
        txn.put_unseen(&a, [1; 9], b"again").unwrap();
        assert_eq!(txn.get(&a, [1; 9]).unwrap(), None);
        assert_eq!(txn.range(&a, ..).count(), 1);
        txn.commit().unwrap();
        let keys: Vec<_> = db.snapshot().range(&a, ..).map(|entry| entry.unwrap()).collect();
        assert_eq!(keys.len(), 6);
        assert_eq!(&*keys[0].1, b"again");
        assert_eq!(db.snapshot().range(&b, ..).map(|entry| entry.unwrap().0[0]).collect::<Vec<_>>(), [1, 3, 5, 7, 200]);
    }

    /// Keys that begin alike, whatever follows, and twice each.
    #[test]
    fn of_two_unseen_puts_of_a_key_the_later_one_counts() {
        let db = open();
        let table = db.create_table("t", TableOptions::default()).unwrap();
        let keys: Vec<Vec<u8>> = (0..40_u8)
            .flat_map(|number| {
                [vec![number; 12], (number..number + 12).collect(), (number..number + 12).rev().collect()]
            })
            .chain((0..40_u8).map(|number| [&b"the same"[..], &[number, 40 - number]].concat()))
            .collect();
        let mut txn = db.begin();
        for (number, key) in keys.iter().chain(&keys).enumerate() {
            txn.put_unseen(&table, key, number.to_be_bytes()).unwrap();
        }
        txn.commit().unwrap();
        for (number, key) in keys.iter().enumerate() {
            let last = (number + keys.len()).to_be_bytes();
            assert_eq!(table.get(key).unwrap().as_deref(), Some(&last[..]), "{key:?}");
        }
    }

    #[test]
    fn unseen_puts_conflict_and_are_undone_as_others_are() {
        let db = open();
        let table = db.create_table("t", TableOptions::default()).unwrap();
        let mut txn = db.begin();
        txn.put_unseen(&table, b"kept", b"1").unwrap();
        let before = txn.savepoint();
        txn.put_unseen(&table, b"undone", b"1").unwrap();
        txn.rollback_to(&before).unwrap();
        txn.put_unseen(&table, b"later", b"1").unwrap();
        txn.commit().unwrap();
        let keys: Vec<_> = db.snapshot().range(&table, ..).map(|entry| entry.unwrap().0).collect();
        assert_eq!(keys, [b"kept".to_vec(), b"later".to_vec()]);
        let mut txn = db.begin();
        txn.put_unseen(&table, b"kept", b"2").unwrap();
        table.put(b"kept", b"3").unwrap();
        assert_eq!(txn.commit_with(Durability::Buffered).unwrap_err().kind(), ErrorKind::Conflict);
        let mut txn = db.begin();
        assert_eq!(txn.put_unseen(&table, b"", b"").unwrap_err().kind(), ErrorKind::Invalid);
        let value = vec![0; 1 << 20];
        let refused = (0..64_u8).find_map(|number| txn.put_unseen(&table, [number], &value).err());
        assert_eq!(refused.unwrap().kind(), ErrorKind::TooLarge);
    }
}
