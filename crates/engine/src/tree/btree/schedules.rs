//! Readers of a tree beside the merges that change it, under thousands of schedules: the blocks of a root that is held,
//! and the values pinned in them, stay as they are while their extents are freed, given out again and given back, and
//! the cache lets go of them and takes in others. Run by `cargo xtask schedules`.

use std::path::Path;
use std::sync::Arc;

use shuttle::thread;

use super::*;
use crate::base::sync::check;
use crate::base::{Kind, SeqNum, Value};
use crate::block::Compression;
use crate::cache::{Cache, Fill};
use crate::env::sim::SimEnv;
use crate::tree::cursor::Cursor;
use crate::tree::gc::GcRule;
use crate::tree::vec_cursor::{OwnedEntry, VecCursor};

const MERGES: u64 = 5;
const KEYS: u64 = 12;
const OPTIONS: TreeOptions = TreeOptions { block_bytes: 512, compression: Compression::None, direct: true };
/// CacheReservation for some of the blocks: of each at most a quarter of it.
const CACHE_BYTES: u64 = 8 << 10;

#[derive(Clone)]
struct Shared {
    tree: Arc<BTree>,
    cache: Arc<Cache>,
}

impl Shared {
    fn new() -> Self {
        let cache = Arc::new(Cache::new(CACHE_BYTES));
        let (env, path) = (SimEnv::new(1).env(), Path::new("/tree"));
        let tree = BTree::create(&env, path, 7, OPTIONS, Arc::clone(&cache), Arc::default()).unwrap();
        let shared = Self { tree, cache };
        shared.merge(1);
        shared
    }

    /// Gives every key the number of the merge.
    fn merge(&self, number: u64) {
        let mut root = self.prepare(number);
        // Some come to nothing, as when the manifest cannot be written, and are made again.
        if number.is_multiple_of(3) {
            drop(root);
            root = self.prepare(number);
        }
        self.tree.install(root).unwrap();
    }

    fn prepare(&self, number: u64) -> PendingRoot {
        let entry = |key: u64| OwnedEntry {
            key: key.to_be_bytes().to_vec(),
            seqnum: SeqNum(number),
            kind: Kind::Put,
            value: vec![number as u8; 120],
        };
        let mut changes = VecCursor::new((0..KEYS).map(entry).collect());
        let mut gc = GcRule::new(Vec::new(), SeqNum(number), true);
        let permit = self.tree.merge_permit().expect("nobody else merges");
        self.tree.merge(permit, &mut changes, &mut gc, number.is_multiple_of(2), &mut || Ok(())).unwrap()
    }

    fn change(&self) {
        for number in 2..=MERGES {
            self.merge(number);
            let permit = self.tree.merge_permit().expect("nobody else merges");
            self.tree.punch_free(&permit, 0).unwrap();
        }
    }

    /// Reads what a root shows, twice and in two ways; what was read first is the same at the end.
    fn read(&self, fill: Fill) {
        for _ in 0..2 {
            let root = self.tree.root();
            let number = root.seqnum_bounds().largest.0 as u8;
            let pinned: Vec<_> = (0..KEYS).map(|key| self.get(&root, key)).collect();
            let mut cursor = BTreeCursor::over(&root, fill);
            cursor.first().unwrap();
            let mut seen = 0_u64;
            while let Some(entry) = cursor.entry() {
                assert_eq!((entry.key, entry.value), (&seen.to_be_bytes()[..], &[number; 120][..]));
                seen += 1;
                cursor.next().unwrap();
            }
            assert_eq!(seen, KEYS);
            drop((cursor, root));
            thread::yield_now();
            assert!(pinned.iter().all(|value| **value == [number; 120]), "values pinned in blocks change");
        }
    }

    fn get(&self, root: &Arc<TreeRoot>, key: u64) -> Value {
        root.get(&key.to_be_bytes(), SeqNum(u64::MAX >> 8)).unwrap().expect("it is there").value
    }

    fn copy_blocks(&self) {
        for _ in 0..4 {
            self.cache.copy_blocks(|_| true);
            thread::yield_now();
        }
    }

    fn shrink_cache(&self) {
        for bytes in [0, CACHE_BYTES, 4 << 10, CACHE_BYTES] {
            self.cache.fit(|_| Some(bytes));
            assert!(self.cache.bytes() <= CACHE_BYTES);
            thread::yield_now();
        }
    }
}

#[test]
fn what_a_reader_holds_stays_while_extents_and_cache_go_on() {
    check(|| {
        let shared = Shared::new();
        let start = |user: fn(&Shared)| {
            let shared = shared.clone();
            thread::spawn(move || user(&shared))
        };
        let users: [fn(&Shared); 5] = [
            Shared::change,
            |shared| shared.read(Fill::Keep),
            |shared| shared.read(Fill::Bypass),
            Shared::shrink_cache,
            Shared::copy_blocks,
        ];
        users.map(start).into_iter().for_each(|user| user.join().unwrap());
        let root = shared.tree.root();
        assert_eq!(shared.tree.verify(&root).unwrap().entries, KEYS);
        assert_eq!(root.seqnum_bounds().largest, SeqNum(MERGES));
    });
}
